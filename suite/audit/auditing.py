"""An audit from the evidence to the findings: draw blocks, train them again, and compare the results."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from suite import config
from suite.audit import comparing, drawing
from suite.audit.code import Code, code
from suite.audit.comparing import AUDIT, Compared
from suite.audit.equivalence import HELD, held
from suite.audit.likeness import unlike
from suite.audit.process import Failed
from suite.audit.replaying import Means, NotLogged, initial_state, kept_initial, replay
from suite.audit.subject import Claim, Run, run_of
from suite.config.folder import ROOT
from suite.config.models import Benchmark
from suite.errors import UserError, one_of, shown
from suite.measure import noise
from suite.measure.load import LoadMeter
from suite.measure.machine import Machine, detect
from suite.measure.systems import AUTO, resolve
from suite.record.equivalence import Comparison
from suite.record.evidence import LOG
from suite.record.states import state_sha256
from suite.record.system import versions
from suite.rules.finding import Finding, Verdict, plain, verdict_of
from suite.rules.implementation import contestant_of
from suite.rules.reading import Evidence
from suite.rules.submission import Result, Submission, join, survey
from suite.store import files, packages
from suite.store.arrays import prepared
from suite.store.disk import having_room
from suite.store.sums import cache_dir
from suite.store.task import load_task

_LOGGED = "audit a run of this suite, which logs them"
_TRAIN = "see that the code that the run names, and its packages, are those that made it"


@dataclass(frozen=True)
class Asked:
    """What the auditor asks for; see `suite.audit.__main__`."""

    blocks: int
    entropy: str
    framework: str | None = None
    precision: str | None = None
    states: Path | None = None
    isolated: bool = False
    equivalence: bool = False
    data_dir: str | None = None
    evidence: Path | None = None
    """The path that was given: the folder, or the archive from which it was unpacked."""


@dataclass(frozen=True)
class Part:
    """One result: its runs, the blocks drawn from them, and the code to train these with."""

    benchmark: Benchmark
    runs: tuple[Run, ...]
    drawn: tuple[tuple[Run, Claim], ...]
    code: Code

    @property
    def strange(self) -> bool:
        """Whether to hold the implementation to the reference: it is not the suite's, and the division is not open."""
        others = bool(self.code.others) or contestant_of(self.runs[0].evidence) is not None
        return others and not self.in_open

    @property
    def in_open(self) -> bool:
        """Whether the result is in the open division, which leaves the model free."""
        return self.runs[0].evidence.in_open

    @property
    def blocks(self) -> int:
        """The number of blocks in all runs."""
        return sum(len(run.claims) for run in self.runs)


@dataclass(frozen=True)
class Plan:
    """The parts to audit, and the runs left out because they log no sums of their states."""

    parts: tuple[Part, ...]
    left_out: tuple[str, ...]


@dataclass
class Audited:
    """What an audit found: `held` are comparisons with references, `initial` counts the initial states built again."""

    plan: Plan
    findings: list[Finding] = field(default_factory=list)
    compared: list[Compared] = field(default_factory=list)
    held: list[tuple[Run, Comparison]] = field(default_factory=list)
    initial: int = 0

    @property
    def verdict(self) -> Verdict:
        """The verdict of all findings together."""
        return verdict_of(self.findings)


def planned(root: Path, asked: Asked) -> Plan:
    """Plan the audit of the evidence below `root`. Raises UserError if nothing in it can be audited."""
    submission = survey(root)
    parts, left_out = list[Part](), list[str]()
    for result in submission.results:
        runs = {join(result.path, label): _run_of(root, result, label, asked) for label in result.runs}
        audited = {label: run for label, run in runs.items() if run and run.initial_sha256}
        left_out += runs.keys() - audited.keys()
        if audited:
            parts.append(_part(root, submission, result, list(audited.values()), asked))
    if not parts:
        raise UserError(
            f"{shown(root.name)}: no run logs the sums of its states (rule audit.1): its runs cannot be trained again "
            "in part"
        )
    return Plan(tuple(parts), tuple(sorted(left_out)))


def _run_of(root: Path, result: Result, label: str, asked: Asked) -> Run | None:
    folder = root / result.path / label
    return run_of(Evidence.read(folder, label, asked.data_dir), folder, result.path, asked.states)


def _part(root: Path, submission: Submission, result: Result, made: Sequence[Run], asked: Asked) -> Part:
    package = submission.package_of(result.path)
    blocks = [(run, claim) for run in made for claim in run.claims]
    drawn = drawing.draw(blocks, asked.blocks, asked.entropy)
    files, task = code(made[0], root, result.path, package), made[0].benchmark.task
    if asked.framework is not None:
        one_of(f"framework for {task}", asked.framework, files.frameworks(task))
        if own := contestant_of(made[0].evidence):
            raise UserError(f"framework={asked.framework} is for the reference, and {own.name} trained: leave it out")
    return Part(made[0].benchmark, tuple(made), tuple(drawn), files)


def audit(root: Path, plan: Plan, asked: Asked, tell: Callable[[str], object]) -> Audited:
    """Carry out `plan`, calling `tell` with each step in words. Raises UserError for data or packages not at hand."""
    _require_frameworks(plan, asked)
    made, machine, software = Audited(plan), detect(), versions()
    memory_gb = resolve(config.system(AUTO), machine).memory_gb
    hidden = None if asked.isolated else _hidden(root, asked)
    for label in plan.left_out:
        without = Finding(LOG, None, "the sums of its states", "none: it cannot be trained again", _LOGGED, "error")
        made.findings.append(plain(without, "audit.4", label))
    for part in plan.parts:
        task = load_task(part.benchmark.task)
        data = prepared(part.benchmark, task, asked.data_dir)
        with tempfile.TemporaryDirectory(prefix="suite-audit-code-") as name, having_room(name):
            folder = part.code.install(Path(name))
            for run in part.runs:
                _, kind, _, _ = run.configuration
                kind = kind if machine.accelerators else "cpu"
                means = Means(folder, task, data, kind, memory_gb, asked.framework, asked.precision, hidden)
                _run(made, run, [claim for of, claim in part.drawn if of is run], means, machine, software, tell)
                if asked.equivalence and run is part.runs[0] and part.strange:
                    tell(f"{run.label}: holding its implementation to the reference")
                    _hold(made, run, means)
    return made


def _require_frameworks(plan: Plan, asked: Asked) -> None:
    """Raise UserError for missing packages of a framework that the reference is to train in."""
    for run in (each for part in plan.parts for each in part.runs if not contestant_of(each.evidence)):
        packages.require(run.benchmark.task, config.framework(asked.framework or run.configuration[0]))


def _run(
    made: Audited,
    run: Run,
    claims: Sequence[Claim],
    means: Means,
    machine: Machine,
    software: Mapping[str, str],
    tell: Callable[[str], object],
) -> None:
    differences, before = unlike(run, means, machine, software), len(made.compared)
    if not claims:
        tell(f"{run.label}: building its initial state")
        try:
            found, kept = initial_state(run, means), kept_initial(run)
        except Failed as error:
            made.findings.append(_failure(run, None, error))
            return
        made.initial += 1
        if state_sha256(found) != run.initial_sha256:
            of_initial = comparing.initial(run, found, kept, differences)
            made.findings += [plain(finding, "audit.3", run.label) for finding in of_initial]
    for claim in claims:
        tell(f"{run.label}: training from {claim.before:,} to {claim.after:,} samples")
        quiet, meter = noise.before(machine), LoadMeter()
        try:
            replayed = replay(run, claim, means, like=not differences)
            disturbed = noise.meanwhile(machine, quiet, meter.read())
            compared = Compared(replayed, differences, disturbed.reasons)
        except Failed as error:
            made.findings.append(_failure(run, claim, error))
            continue
        made.compared.append(compared)
        made.findings += AUDIT.findings(compared, run.label)
    made.initial += len(made.compared) > before


def _hold(made: Audited, run: Run, means: Means) -> None:
    """Hold the implementation of a run to the reference again."""
    try:
        found = held(run, means)
    except Failed as error:
        failure = Finding(LOG, None, "trials that come to an end", str(error), _TRAIN, "error")
        made.findings.append(plain(failure, "audit.9", run.label))
        return
    made.held.append((run, found))
    made.findings += HELD.findings(found, run.label)


def _failure(run: Run, claim: Claim | None, error: Failed) -> Finding:
    """The finding for training that failed to finish, or for kept states that are not the logged ones."""
    line, what = (claim.line, f"training to {claim.after} samples") if claim else (None, "building its initial state")
    failure = Finding(LOG, line, what, str(error), _TRAIN, "error")
    if isinstance(error, NotLogged):
        expected, mend = "the states whose sums the log has", "submit the states as the suite kept them"
        failure = Finding(LOG, line, expected, str(error), mend)
    return plain(failure, "audit.4", run.label)


def _hidden(root: Path, asked: Asked) -> list[Path]:
    """The folders that a stranger's code must not see: data with its answers, the cache, states and the evidence.

    Raises UserError for a folder that the code needs in order to run.
    """
    needed = [Path(each).resolve() for each in (ROOT, sys.prefix, sys.base_prefix, np.__file__, tempfile.gettempdir())]
    named = (root, asked.evidence, asked.states, files.root(asked.data_dir), cache_dir())
    found = {each.resolve() for each in named if each is not None and each.exists()}
    for each in found:
        if within := [path for path in needed if path.is_relative_to(each)]:
            raise UserError(
                f"{each} cannot be hidden from the code of a submission, which needs {within[0]} there: give evidence, "
                "states and data folders of their own, or on a machine that is isolated as a whole say isolated=true"
            )
    return sorted(each for each in found if not any(each != other and each.is_relative_to(other) for other in found))
