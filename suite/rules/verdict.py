"""The review of a folder: every check over every run, and what follows from the findings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from mlperf_logging.mllog import constants as keys

from suite.errors import UserError
from suite.record.evidence import LOG
from suite.record.mllog import COST, ENERGY, ENVIRONMENT, RESTART
from suite.record.parsing import number
from suite.record.summary import Summary
from suite.rules import benchmark, log, measurement, package, quality, runs, system
from suite.rules.finding import RESULT, RUN, Finding, shown
from suite.rules.reading import LIMITS, Evidence
from suite.rules.scoring import olympic_mean
from suite.rules.timeline import samples_of

CHAPTERS = (package, log, benchmark, system, runs, quality, measurement)  # imported, each registers its checks

Verdict = Literal["pass", "fail", "error"]

_RUN_FOLDER = re.compile(r"run_[1-9][0-9]{0,3}\Z")


@dataclass(frozen=True)
class RunReview:
    """One run. `path` is its log's, relative to what is reviewed; `summary` holds its claims, None where missing."""

    path: str
    verdict: Verdict
    converged: bool
    findings: list[Finding]
    summary: Summary
    seed: int | None


@dataclass(frozen=True)
class Review:
    """`pass`: no rule is broken. `fail`: at least one is. `error`: none is, but one could not be checked.

    `converged`: every run reached the target. `findings` are those of all runs and of the result they make together;
    `score_s` is the olympic mean of the times to quality.
    """

    verdict: Verdict
    converged: bool
    findings: list[Finding]
    runs: list[RunReview]
    score_s: float | None

    def as_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {
            "verdict": self.verdict,
            "converged": self.converged,
            "findings": [asdict(finding) for finding in self.findings],
            "logs": [
                {"path": run.path, "verdict": run.verdict, "findings": [asdict(finding) for finding in run.findings]}
                for run in self.runs
            ],
        }


def review(path: Path, data_dir: str | None = None) -> Review:
    """Review an evidence folder, or a folder that holds run_1, run_2, ...; `data_dir` as for `suite.run`.

    `path` may itself be a link; no link below it is followed.

    Raises UserError if there is nothing to review at `path`.
    """
    made = [_reviewed(evidence) for evidence in _evidence(path, data_dir)]
    reviewed = [run for _, run in made]
    of_result = RESULT.findings([evidence for evidence, _ in made])
    findings = [*of_result, *(finding for run in reviewed for finding in run.findings)]
    times = [run.summary.seconds if run.converged else None for run in reviewed]
    return Review(
        verdict=_verdict(findings),
        converged=all(run.converged for run in reviewed),
        findings=findings,
        runs=reviewed,
        score_s=olympic_mean(times),
    )


def _evidence(path: Path, data_dir: str | None) -> Iterable[Evidence]:
    mend = "give the out= folder of python -m suite.run"
    try:
        names = os.listdir(path)
    except OSError as error:
        raise UserError(f"cannot review {path}: {error.strerror}; {mend}") from error
    labels = sorted((name for name in names if _RUN_FOLDER.match(name)), key=lambda name: int(name[4:]))
    if labels:
        return (Evidence.read(path / label, label, data_dir) for label in labels)
    if not set(names) & LIMITS.keys():
        raise UserError(f"{path} holds no evidence: neither {LOG} nor run_1; {mend}")
    return [Evidence.read(path.resolve(), "", data_dir)]


def _reviewed(evidence: Evidence) -> tuple[Evidence, RunReview]:
    findings = RUN.findings(evidence, evidence.label)
    summary = _summary(evidence)
    seed = evidence.value(keys.SEED)
    path = f"{evidence.label}/{LOG}" if evidence.label else LOG
    benchmark, evaluations = evidence.benchmark, evidence.timeline.evaluations
    met = benchmark is not None and bool(evaluations) and quality.reached(benchmark, evaluations[-1])
    review = RunReview(
        path=path,
        verdict=_verdict(findings),
        converged=summary.converged and met,
        findings=findings,
        summary=summary,
        seed=seed if isinstance(seed, int) else None,
    )
    return evidence, review


def _verdict(findings: Iterable[Finding]) -> Verdict:
    severities = {finding.severity for finding in findings}
    return "fail" if "fail" in severities else "error" if "error" in severities else "pass"


def _summary(run: Evidence) -> Summary:
    """A stranger's claims: as `suite.record.summary.summarise` has them, but nothing of a wrong type."""
    start, stop, evaluations = run.timeline.run_start, run.timeline.run_stop, run.timeline.evaluations
    cost, energy = run.line(COST), run.line(ENERGY)
    environments = run.lines_of.get(ENVIRONMENT, [])
    noise = [str(line.metadata.get("reasons")) for line in environments if line.value != "quiet"]
    return Summary(
        status=_text(stop.metadata.get(keys.STATUS)) if stop else None,
        reason=_text(stop.metadata.get("reason")) if stop else None,
        quality=number(evaluations[-1].value) if evaluations else None,
        samples=samples_of(stop) if stop else None,
        seconds=(stop.time_ms - start.time_ms) / 1000 if start and stop else None,
        cost=number(cost.value) if cost else None,
        currency=_text(cost.metadata.get("currency")) if cost else None,
        joules=number(energy.value) if energy else None,
        energy_source=_text(energy.metadata.get("source")) if energy else None,
        noise=tuple(shown(reason) for reason in noise),
        restarts=len(run.lines_of.get(RESTART, [])),
    )


def _text(value: object) -> str | None:
    return shown(value) if isinstance(value, str) else None
