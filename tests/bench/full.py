"""Steps of the `full` models of PyTorch on this machine's accelerator, on made-up data that is in memory already.

    python -m tests.bench.full [--tasks language_modeling,image_classification] [--seconds 10] [--set NAME=X] [--json]

What a step takes with nothing to wait for: its rate, its share of the peak (MFU) and the memory that it holds at most.
Building includes compilation. The loaders have a bench of their own, tests/bench/loader.py; translation is not here,
since it needs the subwords of WMT.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from reference_impls.language_modeling.gpt import made_up
from suite import config
from suite.harness.implementation import Device, load_implementation
from suite.measure import machine, systems
from tests.reference_impls.material import few_jpegs, two_shards

CLASSES = 1000
TOKENS = 50_257  # of GPT-2


def measured(task: str, precision: str, seconds: float, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a task's steps. Those without an accelerator or a known peak are None."""
    benchmark, found = config.benchmark(task, "full"), machine.detect()
    accelerator = next(iter(found.accelerators), None)
    kind, memory = ("gpu", accelerator.memory_gb) if accelerator else ("cpu", None)
    begun = time.perf_counter()
    hyper = {**benchmark.hyperparameters, **changes}
    module = load_implementation(task, config.framework("torch"))
    made: Any = module.build(hyper, DATA[task](), 1, Device(kind, precision, memory_gb=memory))
    steps = STEPS[task](made)
    float(made.train_step(next(steps)))
    built = time.perf_counter() - begun
    count, begun = 0, time.perf_counter()
    while (taken := time.perf_counter() - begun) < seconds or not count:
        loss = float(made.train_step(next(steps)))
        count += 1
    rate = count * made.hyper.global_batch_size / taken
    attained = None if changes else rate * benchmark.train_flops_per_sample
    peak = systems.system_here(systems.AUTO, found).peak_flops(precision)
    return {
        "task": task,
        "precision": precision,
        "on": accelerator.name if accelerator else found.cpu_model,
        "built in, s": built,
        "steps": count,
        "a step, ms": 1000 * taken / count,
        "samples/s": rate,
        "TFLOP/s": attained and attained / 1e12,
        "MFU": attained and peak and attained / peak,
        "memory, GB": torch.cuda.max_memory_allocated() / 1e9 if accelerator else None,
        "last loss": loss,
    }


def tokens() -> dict[str, np.ndarray]:
    """Text of as many kinds of tokens as the shards of `full` have."""
    return two_shards() | {"vocabulary": np.arange(TOKENS, dtype=np.uint16)}


def pictures() -> dict[str, np.ndarray]:
    """Pictures of as many classes as ImageNet has."""
    return few_jpegs() | {"classes": np.arange(CLASSES, dtype=np.uint16)}


def sequences(made: Any) -> Iterator[Any]:
    """The same made-up sequences for each step."""
    given = made_up(made.hyper, made.share)
    while True:
        yield given


def groups(made: Any) -> Iterator[Any]:
    """For each step as many groups as it takes, of the same noise."""
    random, side = np.random.default_rng(0), made.hyper.image_size
    images = random.integers(0, 256, (made.hyper.norm_batch_size, side, side, 3), np.uint8)
    labels = random.integers(0, CLASSES, len(images))
    while True:
        yield iter([(images, labels)] * made.groups)


DATA = {"language_modeling": tokens, "image_classification": pictures}
STEPS = {"language_modeling": sequences, "image_classification": groups}


def main(arguments: list[str]) -> int:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.full", description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", default=",".join(DATA))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--set", action="append", default=[], help="NAME=VALUE of a hyperparameter")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    changes = {name: json.loads(value) for name, _, value in (each.partition("=") for each in options.set)}
    rows = [measured(task, options.precision, options.seconds, changes) for task in options.tasks.split(",")]
    if options.json:
        print(json.dumps(rows))
        return 0
    table = Table("", *(row.pop("task") for row in rows))
    for name in rows[0]:
        values = [row[name] for row in rows]
        table.add_row(name, *(f"{each:,.4g}" if isinstance(each, float) else str(each) for each in values))
    Console().print(table)
    return 0


if __name__ == "__main__":
    faulthandler.enable()
    sys.exit(main(sys.argv[1:]))
