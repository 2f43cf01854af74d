"""The timed loop: train a block, predict, score, stop at the target or at the end of the budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import TRACKED
from suite.config.models import Benchmark
from suite.errors import BadPrediction, shown
from suite.harness.checkpoint import Checkpoints
from suite.harness.contract import check_json
from suite.harness.implementation import Implementation
from suite.record.evidence import PREDICTIONS, NotFinite, keep_predictions, write_predictions
from suite.record.mllog import Log

Reason = Literal["target", "budget", "diverged", "refused", "interrupt"]

_SLICE_S = 1.0  # how often the loop updates the live line and looks for Ctrl-C


@dataclass
class Loop:
    """One run's training. `data` holds all arrays of the benchmark; `score` maps predictions to metrics;
    `tick(samples, samples_per_second)` feeds the live line.

    `interrupted` is asked between slices and after each evaluation.
    """

    benchmark: Benchmark
    implementation: Implementation
    data: Mapping[str, np.ndarray]
    score: Callable[[Sequence[Any]], dict[str, float]]
    log: Log
    folder: Path
    checkpoints: Checkpoints
    tick: Callable[[int, float], None]
    interrupted: Callable[[], bool]

    def run(self, samples: int) -> Reason:
        """Train on from `samples` until the target, the end of the budget, an interrupt, a loss or predictions that are
        not numbers, or predictions that the task refuses; return which of these.
        """
        while True:
            self.log.start(keys.BLOCK_START, samples_count=samples)
            due = self.benchmark.next_evaluation(samples)
            samples, loss = self._train_until(due, samples)
            reason: Reason | None = None
            if _is_nan(loss):
                reason = "diverged"
            elif samples >= due:
                reason = self._evaluate(samples)
            self.log.stop(keys.BLOCK_STOP, samples_count=samples)
            if reason is None and self.interrupted():
                reason = "interrupt"
                self.checkpoints.save(self.implementation.state_dict(), samples)
            if reason is not None:
                self.log.stop(
                    keys.RUN_STOP,
                    status=keys.SUCCESS if reason == "target" else keys.ABORTED,
                    samples_count=samples,
                    reason=reason,
                )
                return reason

    def _train_until(self, end: int, samples: int) -> tuple[int, float | None]:
        """Train to `end` in slices; log throughput and loss every `tracked_every` samples, and at the end.

        An interrupt, or a loss that is not a number, ends it early.
        """
        loss: float | None = None
        slice_samples = 1
        tracked_at, tracked_samples = time.monotonic(), samples
        while samples < end and not self.interrupted() and not _is_nan(loss):
            track = min(end, tracked_samples + self.benchmark.tracked_every)
            began = time.monotonic()
            stats = self.implementation.train_until(min(track, samples + slice_samples))
            now = time.monotonic()
            rate = (stats.samples - samples) / (now - began)
            samples, loss = stats.samples, stats.loss
            slice_samples = max(1, int(rate * _SLICE_S))
            self.tick(samples, rate)
            if samples >= track:
                throughput = (samples - tracked_samples) / (now - tracked_at)
                self.log.event(TRACKED, {"throughput": throughput, "loss": _finite(loss)}, samples_count=samples)
                if samples < end and not _is_nan(loss):
                    self.checkpoints.occasion(self.implementation.state_dict, samples)
                tracked_at, tracked_samples = time.monotonic(), samples
        return samples, loss

    def _evaluate(self, samples: int) -> Reason | None:
        self.log.start(keys.EVAL_START, samples_count=samples)
        state = self.implementation.state_dict()
        with ThreadPoolExecutor(1) as beside:
            state_sha256 = beside.submit(self.checkpoints.logged, state, samples)
            predictions = self.implementation.predict(self.data)
        refused: dict[str, str] = {}
        try:
            sha256 = write_predictions(self.folder / PREDICTIONS, predictions)
            metrics = self.score(predictions)
        except NotFinite:
            check_json(predictions)
            sha256, metrics = write_predictions(self.folder / PREDICTIONS, ()), {}
        except (TypeError, RecursionError):
            check_json(predictions)
            raise
        except BadPrediction as error:  # the run has failed; its predictions are evidence
            check_json(predictions)
            metrics, refused = {}, {"refused": shown(str(error))}
        quality = metrics.get(self.benchmark.metric, math.nan)
        epoch = self.benchmark.dataset.train_samples
        self.log.event(
            keys.EVAL_ACCURACY,
            _finite(quality),
            samples_count=samples,
            epoch_num=samples / epoch if epoch else None,
            metrics={name: _finite(value) for name, value in metrics.items()},
            predictions_sha256=sha256,
            state_sha256=state_sha256.result(),
            **refused,
        )
        keep_predictions(self.folder / PREDICTIONS, sha256)
        self.log.stop(keys.EVAL_STOP, samples_count=samples)
        if self.benchmark.reached(quality):
            return "target"
        if refused:
            return "refused"
        if not metrics:
            return "diverged"
        if samples >= self.benchmark.budget_samples:
            return "budget"
        self.checkpoints.occasion(lambda: state, samples)
        return None


def _is_nan(loss: float | None) -> bool:
    return loss is not None and math.isnan(loss)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
