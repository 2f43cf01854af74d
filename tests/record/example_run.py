"""A small run's evidence, written step by step as the harness writes it."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from unittest import mock

import yaml
from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from suite.measure import samples
from suite.record import evidence, mllog

METRIC = "accuracy"
STEP_S = 10  # by the log's clock, each block takes this long


class SteppedClock:
    """A clock that stands still until it is moved."""

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def now_ms(self) -> int:
        """The current time in milliseconds since 1970."""
        return self.ms


class ExampleRun:
    """`begin`, any number of `block`s, `end`, `seal`; or all of it with `complete`."""

    def __init__(self, folder: Path, index: int = 1, runs: int = 1, result_id: str = "") -> None:
        self.folder = folder
        self.result_id = result_id or uuid.uuid4().hex
        self.run_id, self.index, self.runs, self.samples = f"{self.result_id}-{index}", index, runs, 0
        folder.mkdir(parents=True)
        self.clock = SteppedClock(1_700_000_000_000)
        with mock.patch.object(mllog, "begun", return_value=self.clock):
            self.log = mllog.Log(folder / evidence.LOG)

    def begin(self) -> ExampleRun:
        """Everything up to run_start."""
        identity = {"run_id": self.run_id, "result_id": self.result_id, "run_index": self.index, "runs": self.runs}
        benchmark = {"metric": METRIC, "target": 0.97, "hyperparameters": {"learning_rate": 0.1}, "reference": None}
        config = {"task": "toy", "benchmark": benchmark, "seed": self.index, "array": [1, 2], **identity}
        (self.folder / evidence.CONFIG).write_text(yaml.safe_dump(config))
        (self.folder / evidence.SYSTEM).write_text(json.dumps({"description": {}}))
        (self.folder / evidence.POWER).write_text(samples.HEADER + "\n")
        names = {"task": "toy", "scale": "mini", "framework": "torch", "system": "cpu"}
        self.log.event(keys.SUBMISSION_BENCHMARK, "toy/mini")
        self.log.event(keys.SUBMISSION_DIVISION, keys.CLOSED)
        self.log.event(logkeys.CONFIG, "0" * 64, **identity, **names, git_revision="abc", git_dirty=False)
        self.log.event(keys.SEED, self.index)
        self.log.event(logkeys.ENVIRONMENT, "quiet", when="before", reasons=[])
        self.log.stop(keys.INIT_STOP)
        self.log.start(keys.RUN_START)
        self._sample()
        return self

    def block(self, quality: float) -> ExampleRun:
        """Some training and an evaluation."""
        self.clock.ms += STEP_S * 1000
        self.samples += 100
        self.log.event(logkeys.TRACKED, {"throughput": 10.0, "loss": 1 - quality}, samples_count=self.samples)
        self._sample()
        metrics = {METRIC: quality, "top5": 1.0}
        self.log.event(keys.EVAL_ACCURACY, quality, samples_count=self.samples, epoch_num=1.0, metrics=metrics)
        return self

    def _sample(self) -> None:
        with (self.folder / evidence.POWER).open("a") as file:
            file.write(f"{self.clock.ms},,{self.samples}.0,,0.5,,\n")

    def end(self, reason: str = "target", source: str | None = "estimated") -> ExampleRun:
        """run_stop and what is measured of the run."""
        status = keys.SUCCESS if reason == "target" else keys.ABORTED
        self.log.stop(keys.RUN_STOP, status=status, samples_count=self.samples, reason=reason)
        self.log.event(logkeys.ENVIRONMENT, "noisy", when="during", reasons=["load"])
        self.log.event(logkeys.ENERGY, 300.0 if source else None, source=source)
        self.log.event(logkeys.COST, None, currency=None)
        return self

    def seal(self) -> ExampleRun:
        """Predictions and the manifest."""
        self.log.close()
        sha256 = evidence.write_predictions(self.folder / evidence.PREDICTIONS, [1, 2, 3])
        evidence.keep_predictions(self.folder / evidence.PREDICTIONS, sha256)
        evidence.seal(self.folder, self.log.head)
        return self

    def go_on(self) -> ExampleRun:
        """A restart of a run that a signal stopped."""
        (self.folder / evidence.MANIFEST).unlink()
        self.log = mllog.Log(self.folder / evidence.LOG)
        self.log.clock = self.clock  # type: ignore[assignment]
        self.clock.ms += STEP_S * 1000
        self.log.event(logkeys.RESTART, 1, samples_count=self.samples)
        self._sample()
        return self

    def complete(self, blocks: int = 3, reason: str = "target") -> ExampleRun:
        """A whole run."""
        self.begin()
        for number in range(blocks):
            self.block(0.5 + number / 10)
        return self.end(reason).seal()
