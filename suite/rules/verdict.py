"""The review of a folder: run every check on every run, and derive the verdict from the findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from mlperf_logging.mllog import constants as keys

from suite.config.contestant import Contestant
from suite.config.models import Benchmark
from suite.errors import shown, shown_path
from suite.record.evidence import LOG
from suite.record.history import History, of_lines
from suite.record.names import REFERENCE
from suite.record.parsing import text
from suite.record.scoring import olympic_mean
from suite.record.summary import Summary, summarise
from suite.record.system import KEYS
from suite.rules import (
    audit,
    benchmark,
    code,
    copies,
    dates,
    environment,
    equivalence,
    hyperparameters,
    implementation,
    log,
    measurement,
    package,
    plausible,
    quality,
    restarts,
    revision,
    rounds,
    runs,
    system,
    witness,
)
from suite.rules.claims import SEALED, Sealed
from suite.rules.convergence import Convergence, convergence
from suite.rules.finding import MAX_FINDINGS, Finding, Progress, Verdict, verdict_of
from suite.rules.reading import PACKAGE, RESULT, RUN, Evidence
from suite.rules.seals import Seal
from suite.rules.submission import FOLDERS, Result, check_size, join, survey

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

# Importing a module registers its checks.
CHAPTERS = (
    package,
    code,
    log,
    witness,
    restarts,
    dates,
    benchmark,
    revision,
    implementation,
    hyperparameters,
    system,
    environment,
    equivalence,
    runs,
    rounds,
    copies,
    quality,
    measurement,
    plausible,
    audit,
)


@dataclass(frozen=True)
class RunReview:
    """One run. `path` is its log's, relative to what is reviewed; `summary` has its claims, None where missing."""

    path: str
    verdict: Verdict
    converged: bool
    findings: list[Finding]
    summary: Summary
    seed: int | None
    history: History


def mean_time(runs: Sequence[RunReview]) -> float | None:
    """The olympic mean of the times to quality, in seconds; None if there is none."""
    return olympic_mean([run.summary.seconds if run.converged else None for run in runs])


@dataclass(frozen=True)
class ResultReview:
    """The runs of one result, as their submitter claims them. `path` is its folder, "" for the reviewed folder itself.

    `benchmark` is the suite's own, None where the log names none of them. `contestant` is the implementation that
    trained, None for the reference. `findings` are those of the runs and of the result as a whole. `convergence` is the
    test against the reference, None where it does not apply. `token` drew all seeds, None where none did. `witnessed`
    says whether a witness that the reviewer trusts time-stamped every run. `description` has the texts of the system
    description, `decided` each value that decided the first run, by its place in the run's files.
    """

    path: str
    benchmark: Benchmark | None
    system: str | None
    framework: str | None
    precision: str | None
    contestant: Contestant | None
    findings: list[Finding]
    runs: list[RunReview]
    convergence: Convergence | None
    submitter: str | None
    division: str | None
    status: str | None
    token: str | None
    witnessed: bool
    description: dict[str, str]
    decided: dict[str, str]

    @property
    def implementation(self) -> str:
        """The name of the implementation that trained, `reference` for the reference."""
        return self.contestant.name if self.contestant else REFERENCE

    @property
    def normalisation(self) -> float:
        """What the score is multiplied by; 1 where `convergence` does not apply."""
        return self.convergence.normalisation if self.convergence else 1.0

    @property
    def unheld(self) -> str:
        """Why its samples were not held to the reference; empty if they were, or where `convergence` does not apply."""
        return self.convergence.unheld if self.convergence else ""

    @property
    def score_s(self) -> float | None:
        """The olympic mean of the times to quality, in seconds, times `normalisation`; None if there is none."""
        mean = mean_time(self.runs)
        return None if mean is None else mean * self.normalisation


@dataclass(frozen=True)
class Review:
    """A review. `verdict` is `fail` if a rule is broken, else `error` if one could not be checked, else `pass`.

    `findings` has all findings, including those of the runs and results.
    """

    verdict: Verdict
    findings: list[Finding]
    results: list[ResultReview]

    @property
    def runs(self) -> list[RunReview]:
        """Every run."""
        return [run for result in self.results for run in result.runs]

    @property
    def converged(self) -> bool:
        """Whether every run reached the target."""
        return all(run.converged for run in self.runs)


def review(
    path: Path,
    data_dir: str | None = None,
    progress: Progress = lambda done, of: None,
    roots: tuple[Certificate, ...] = (),
) -> Review:
    """Review an evidence folder, a folder that holds run_1, run_2, ..., or a package with such folders below it.

    `data_dir` is as for `suite.run`. `path` may itself be a link; no link below it is followed. `progress` is called
    after each run. `roots` are the certificates of the witnesses that the reviewer trusts.

    Raises UserError if there is nothing to review at `path`, or more than the limits allow.
    """
    root = path.resolve()
    submission = survey(root if path.exists() else path)
    check_size(root, submission)
    total = sum(len(result.runs) for result in submission.results)
    of_run = max(1, MAX_FINDINGS // total)  # findings per rule: there may be thousands of runs
    of_result = max(1, MAX_FINDINGS // len(submission.results))
    everything: list[Evidence] = []
    results = []
    runs_of: dict[str, list[Evidence]] = {}
    for result in submission.results:
        evidence, reviewed = [], []
        for label in result.runs:
            evidence.append(Evidence.read(root / result.path / label, label, data_dir, roots))
            reviewed.append(_reviewed(evidence[-1], result, of_run))
            evidence[-1].release()
            progress(len(everything) + len(evidence), total)
        results.append(_result(result, evidence, reviewed, of_result))
        runs_of[result.path] = evidence
        package = submission.package_of(result.path)
        everything += (replace(run, label=join(result.path, run.label), package=package) for run in evidence)
    findings = FOLDERS.findings(submission, most=submission.most, apart=True)
    findings += PACKAGE.findings(everything, most=of_run, apart=True)
    for folder in submission.sealed:
        findings += _claims(root, folder, runs_of, submission.most)
    findings += (finding for result in results for finding in result.findings)
    return Review(verdict_of(findings), findings, results)


def _claims(root: Path, folder: str, runs_of: Mapping[str, Sequence[Evidence]], most: int) -> list[Finding]:
    """Findings where the package in `folder` disagrees with its runs. A seal that cannot be read has its own rule."""
    if (seal := Seal.found(root / folder)) is None:
        return []
    below = {
        PurePosixPath(path).relative_to(folder).as_posix(): runs
        for path, runs in runs_of.items()
        if PurePosixPath(path).is_relative_to(folder)
    }
    return SEALED.findings(Sealed(root / folder, seal, below), folder, most)


def _result(result: Result, evidence: list[Evidence], reviewed: list[RunReview], most: int) -> ResultReview:
    first = evidence[0]
    described = {key: text(first.described("description", key)) for key in KEYS}
    return ResultReview(
        path=shown_path(result.path),
        benchmark=first.benchmark,
        system=text(first.value(keys.SUBMISSION_PLATFORM)),
        framework=text(first.configured("framework")),
        precision=text(first.configured("precision")),
        contestant=implementation.contestant_of(first),
        findings=[
            *RESULT.findings(evidence, result.path, most),
            *(finding for run in reviewed for finding in run.findings),
        ],
        runs=reviewed,
        convergence=convergence(evidence),
        submitter=text(first.value(keys.SUBMISSION_ORG)),
        division=text(first.value(keys.SUBMISSION_DIVISION)),
        status=text(first.value(keys.SUBMISSION_STATUS)),
        token=shown(first.token) if all(rounds.is_drawn(run) for run in evidence) else None,
        witnessed=all(witness.is_witnessed(run) for run in evidence),
        description={key: value for key, value in described.items() if value},
        decided=environment.decided(first),
    )


def _reviewed(evidence: Evidence, result: Result, most: int) -> RunReview:
    folder = join(result.path, evidence.label)
    findings = RUN.findings(evidence, folder, most)
    seed, summary = evidence.value(keys.SEED), summarise(evidence.lines)
    if lacks := measurement.unmetered(evidence):
        summary = replace(summary, energy_source=f"{summary.energy_source} without {lacks}", unmetered=lacks)
    return RunReview(
        path=shown_path(join(folder, LOG)),
        verdict=verdict_of(findings),
        converged=quality.converged(evidence),
        findings=findings,
        summary=replace(summary, noise=measurement.noise(evidence)),
        seed=seed if isinstance(seed, int) else None,
        history=of_lines(evidence.lines),
    )
