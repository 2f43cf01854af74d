"""What the harness costs: the same steps of image_classification, bare and under the harness, in turn.

    python -m tests.bench.overhead [--pairs 10] [--samples 10000] [--scale small] [--json]

Both train as many samples with the same parameters, and evaluate half-way and at the end. Bare is a loop that trains
and scores, timed from its first step to its last score. The harness is timed by its own log, from run_start to
run_stop, and so with all that it adds: log, slices of a second, live line, sampler, predictions file and, half-way, a
checkpoint. The benchmark itself evaluates after 25,000 samples, so that a run has less of all this than here.
Random images of the data's shape: nothing to download. MLflow is left out, since it is another process.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console

from suite import config
from suite.config.models import Evaluation
from suite.config.plan import Plan
from suite.harness.completing import complete
from suite.harness.contract import evaluation_data, training_data
from suite.harness.implementation import Device, load_implementation
from suite.harness.session import Session
from suite.measure import machine, systems
from suite.store.task import load_task

LIMIT = 1.005  # of the median
UNREACHABLE = 2.0  # as an accuracy: both train to the end
SHAPES = {"mini": (8, 8, 1), "small": (32, 32, 3)}  # of an image


class Sides:
    """The two ways to train `samples` samples, with one machine, benchmark and data; each returns its seconds."""

    def __init__(self, scale: str, samples: int) -> None:
        random = np.random.default_rng(0)
        test = samples // 5
        self.data = {
            "train_images": random.integers(0, 256, (samples, *SHAPES[scale]), np.uint8),
            "train_labels": random.integers(0, 10, samples, np.uint8),
            "test_images": random.integers(0, 256, (test, *SHAPES[scale]), np.uint8),
            "answer_labels": random.integers(0, 10, test, np.uint8),
        }
        changed = {
            "target": UNREACHABLE,
            "evaluation": Evaluation(first=samples // 2, every=samples - samples // 2),
            "budget_samples": samples,
        }
        self.benchmark = config.benchmark("image_classification", scale).model_copy(update=changed)
        self.found = machine.detect()
        self.framework = config.framework("torch")
        self.system = systems.resolve(config.system("cpu"), self.found)
        self.precision = systems.precision_of(self.system, self.found)
        self.task = load_task("image_classification")
        self.module = load_implementation("image_classification", self.framework)

    def bare(self) -> float:
        """A loop as one would write it."""
        device = Device(self.system.device_kind, self.precision)
        implementation = self.module.build(self.benchmark.hyperparameters, training_data(self.data), 1, device)
        evaluation = evaluation_data(self.data)
        samples = 0
        start = time.perf_counter()
        while samples < self.benchmark.budget_samples:
            samples = implementation.train_until(self.benchmark.next_evaluation(samples)).samples
            self.task.score(implementation.predict(evaluation), self.data)
        return time.perf_counter() - start

    def harness(self) -> float:
        """A run of the harness, into a folder that is then deleted."""
        with tempfile.TemporaryDirectory() as folder:
            plan = Plan(
                benchmark=self.benchmark,
                system=self.system,
                framework=self.framework,
                precision=self.precision,
                seeds=(1,),
                token=None,
                witness=None,
                result_id="bench",
                submitter="example-org",
                division="closed",
                status="preview",
                out=Path(folder),
            )
            console = Console(file=io.StringIO())
            session = Session(plan, self.found, self.task, self.module, self.data, console, False, "")
            (summary,), _ = complete(session)
        assert summary.seconds is not None
        return summary.seconds


def main(argv: list[str]) -> int:
    """Measure and print; the exit code is 0 whatever the ratio, for only a quiet machine can tell."""
    given = _arguments(argv)
    sides = Sides(given.scale, given.samples)
    sides.bare()  # what the first steps of a process cost is neither's
    runs = []
    for number in range(1, given.pairs + 1):
        order = (sides.bare, sides.harness) if number % 2 else (sides.harness, sides.bare)
        seconds = {side.__name__: side() for side in order}
        runs.append({**seconds, "ratio": seconds["harness"] / seconds["bare"]})
        if not given.json:
            print("pair {}: bare {bare:.2f} s, harness {harness:.2f} s, ratio {ratio:.4f}".format(number, **runs[-1]))
    median = statistics.median(run["ratio"] for run in runs)
    if given.json:
        print(json.dumps({**vars(given), "runs": runs, "median_ratio": median, "limit": LIMIT}))
    else:
        print(f"median ratio {median:.4f} over {given.pairs} pairs (wanted: at most {LIMIT})")
    return 0


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.overhead", description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10, help="how many times each side runs (default 10)")
    parser.add_argument("--samples", type=int, default=10_000, help="of each run (default 10000: 10 to 20 s)")
    parser.add_argument("--scale", choices=SHAPES, default="small", help="which model and images (default small)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
