"""A review as every output shows it, whichever ruleset made it, with the reviewer's waivers applied."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite import mlperf
from suite.errors import UserError, shown
from suite.review.rulebook import beyond_review, counted
from suite.rules import verdict
from suite.rules.finding import MAX_FINDINGS, Finding, Progress, Verdict, verdict_of
from suite.rules.reading import PACKAGE, RESULT, RUN
from suite.rules.reading import WAIVERS as WAIVERS_FILE
from suite.rules.submission import join, survey
from suite.rules.verdict import ResultReview
from suite.rules.waivers import WAIVERS, Waiver, WaiverFile, idle, waived
from suite.rules.witness import roots_of

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

SUITE = "suite"  # the ruleset of rules.md
CLOCK = "whether the submitter's clock was right: nobody you trust stamped begin and end of every run (timing.8)"
ORDER = ("fail", "error", "note")  # in which findings are listed
EXCUSED = "breaches that you, the reviewer, excuse (YAML)"  # help of --waivers


@dataclass(frozen=True)
class Log:
    """One log. `path` is relative to what was given; `facts` are plain values that the ruleset tells of it."""

    path: str
    verdict: Verdict
    findings: list[Finding]
    facts: dict[str, Any]


@dataclass(frozen=True)
class Report:
    """A review. `findings` has all findings, those of `logs` too, failures first; `waived` those that a waiver excuses.

    The verdict follows from those in `counting`: a ruleset may let a failing run be dropped.

    `results` has the results of the suite's own evidence, `scores` those of any ruleset as plain values. `provenance`
    says what MLPerf's logs were judged by, `not_checked` what was left unchecked, `beyond` what the rules say, by their
    ids, that only an audit or a person checks. `converged` is None where the ruleset does not tell it.
    """

    ruleset: str
    verdict: Verdict
    findings: list[Finding]
    counting: list[Finding]
    logs: list[Log]
    subject: str = ""
    converged: bool | None = None
    results: list[ResultReview] = field(default_factory=list)
    scores: list[dict[str, Any]] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)
    waived: dict[Finding, Waiver] = field(default_factory=dict)
    not_checked: list[str] = field(default_factory=list)
    beyond: dict[str, str] = field(default_factory=dict)

    def finding_json(self, finding: Finding) -> dict[str, Any]:
        """A finding as plain values; `waived` is None, or who waived it, when and why."""
        waiver = self.waived.get(finding)
        return {**asdict(finding), "waived": waiver and waiver.model_dump(include={"reason", "reviewer", "date"})}

    def as_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {
            "verdict": self.verdict,
            "ruleset": self.ruleset,
            "converged": self.converged,
            "findings": [self.finding_json(finding) for finding in self.findings],
            "logs": [
                {
                    "path": log.path,
                    "verdict": log.verdict,
                    **log.facts,
                    "findings": [self.finding_json(finding) for finding in log.findings],
                }
                for log in self.logs
            ],
            "scores": self.scores,
            "not_checked": self.not_checked,
            "beyond_review": self.beyond,
            "provenance": self.provenance,
        }

    def counted(self, severity: str) -> int:
        """The number of findings of a severity that are not waived."""
        return sum(finding.severity == severity and finding not in self.waived for finding in self.findings)


def add_reviewers_files(parser: ArgumentParser) -> None:
    """Accept the files of a reviewer's own that `report` takes."""
    parser.add_argument("--waivers", metavar="FILE", type=Path, help=EXCUSED)
    roots = "certificates (PEM) of the time-stamping authorities that you trust"
    parser.add_argument("--witness-roots", metavar="FILE", type=Path, help=roots)


def report(
    path: Path,
    ruleset: str = SUITE,
    subject: str = "",
    strict: bool = False,
    data_dir: str | None = None,
    waivers: Path | None = None,
    witness_roots: Path | None = None,
    progress: Progress = lambda done, of: None,
) -> Report:
    """Review `path` by `ruleset`; see `suite.rules.verdict.review` and `suite.mlperf.review`.

    `subject` is the report's name for what was reviewed. `waivers` is the reviewer's own file, `witness_roots` a PEM
    file with the certificates of the witnesses that they trust.

    Raises UserError for an unknown ruleset, for `strict` without MLPerf's, and if there is nothing to review.
    """
    if ruleset == SUITE and strict:
        raise UserError("--strict adds to MLPerf's own rules: give --ruleset mlperf-X.Y with it")
    rules = {*RUN.by_rule, *RESULT.by_rule, *PACKAGE.by_rule} if ruleset == SUITE else None
    files = [_waiver_file(waivers, rules)] if waivers else []
    if ruleset == SUITE:
        made = _of_suite(path, data_dir, progress, roots_of(witness_roots) if witness_roots else ())
        root = path.resolve()
        asked = [join(folder, WAIVERS_FILE) for folder in survey(root).waivers]
        files += [WaiverFile.read(root / name, name, applied=False, rules=rules) for name in asked]
    else:
        made = _of_mlperf(path, ruleset, strict, progress)
    return replace(_with_waivers(made, files), subject=shown(subject))


def _waiver_file(path: Path, rules: set[str] | None) -> WaiverFile:
    try:
        return WaiverFile.read(path, f"--waivers {path.name}", applied=True, rules=rules)
    except OSError as error:
        raise UserError(f"cannot read --waivers {path}: {error.strerror}") from error


def _with_waivers(made: Report, files: Sequence[WaiverFile]) -> Report:
    most = max(1, MAX_FINDINGS // max(1, len(files)))
    of_waivers = [f for file in files for f in (*WAIVERS.findings(file, most=most), *idle(made.findings, file))]
    excused = {f: w for file in files if file.applied for f, w in waived(made.findings, file).items()}

    def judged(findings: Iterable[Finding]) -> Verdict:
        return verdict_of(finding for finding in findings if finding not in excused)

    def worst_first(findings: list[Finding]) -> list[Finding]:
        return sorted(findings, key=lambda finding: (finding in excused, ORDER.index(finding.severity)))

    findings = worst_first(of_waivers + made.findings)
    logs = [
        replace(log, verdict=judged(log.findings) if excused else log.verdict, findings=worst_first(log.findings))
        for log in made.logs
    ]
    counting = of_waivers + made.counting
    return replace(made, verdict=judged(counting), findings=findings, counting=counting, logs=logs, waived=excused)


def _of_suite(path: Path, data_dir: str | None, progress: Progress, roots: tuple[Certificate, ...]) -> Report:
    made = verdict.review(path, data_dir, progress, roots)
    logs = [
        Log(run.path, run.verdict, run.findings, {"converged": run.converged, "seed": run.seed, **asdict(run.summary)})
        for run in made.runs
    ]
    scores = [
        {
            "path": result.path or ".",
            "benchmark": result.benchmark and result.benchmark.name,
            "system": result.system,
            "framework": result.framework,
            "implementation": result.implementation,
            "runs": len(result.runs),
            "converged": sum(run.converged for run in result.runs),
            "seconds": result.score_s,
            "normalisation": result.normalisation,
        }
        for result in made.results
    ]
    beyond = beyond_review()
    return Report(
        ruleset=SUITE,
        verdict=made.verdict,
        findings=made.findings,
        counting=made.findings,
        logs=logs,
        converged=made.converged,
        results=made.results,
        scores=scores,
        not_checked=[*([] if all(result.witnessed for result in made.results) else [CLOCK]), counted(beyond)],
        beyond=beyond,
    )


def _of_mlperf(path: Path, ruleset: str, strict: bool, progress: Progress) -> Report:
    made = mlperf.review(path, ruleset, strict, progress)
    return Report(
        ruleset=made.provenance.ruleset,
        verdict=made.verdict,
        findings=[replace(f, file=f.file or ".") for f in made.all_findings],
        counting=[replace(f, file=f.file or ".") for f in made.counting],
        logs=[
            Log(log.path, log.verdict, log.findings, {"benchmark": log.benchmark, "minutes": log.minutes})
            for log in made.logs
        ],
        scores=[{**asdict(score), "path": score.path or "."} for score in made.scores],
        provenance=asdict(made.provenance),
        not_checked=made.not_checked,
    )
