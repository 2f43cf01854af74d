"""What the harness costs: the same steps of image_classification/small, bare and under the harness, in turn.

`make bench` prints the ratio of each pair and their median. Random images of CIFAR-10's shapes: nothing to download;
MLflow is left out on both sides, since it is another process.
"""

import io
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console

from suite import config
from suite.config.plan import Plan
from suite.harness.implementation import Device, load_implementation
from suite.harness.session import Session
from suite.measure import machine
from suite.store.task import load_task

PAIRS, BLOCK, BLOCKS = 5, 5_000, 4


def main() -> None:
    """Measure and print."""
    random = np.random.default_rng(0)
    data = {
        "train_images": random.integers(0, 256, (20_000, 32, 32, 3), np.uint8),
        "train_labels": random.integers(0, 10, 20_000, np.uint8),
        "test_images": random.integers(0, 256, (2_000, 32, 32, 3), np.uint8),
        "answer_labels": random.integers(0, 10, 2_000, np.uint8),
    }
    benchmark = config.benchmark("image_classification", "small").model_copy(
        update={
            "target": 2.0,
            "evaluation": config.Evaluation(first=BLOCK, every=BLOCK),
            "budget_samples": BLOCK * BLOCKS,
        }
    )
    found = machine.detect()
    framework = config.framework("torch")
    system = machine.resolve(config.system("cpu"), found)
    precision = machine.precision_of(system, found)
    task, module = load_task("image_classification"), load_implementation("image_classification", framework)

    def plan(folder: str) -> Plan:
        return Plan(benchmark, system, framework, precision, (1,), "bench", "example-org", Path(folder))

    def bare() -> float:
        implementation = module.build(benchmark.hyperparameters, data, 1, Device(system.device_kind, precision))
        start = time.perf_counter()
        for block in range(1, BLOCKS + 1):
            implementation.train_until(block * BLOCK)
            task.score(implementation.predict(), data)
        return time.perf_counter() - start

    def harnessed() -> float:
        with tempfile.TemporaryDirectory() as folder:
            console = Console(file=io.StringIO())
            made = Session(plan(folder), found, task, module, data, console, mlflow=False)
            seconds = made.run(1).seconds
        assert seconds is not None
        return seconds

    bare()
    ratios = []
    for pair in range(1, PAIRS + 1):
        order = (bare, harnessed) if pair % 2 else (harnessed, bare)
        seconds = {measure: measure() for measure in order}
        ratios.append(seconds[harnessed] / seconds[bare])
        print(f"pair {pair}: bare {seconds[bare]:.2f} s, harness {seconds[harnessed]:.2f} s, ratio {ratios[-1]:.4f}")
    print(f"median ratio {statistics.median(ratios):.4f} over {PAIRS} pairs (at most 1.005)")


if __name__ == "__main__":
    main()
