"""What the probe's levels cost, how well they add up and predict, and a table of models.

    python -m tests.bench.probe [levels] [memory] [models] [--seconds 0.5] [--repeats 5] [--frameworks NAME ...]

`levels`: of three tasks, how many times as long a step takes when it is looked at, the phases' residual, and what the
layers' times come to of an unwatched step. `memory`: the peak of six models in training, and what the line through a
quarter and a half of the batch predicts; wanted within 10 %. `models`: images a second of ten models of torchvision
and ten of Keras over the batch, in training and inference, as tf_cnn_benchmarks has them: mean, standard error, jitter.
Without a word, all three. Noisy machines are told as by `python -m suite.probe`.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from suite.measure.machine import detect
from suite.probe import options, showing
from suite.probe.levels.throughput import Throughput
from suite.probe.record import Cell, Figure
from suite.probe.subject import SEED
from suite.probe.sweeping import sweep

WORKLOADS = ("image_classification", "recommendation", "translation")
LEVELS = {
    "phases": ("overhead", "residual"),
    "operators": ("overhead", "host gaps"),
    "layers": ("overhead", "sum of whole"),
    "memory": ("overhead",),
    "flops": ("overhead",),
    "counters": ("overhead",),
    "input": ("overhead", "data phase"),
    "operators-correctness": ("overhead",),
    "trace": ("overhead",),
}
PREDICTED = {
    "torch": ("resnet18", "mobilenet_v2", "squeezenet1_1"),
    "tensorflow": ("MobileNet", "MobileNetV2", "ResNet50"),
}
WANTED = 10  # per cent
MODELS = {
    "torch": (
        "alexnet", "densenet121", "efficientnet_b0", "mobilenet_v2", "mobilenet_v3_small", "resnet18", "resnet50",
        "shufflenet_v2_x1_0", "squeezenet1_1", "vgg11",
    ),
    "tensorflow": (
        "DenseNet121", "EfficientNetB0", "MobileNet", "MobileNetV2", "MobileNetV3Large", "MobileNetV3Small", "ResNet50",
        "ResNet50V2", "VGG16", "VGG19",
    ),
}  # fmt: skip
SIZE = 64
BATCHES = (1, 8)


class Rate(Throughput):
    """Without operations, whose counting takes longer than all else."""

    def _flops(self) -> None:
        """Not counted."""


def levels(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each workload and level."""
    for task in given.tasks:
        for framework, level in product(given.frameworks, given.levels):
            names = LEVELS[level]
            with tempfile.TemporaryDirectory() as folder:
                asked = {"task": task, "framework": framework, "scale": "mini", "precision": "fp32"}
                written = {"trace": f"{folder}/trace.json"} if level == "trace" else {}
                (cell,) = looked_at(level, given, **asked, **written)
            figures = {name: said(cell, name) for name in names}
            yield {"task": task, "framework": framework, "level": level, **figures}


def memory(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each model."""
    for framework in given.frameworks:
        for model in PREDICTED[framework][: given.models]:
            asked = {"model": model, "framework": framework, "batch": "16", "size": str(SIZE), "precision": "fp32"}
            (cell,) = looked_at("memory", given, **asked)
            names = ("peak", "predicted", "error")
            yield {"model": model, "framework": framework, **{name: said(cell, name) for name in names}}


def models(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each model, mode and batch, those of a model measured in turn."""
    shuffled = random.Random(SEED)
    for framework in given.frameworks:
        for model in MODELS[framework][: given.models]:
            asked = {
                "level": "throughput", "model": model, "framework": framework, "mode": "train,infer",
                "batch": ",".join(map(str, BATCHES)), "size": str(SIZE), "precision": "fp32",
                "seconds": str(given.seconds),
            }  # fmt: skip
            measured = [Rate(subject) for subject in options.parse(asked, None, detect()).subjects]
            for _ in range(given.repeats):
                for each in shuffled.sample(measured, len(measured)):
                    each.repeat()
            for cell in (each.found() for each in measured):
                told = {name: said(cell, name) for name in ("samples/s", "SE", "jitter")}
                yield {"model": model, "mode": cell.conditions.mode, "batch": cell.conditions.batch, **told}
            del measured
            gc.collect()


def looked_at(level: str, given: argparse.Namespace, **asked: str) -> list[Cell]:
    """What `python -m suite.probe` finds."""
    found = detect()
    words = {"level": level, "seconds": str(given.seconds), "repeats": str(given.repeats), **asked}
    wanted = options.parse(words, None, found)
    probe = sweep(level, wanted.subjects, wanted.repeats, found, lambda doing: None)
    for why in probe.noisy:
        print(f"NOISY  {why}", file=sys.stderr)
    return probe.cells


def said(cell: Cell, name: str) -> str:
    """A figure as the probe shows it, or why there is none."""
    return showing.text(cell.figures.get(name, Figure(value=None, unit=""))) if not cell.error else cell.error


PARTS = {each.__name__: each for each in (levels, memory, models)}


def main(argv: Sequence[str]) -> int:
    """Print the rows of each part as they come."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.probe", description=str(__doc__).splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="|".join(PARTS), help="which; default: all")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a repeat (default 0.5)")
    parser.add_argument("--repeats", type=int, default=5, help="(default 5)")
    parser.add_argument("--models", type=int, default=10, help="at most so many of a framework (default 10)")
    parser.add_argument("--levels", nargs="*", default=[*LEVELS], help="which levels (default all)")
    parser.add_argument("--frameworks", nargs="*", default=[*MODELS], help=f"(default {' '.join(MODELS)})")
    parser.add_argument("--tasks", nargs="*", default=WORKLOADS, help=f"of levels (default {' '.join(WORKLOADS)})")
    parser.add_argument("--json", action="store_true", help="print a JSON object a line")
    given = parser.parse_args(argv)
    for part in given.parts or PARTS:
        before: list[str] = []
        for row in PARTS[part](given):
            if given.json:
                print(json.dumps({"part": part, **row}), flush=True)
                continue
            if [*row] != before:
                before = [*row]
                print("| " + " | ".join(before) + " |\n" + "|---" * len(before) + "|")
            print("| " + " | ".join(map(str, row.values())) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
