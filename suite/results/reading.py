"""Results from folders: evidence reviewed by rules.md, or MLPerf's results reviewed by MLCommons' own rule files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite import config
from suite.errors import UserError, shown, shown_path, split_options, without_value
from suite.mlperf import packages, systems
from suite.mlperf.scores import Score, counted_for
from suite.record.parsing import number, whole
from suite.record.summary import Summary
from suite.results.entry import UNKNOWN, Entry
from suite.review.archive import refuse_packed
from suite.review.drawn import history_of
from suite.review.kinds import place
from suite.review.model import SUITE, Log, Report, report
from suite.rules.claims import SPELLED, UNDECIDED, UNNAMED
from suite.rules.finding import Progress, verdict_of
from suite.rules.seals import NAME, RESULTS, SEAL, Seal
from suite.rules.submission import is_within
from suite.rules.verdict import ResultReview, RunReview

_LEAST, _BOUND = 1e-9, 1e15
OWN_PRICE = "measurement.4"  # the rule that notes a price which is not the suite's
# A breach counts against every result below the seal.
SEALED = ("package.1", "package.6", "package.7", "package.8", "package.9")


@dataclass(frozen=True)
class Source:
    """A folder to read, and the ruleset that it is judged by: `suite`, or `mlperf-X.Y`."""

    folder: Path
    ruleset: str = SUITE

    @classmethod
    def of_word(cls, word: str) -> Source:
        """`FOLDER`, or `mlperf-X.Y=FOLDER`. Raises UserError for a ruleset without a folder."""
        ruleset, equals, folder = word.partition("=")
        if equals and ruleset.startswith("mlperf-") and not Path(word).exists():
            if not folder:
                raise without_value(ruleset)
            return cls(Path(os.path.expanduser(folder)), ruleset)
        return cls(Path(word))


def sources(words: Sequence[str]) -> tuple[list[Source], str | None]:
    """The folders and the data folder that a command line names.

    Raises UserError for an unknown option, for an archive, and if no folder is named.
    """
    theirs = [word for word in words if word.startswith("mlperf-")]
    options, ours = split_options([word for word in words if word not in theirs], ("data_dir",))
    found = [Source.of_word(word) for word in words if word in (*theirs, *ours)]
    if not found:
        raise UserError("no results are named: give a FOLDER")
    for source in found:
        refuse_packed(source.folder)
    return found, options.get("data_dir")


@dataclass(frozen=True)
class Read:
    """What was read from a source: its results, and the review that they come from."""

    source: Source
    report: Report
    entries: list[Entry]


def read(
    source: Source,
    data_dir: str | None = None,
    progress: Progress = lambda done, of: None,
    witness_roots: Path | None = None,
    waivers: Path | None = None,
) -> Read:
    """Review a source and take its results. Raises UserError if there is nothing to review, or a waiver malformed."""
    made = report(
        source.folder,
        source.ruleset,
        source.folder.resolve().name,
        data_dir=data_dir,
        waivers=waivers,
        witness_roots=witness_roots,
        progress=progress,
    )
    for finding in made.findings:
        if (finding.rule, finding.severity) == ("review.1", "error"):  # of the reviewer's own file
            raise UserError(f"{place(finding)}: expected {finding.expected}, found {finding.found}; {finding.mend}")
    if source.ruleset == SUITE:
        return Read(source, made, [_of_suite(result, source, made) for result in made.results])
    return Read(source, made, _of_mlperf(source, made))


def _of_suite(result: ResultReview, source: Source, made: Report) -> Entry:
    benchmark, description = result.benchmark, result.description
    declared = _declared(source.folder, result)
    seals = _seals(source.folder, result.path)
    judged = {log.path: log.verdict for log in made.logs}
    counting = [
        finding
        for finding in made.findings
        if finding.severity != "note"
        and finding not in made.waived
        and (
            is_within(finding.file, result.path)
            or (finding.rule in SEALED and any(is_within(finding.file, at) for at in seals))
        )
    ]
    return Entry(
        source=str(source.folder),
        path=result.path or ".",
        ruleset=SUITE,
        benchmark=benchmark.name if benchmark else UNKNOWN,
        metric=benchmark.metric if benchmark else "quality",
        target=benchmark.target if benchmark else None,
        submitter=declared["submitter"],
        division=result.division or UNKNOWN,
        status=declared["status"],
        system=declared["system"],
        machine=_machine(description),
        accelerators=_accelerators(description),
        framework=result.framework or UNKNOWN,
        precision=result.precision or UNKNOWN,
        implementation=result.implementation,
        verdict=verdict_of(counting),
        findings=len(counting),
        seconds=bounded(result.score_s),
        normalisation=result.normalisation,
        unheld=bool(result.unheld),
        runs_needed=benchmark.runs if benchmark else None,
        own_price=any(finding.rule == OWN_PRICE for finding in result.findings),
        seeds=f"drawn by {result.token}" if result.token else "chosen",
        clock="witnessed" if result.witnessed else "its own",
        part=benchmark.dataset.subset if benchmark else None,
        flops=benchmark.train_flops_per_sample if benchmark and result.division != keys.OPEN else None,
        peak_flops=_peak_flops(result),
        runs=tuple(_bounded(replace(run, verdict=judged[run.path])) for run in result.runs),
        decided=result.decided,
    )


def _peak_flops(result: ResultReview) -> float | None:
    """The system's peak in operations a second, from the suite's own figures; None if they say nothing."""
    if result.system not in config.names("hw"):
        return None
    system = config.system(result.system)
    each = system.peak_flops(result.precision or "")
    nodes = _count(result.description.get("number_of_nodes")) or 1
    return each * system.accelerators_per_node * nodes if each else None


def _bounded(run: RunReview) -> RunReview:
    """A run with impossible figures set to None; one without a time has not reached its target."""
    claims = run.summary
    seconds, cost, joules = map(bounded, (claims.seconds, claims.cost, claims.joules))
    summary = replace(claims, seconds=seconds, cost=cost, joules=joules)
    return replace(run, converged=run.converged and seconds is not None, summary=summary)


def _declared(root: Path, result: ResultReview) -> dict[str, str]:
    """Submitter and status by the log, else by the seal above the result; the system by the seal if it names one."""
    submitter, status = result.submitter or UNNAMED, result.status or UNDECIDED
    made = {"submitter": submitter, "status": status, "system": result.system or UNKNOWN}
    for folder in _seals(root, result.path):
        if (seal := Seal.found(root / folder)) is None:
            continue
        if submitter in (UNNAMED, seal.org):
            made["submitter"] = seal.org
        if status == UNDECIDED and seal.category in SPELLED:
            made["status"] = SPELLED[seal.category]
        here = PurePosixPath(result.path).relative_to(folder).as_posix()
        names = [each.get("system") for each in seal.results if each.get("path") == here]
        made["system"] = next((name for name in names if isinstance(name, str) and NAME.match(name)), made["system"])
    return made


def _seals(root: Path, path: str) -> list[str]:
    """The folders above a result, relative to `root`, that hold a seal, or should because it lies in their results/."""
    parts = PurePosixPath(path).parts
    folders = ["/".join(parts[:depth]) for depth in range(len(parts) + 1)]
    return [
        folder
        for folder, below in zip(folders, [*parts, ""], strict=True)
        if below == RESULTS or (root / folder / SEAL).is_file()
    ]


def _of_mlperf(source: Source, made: Report) -> list[Entry]:
    logs = iter(made.logs)  # in the order of the groups
    groups = {group.label or ".": group for group in packages.survey(source.folder, source.ruleset).groups}
    logs_of = {label: [next(logs) for _ in group.logs] for label, group in groups.items()}
    breaches = [finding for finding in made.counting if finding.severity != "note" and finding not in made.waived]
    entries = []
    for score in (Score(**each) for each in made.scores):
        group = groups[score.path]
        below = logs_of[score.path]
        counting_for = counted_for([log.facts["benchmark"] for log in below])
        here = [log for log, counted in zip(below, counting_for, strict=True) if counted == score.benchmark]
        described = systems.place(group)
        others = {log.path for log in made.logs} - {log.path for log in here}
        counting = [
            finding
            for finding in breaches
            if finding.file == described or (is_within(finding.file, group.label) and finding.file not in others)
        ]
        description = _texts(systems.description(group))
        entries.append(
            Entry(
                source=str(source.folder),
                path=shown_path(score.path),
                ruleset=source.ruleset,
                benchmark=shown(score.benchmark or UNKNOWN),
                metric="eval_accuracy",
                target=None,
                submitter=shown(score.org or UNKNOWN),
                division=shown((score.division or description.get("division") or UNKNOWN).lower()),
                status=description.get("status", UNKNOWN),
                system=shown(score.system or UNKNOWN),
                machine=_machine(description),
                accelerators=_accelerators(description),
                framework=description.get("framework", UNKNOWN),
                precision=UNKNOWN,
                implementation=UNKNOWN,
                verdict="fail" if score.minutes is None else verdict_of(counting),
                findings=len(counting),
                seconds=_seconds(score.minutes),
                normalisation=score.scaling,
                unheld=False,
                runs_needed=score.needed,
                own_price=False,
                seeds=UNKNOWN,
                clock="its own",
                part=None,
                flops=None,
                peak_flops=None,
                runs=tuple(_run_of_mlperf(log, source) for log in here),
            )
        )
    return entries


def _run_of_mlperf(log: Log, source: Source) -> RunReview:
    history = history_of(log, source.folder.resolve(), source.ruleset)
    last = history.points[-1] if history.points else None
    seconds = _seconds(log.facts["minutes"])
    return RunReview(
        path=log.path,
        verdict=log.verdict,
        converged=log.verdict == "pass" and seconds is not None,
        findings=log.findings,
        summary=Summary(
            quality=last.quality if last else None, samples=last.samples if last else None, seconds=seconds
        ),
        seed=None,
        history=history,
    )


def bounded(value: float | None) -> float | None:
    """A plausible figure as it is; None for one that is negative, next to nothing or beyond all measure."""
    return value if value is not None and (value == 0 or _LEAST <= value <= _BOUND) else None


def _seconds(minutes: Any) -> float | None:
    found = number(minutes)
    return None if found is None else bounded(found * 60)


def _texts(description: Mapping[str, Any]) -> dict[str, str]:
    """The plain values of a system description as short texts."""
    return {
        str(key): shown(str(value).strip())
        for key, value in description.items()
        if isinstance(value, str | int | float) and str(value).strip()
    }


def _machine(description: Mapping[str, str]) -> str:
    """`2 x 8 x NVIDIA A100`: nodes if several, accelerators and their name, or the processors where there are none."""
    nodes, each = _count(description.get("number_of_nodes")) or 1, _count(description.get("accelerators_per_node"))
    if each:
        made = f"{each} x {description.get('accelerator_model_name', 'accelerators of no name')}"
    else:
        name = description.get("host_processor_model_name")
        count = description.get("host_processor_vcpu_count", "?")
        made = f"{count} logical CPU{'' if count == '1' else 's'} of {name}" if name else UNKNOWN
    return f"{nodes} x {made}" if nodes > 1 else made


def _accelerators(description: Mapping[str, str]) -> int | None:
    nodes, each = _count(description.get("number_of_nodes")), _count(description.get("accelerators_per_node"))
    return None if each is None else (nodes or 1) * each


def _count(text: str | None) -> int | None:
    return whole(int(text)) if text and text.isdecimal() and len(text) < 10 else None
