"""What an audit can ask for: the blocks of the runs of a result, with all that the evidence says of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import STATE, TRACKED
from suite.config.models import Benchmark
from suite.record.mllog import Line, samples_of
from suite.record.parsing import number
from suite.record.states import path_of
from suite.rules.audit import sum_of
from suite.rules.reading import Evidence
from suite.rules.submission import join


@dataclass(frozen=True)
class Claim:
    """A block as its run claims it: the training from the evaluation at `before` samples to the one at `after`.

    `line` is the latter's line in the log. `loss` is that of the last step and `seconds` the time of training and
    evaluation; both are None if the log does not say. `predictions` are kept in the evidence for the last evaluation
    only; else None.
    """

    before: int
    after: int
    before_sha256: str | None
    after_sha256: str | None
    line: int
    predictions_sha256: Any
    predictions: Sequence[Any] | None
    metrics: dict[str, Any]
    loss: float | None
    seconds: float | None


@dataclass(frozen=True)
class Run:
    """A run that can be audited. `folder` holds its evidence, and `states` may hold its states."""

    label: str
    folder: Path
    states: Path
    evidence: Evidence
    benchmark: Benchmark
    seed: int
    initial_sha256: str | None
    claims: tuple[Claim, ...]

    def kept(self, samples: int) -> Path | None:
        """The file of the state after `samples` samples, None if there is none. No link is followed."""
        path = path_of(self.states, samples)
        plain = path.is_file() and not path.is_symlink() and not path.parent.is_symlink()
        return path if plain else None

    @property
    def configuration(self) -> tuple[str, str, str, dict[str, Any]]:
        """Framework, kind of device, precision and hyperparameters, which the review has found to be allowed."""
        told = self.evidence.configured
        hyperparameters = told("benchmark", "hyperparameters")
        return str(told("framework")), str(told("device")), str(told("precision")), dict(hyperparameters or {})


def run_of(evidence: Evidence, folder: Path, path: str, states: Path | None) -> Run | None:
    """The run whose evidence lies in `folder`, of the result at `path`; None if it lacks a known benchmark or seed."""
    benchmark, seed = evidence.benchmark, evidence.value(keys.SEED)
    if benchmark is None or type(seed) is not int:
        return None
    label = join(path, evidence.label)
    initial = sum_of(evidence.line(STATE))
    claims: list[Claim] = []
    for line in evidence.timeline.evaluations:
        before = claims[-1] if claims else None
        last = line is evidence.lines_of[keys.EVAL_ACCURACY][-1]
        claims.append(_claim(evidence, line, before, initial, last))
    return Run(label, folder, states / label if states else folder, evidence, benchmark, seed, initial, tuple(claims))


def _claim(evidence: Evidence, line: Line, before: Claim | None, initial: str | None, last: bool) -> Claim:
    begin = before.after if before else 0
    tracked, seconds = _training(evidence, line, begin)
    logged = line.metadata.get("metrics")
    return Claim(
        before=begin,
        after=samples_of(line) or 0,
        before_sha256=before.after_sha256 if before else initial,
        after_sha256=sum_of(line),
        line=line.number,
        predictions_sha256=line.metadata.get("predictions_sha256"),
        predictions=evidence.predictions if last else None,
        metrics=logged if isinstance(logged, dict) else {},
        loss=number(tracked.value.get("loss")) if tracked and isinstance(tracked.value, dict) else None,
        seconds=seconds,
    )


def _training(evidence: Evidence, evaluation: Line, begin: int) -> tuple[Line | None, float | None]:
    """The last tracked line before an evaluation, and the seconds from the block's start to the evaluation.

    Time lost to a restart in between counts as well. The seconds are None if no block began at `begin` samples.
    """
    tracked, start = None, None
    for line in evidence.lines[: evaluation.number - 1]:
        if line.key == keys.BLOCK_START:
            tracked = None
            if start is None and samples_of(line) == begin:
                start = line
        elif line.key == TRACKED:
            tracked = line
    return tracked, None if start is None else (evaluation.time_ms - start.time_ms) / 1000
