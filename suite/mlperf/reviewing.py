"""The review of a log, a folder or a whole submission of MLPerf Training."""

from __future__ import annotations

import gc
import platform
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from suite.errors import UserError, shown
from suite.measure.cpus import usable_cpus
from suite.mlperf import comparing, packages, rulefiles, systems
from suite.mlperf.compiling import compiled
from suite.mlperf.logs import LogReview, review_log
from suite.mlperf.packages import LOG_NAMES, Package
from suite.mlperf.rulefiles import WITHOUT_RULES
from suite.mlperf.scores import Score, counted_for, droppable, scaling_factor, score
from suite.mlperf.strict import RULES
from suite.rules.finding import Finding, Progress, Severity, Verdict, verdict_of
from suite.store.processes import Pool

_PARALLEL_FROM = 16  # logs; for fewer, other processes cost more than they save
_CHUNK = 8
NOT_CHECKED = (
    "convergence against the reference's (RCP)",
    "the seeds of a package against each other",
    "the power logs",
    "the code",
)


@dataclass(frozen=True)
class Provenance:
    """What a review was judged by: the ruleset, the wheel with its version, and the sha256 of each rule file."""

    ruleset: str
    strict: bool
    wheel: str
    version: str
    rule_files: dict[str, str]


@dataclass(frozen=True)
class Review:
    """The review of a log or a folder. `findings` are those of the package; each of `logs` has its own.

    `counting` are the findings of both from which the verdict follows. A run that may be dropped has none among them,
    except for breaches that only --strict finds.
    """

    verdict: Verdict
    findings: list[Finding]
    logs: list[LogReview]
    scores: list[Score]
    provenance: Provenance
    counting: list[Finding]

    @property
    def not_checked(self) -> list[str]:
        """What else a reviewer of a round checks, and this review does not."""
        strictly = () if self.provenance.strict else (f"{len(RULES)} kinds of breach that --strict finds",)
        return [*NOT_CHECKED, *strictly]

    @property
    def all_findings(self) -> list[Finding]:
        """The findings of the package, then those of its logs."""
        return [*self.findings, *(finding for log in self.logs for finding in log.findings)]


def review(path: Path, ruleset: str, strict: bool = False, progress: Progress = lambda done, of: None) -> Review:
    """Review the log or the folder at `path` by `ruleset` (`rulefiles.rulesets`), with `strict` also by our own checks.

    Many logs are reviewed by as many processes as there are cores; each holds one log at a time.

    Raises UserError for an unknown ruleset, a wheel that is not the pinned one or a path without a log, and if one of
    these processes is killed.
    """
    ruleset = rulefiles.known(ruleset)
    package = packages.survey(path, ruleset)
    files = {} if ruleset == WITHOUT_RULES else rulefiles.sums(ruleset)
    provenance = Provenance(ruleset, strict, rulefiles.WHEEL, rulefiles.wheel_version(), files)
    tasks = [
        (group.folder / name, f"{group.label}/{name}" if group.label else name, ruleset, strict)
        for group in package.groups
        for name in group.logs
    ]
    logs: list[LogReview] = []
    for log in _reviewed(tasks, ruleset):
        logs.append(log)
        progress(len(logs), len(tasks))
    return _joined(package, logs, provenance)


def _reviewed(tasks: list[tuple[Path, str, str, bool]], ruleset: str) -> Iterator[LogReview]:
    """Yield the reviews in the order of `tasks`. If there are many, as many processes as cores make them."""
    if ruleset != WITHOUT_RULES:
        compiled(ruleset)  # here, so that each process has it
    cores = usable_cpus()
    if len(tasks) < _PARALLEL_FROM or cores < 2:
        yield from (review_log(*task) for task in tasks)
        return
    # Outside Linux, a fork of a process that has used the system's libraries may hang or crash.
    method = "fork" if platform.system() == "Linux" else "spawn"
    try:
        # Reviews leave no reference cycles; looking for some would cost a sixth of the time.
        with Pool(cores, method, gc.disable) as pool:
            for made in [pool.submit(_reviews, tasks[at : at + _CHUNK]) for at in range(0, len(tasks), _CHUNK)]:
                yield from made.result()
    except BrokenProcessPool as error:
        raise UserError(
            "a process that reviews logs was killed, perhaps for want of memory: give fewer logs at once"
        ) from error


def _reviews(tasks: list[tuple[Path, str, str, bool]]) -> list[LogReview]:
    return [review_log(*task) for task in tasks]


def _joined(package: Package, logs: list[LogReview], provenance: Provenance) -> Review:
    """Join the logs' reviews to one. Like the official package checker, it lets some runs of a benchmark be dropped."""
    findings = list(package.findings)
    if provenance.ruleset == WITHOUT_RULES:
        findings.append(_unruled())
    scores: list[Score] = []
    refused: list[Finding] = []
    of_log = iter(logs)
    described: set[Path] = set()
    of_submitter: defaultdict[tuple[str | None, str | None], list[LogReview]] = defaultdict(list)
    for group in package.groups:
        here = [next(of_log) for _ in group.logs]
        if group.description and group.description not in described:
            described.add(group.description)
            findings += systems.findings(group, provenance.ruleset)
        factor, of_factor = scaling_factor(group, provenance.ruleset)
        findings += of_factor
        for runs in _by_benchmark(here):
            scores.append(score(group, runs, factor))
            if group.description or len(logs) > 1:
                findings += _counted(scores[-1], provenance.ruleset, "fail" if group.description else "note")
            of_submitter[group.org, scores[-1].benchmark] += runs
            if provenance.strict:
                findings += comparing.findings(group, runs)
            failed = [run for run in runs if run.official == "fail"]
            if 0 < len(failed) <= min(droppable(scores[-1].benchmark), len(runs) - 1):
                findings.append(_dropped(scores[-1], failed, provenance.ruleset))
            else:
                failed = []
            for run in runs:
                refused += (each for each in run.findings if run not in failed or each.rule in RULES)
    if provenance.strict:
        findings += chain.from_iterable(map(comparing.copies, of_submitter.values()))
    counting = [*findings, *refused]
    return Review(verdict_of(counting), findings, logs, scores, provenance, counting)


def _unruled() -> Finding:
    rule, expected = f"{WITHOUT_RULES}/rules", "rules of the round"
    found = f"none in {rulefiles.WHEEL}: the lines were read and timed, no more"
    return Finding("", None, expected, found, "check the run by the rules of v0.5 yourself", "note", rule=rule)


def _counted(made: Score, ruleset: str, severity: Severity) -> list[Finding]:
    """A finding if the logs are not as many as the round asks for; the official package checker refuses that too."""
    if made.needed is None or made.logs == made.needed:
        return []
    mend = f"submit {made.needed} logs, each named {LOG_NAMES}"
    expected = f"{made.needed} runs of {made.benchmark}"
    return [Finding(made.path, None, expected, str(made.logs), mend, severity, rule=f"{ruleset}/runs")]


def _dropped(made: Score, failed: list[LogReview], ruleset: str) -> Finding:
    """The note that the runs which do not comply are few enough to count as dropped."""
    found = f"{len(failed)} of {made.logs} do not: {', '.join(Path(run.path).name for run in failed)}"
    expected = "every log complies"
    mend = "nothing, if they only missed the target: they count as the dropped slowest runs"
    return Finding(made.path, None, expected, shown(found), mend, "note", rule=f"{ruleset}/dropped")


def _by_benchmark(logs: list[LogReview]) -> list[list[LogReview]]:
    """The logs of a folder by the benchmark that they count for, in the order in which they name them."""
    counting = counted_for([log.benchmark for log in logs])
    benchmarks = dict.fromkeys(log.benchmark for log in logs if log.benchmark) or [None]
    return [
        [log for log, counted in zip(logs, counting, strict=True) if counted == benchmark] for benchmark in benchmarks
    ]
