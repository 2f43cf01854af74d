"""What the made-up evidence is of: a benchmark with free hyperparameters, machines, and predictions that score."""

from __future__ import annotations

import random
from functools import cache
from importlib import metadata
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite import config
from suite.config.contestant import Contestant
from suite.config.models import Evaluation, Formula, Range
from suite.measure.accelerators.devices import Accelerator
from suite.measure.machine import Machine
from suite.record import mllog
from suite.store import code
from suite.store.arrays import prepared
from suite.store.task import load_task

FREE = {
    "global_batch_size": Range(low=50, high=400, multiple_of=50),
    "muon_learning_rate": Formula(proportional_to="global_batch_size", tolerance=0.01),
    "whiten_bias_epochs": Formula(proportional_to="global_batch_size", power=0.0, tolerance=0.5),  # a whole number
}
CADENCE = Evaluation(first=4000, every=1000)
FLOPS = 1e11  # of a training sample: two logical CPUs need ten seconds for a run of `write_run`
BENCHMARK = config.benchmark("image_classification", "mini").model_copy(
    update={"free": FREE, "evaluation": CADENCE, "budget_samples": 24_000, "train_flops_per_sample": FLOPS}
)
EVERY = CADENCE.every  # of which the first evaluation is a multiple
WITNESS = "http://stamps.example.org/"
DECLARED = {"submitter": "someone", "division": keys.CLOSED, "status": keys.RESEARCH}
RUN_MS = 30_000
BEGUN_MS = mllog.EARLIEST_MS + 24 * 3_600_000  # the first run of a result
APART_MS = 60_000  # the beginnings of two runs
REVISION = "1" * 40  # of the code; the reviewer's repository has it, and none of seven
UNKNOWN_REVISION = "7" * 40
OWN_CODE = {"__init__.py": b"import torch\n\nfrom .model import build\n", "model.py": b"ACCELERATORS = 1\n"}
CONTESTANT = Contestant(
    name="ours",
    entry="__init__.py",
    files=code.sums(OWN_CODE),
    imports={"torch": metadata.version("torch")},
    revision=None,
    dirty=None,
)
CPU_ONLY = Machine(cpu_model="a CPU", logical_cpus=2, sockets=1, memory_gb=8.0, cpu_bf16=True)
WITH_H200 = Machine(
    cpu_model="a CPU",
    logical_cpus=2,
    sockets=1,
    memory_gb=8.0,
    cpu_bf16=True,
    accelerators=(Accelerator("NVIDIA H200", 139.8, "sm_90", True),),
)

Record = dict[str, Any]


@cache
def right_predictions() -> list[int]:
    data = prepared(BENCHMARK, load_task(BENCHMARK.task))
    return [int(label) for label in data["answer_labels"]]


def nearly_right(draw: random.Random) -> list[int]:
    """Predictions that meet the target, of which a few are wrong."""
    wrong = set(draw.sample(range(len(right_predictions())), 5))
    return [(answer + 1) % 10 if at in wrong else answer for at, answer in enumerate(right_predictions())]


def guesses(draw: random.Random) -> list[int]:
    """Predictions below the target, of which some are right."""
    right = draw.randrange(100, 700)
    return [answer if at < right else (answer + 1) % 10 for at, answer in enumerate(right_predictions())]


def accuracy(predictions: list[int]) -> float:
    answers = right_predictions()
    return sum(a == b for a, b in zip(predictions, answers, strict=True)) / len(answers)
