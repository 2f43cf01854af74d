"""The process in which a stranger's implementation trains: one job a line on standard input, one answer a line back.

The arrays and states that it is given lie where it cannot write; the evaluation arrays come there only after the build.
Whatever the implementation prints goes to standard error.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from suite import config
from suite.harness import contract
from suite.harness.contestant import read
from suite.harness.contract import Checked
from suite.harness.implementation import Device, load_implementation
from suite.record import states
from suite.record.evidence import write_predictions
from suite.store.disk import FULL, partial


def arrays(folder: str) -> dict[str, np.ndarray]:
    """The arrays in `folder`, one .npy each, read-only."""
    return {path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in sorted(Path(folder).glob("*.npy"))}


class Worker:
    """Does one job after the other: a job's name is that of a method, and its values are the arguments."""

    made: Checked

    def build(
        self,
        task: str,
        framework: str,
        scale: str,
        hyperparameters: dict[str, Any],
        seed: int,
        kind: str,
        precision: Any,
        training: str,
        memory_gb: float | None = None,
        own: str | None = None,
    ) -> dict[str, Any]:
        """Build the implementation in the folder `own`, or the reference in `framework`, on this machine.

        `training` is the folder of the training arrays.
        """
        reference = config.framework(framework)
        module = read(Path(own), framework).load(task) if own else load_implementation(task, reference)
        benchmark = config.benchmark(task, scale).model_copy(update={"hyperparameters": hyperparameters})
        device = Device(kind, precision, memory_gb=memory_gb)
        self.made = contract.build(module, benchmark, arrays(training), seed, device)
        return {}

    def load(self, state: str) -> dict[str, Any]:
        """Take over the state in a file."""
        self.made.load_state_dict(states.read(Path(state))[0])
        return {}

    def train(self, to: int) -> dict[str, Any]:
        """Train until `to` samples; a loss that is not finite is None, as in a log."""
        stats = self.made.train_until(to)
        known = stats.loss is not None and math.isfinite(stats.loss)
        return {"samples": stats.samples, "loss": stats.loss if known else None}

    def state(self) -> dict[str, Any]:
        """Compute the state, and so finish all training that was put off."""
        self.made.state_dict()
        return {}

    def save(self, state: str) -> dict[str, Any]:
        """Write the state to a file."""
        states.write(Path(state), self.made.state_dict(), 0)
        return {}

    def predict(self, evaluation: str, predictions: str) -> dict[str, Any]:
        """Write the predictions for the arrays of a folder to a file, as a run does."""
        path = Path(predictions)
        write_predictions(path, self.made.predict(arrays(evaluation)))
        partial(path).replace(path)
        return {}


def main() -> None:
    """Answer each job until there is none; an error is an answer too."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    worker = Worker()
    for line in sys.stdin:
        job = json.loads(line)
        do: Callable[..., dict[str, Any]] = getattr(worker, job.pop("do"))
        try:
            answer = do(**job)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:1000]}
            answer["full"] = isinstance(error, OSError) and error.errno in FULL
        answers.write(json.dumps(answer, default=float) + "\n")
