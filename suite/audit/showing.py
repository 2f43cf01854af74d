"""An audit in the terminal and as JSON: what was drawn, what came of it, and the verdict."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from suite.audit.auditing import Asked, Audited, Plan
from suite.audit.comparing import Compared
from suite.audit.subject import Run
from suite.errors import shown
from suite.record.equivalence import Comparison
from suite.record.summary import format_count
from suite.record.tables import show_table
from suite.review.kinds import place
from suite.review.model import ORDER
from suite.review.terminal import STYLES


def plan(console: Console, made: Plan, asked: Asked) -> None:
    """Print what would be trained, and with whose code."""
    for part in made.parts:
        task = part.benchmark.task
        said = f"{part.benchmark.name}: {format_count(len(part.drawn), 'block')} of {part.blocks}, draw={asked.entropy}"
        console.print(Text(said), soft_wrap=True)
        for run, claim in part.drawn:
            begin = claim.before if claim.before == 0 or run.kept(claim.before) else 0
            long = "" if begin == claim.before else " (from the seed: the state before it is not at hand)"
            where = shown(run.label) or "the run"
            console.print(Text(f"  {where}: from {begin:,} to {claim.after:,} samples{long}"), soft_wrap=True)
        remark = f"; {part.code.remark}" if part.code.remark else ""
        console.print(
            Text(f"  code: {shown(part.code.source)}{remark}: {_files(part.code.files, task)}"), soft_wrap=True
        )


def _files(files: dict[str, bytes], task: str) -> str:
    own = sum(name.startswith(f"reference_impls/{task}/") for name in files)
    size = sum(map(len, files.values()))
    return f"{format_count(len(files), 'file')}, {own} of them of reference_impls/{task}, {size >> 10} KiB"


def show(console: Console, made: Audited, asked: Asked) -> None:
    """Print what was found."""
    if made.findings:
        table = Table("rule", "file:line", "what", show_lines=True)
        for finding in sorted(made.findings, key=lambda each: ORDER.index(each.severity)):
            what = Text()
            for name in ("expected", "found", "mend"):
                what.append("\n" if what else "").append(f"{name:>8}  ", style="dim").append(getattr(finding, name))
            rule = Text(f"{finding.rule}\n").append(finding.severity, style=STYLES[finding.severity])
            table.add_row(rule, Text(place(finding)), what)
        show_table(console, table)
    for each in made.compared:
        console.print(_block(each), soft_wrap=True)
    for run, comparison in made.held:
        console.print(_held(run, comparison), soft_wrap=True)
    if asked.equivalence and not any(part.strange for part in made.plan.parts):
        in_open = any(part.in_open for part in made.plan.parts)
        why = "the open division frees the model" if in_open else "the reference trained"
        console.print(f"{why}: there is no implementation to hold to the reference", soft_wrap=True)
    console.print(
        Text(f"{made.verdict.upper()}: {said(made)}; draw={asked.entropy}", STYLES[made.verdict]), soft_wrap=True
    )


def said(made: Audited) -> str:
    """The counts of what was trained and found, in words."""
    blocks = sum(part.blocks for part in made.plan.parts)
    exact = sum(each.exact for each in made.compared)
    trained = f"{len(made.compared)} of {format_count(blocks, 'block')} trained again, {exact} bit for bit"
    seeds = f"{format_count(made.initial, 'initial state')} built again"
    counts = [f"{name}s: {sum(f.severity == name for f in made.findings)}" for name in ORDER]
    told = [each for each in counts if not each.endswith(" 0")]
    return "; ".join([trained, seeds, *told])


def _block(each: Compared) -> Text:
    made, claim = each.replay, each.replay.claim
    where = f"{shown(made.run.label)}  " if made.run.label else ""
    parts = [f"samples {made.begin:,} to {claim.after:,}", _state(each)]
    metric = made.run.benchmark.metric
    quality = made.predicted.metrics.get(metric) if made.predicted else None
    claimed = claim.metrics.get(metric)
    if quality is not None:
        parts.append(f"{metric} {quality:.4g} (claimed {shown(claimed):.12})")
    time = "not known" if made.claimed_seconds is None else f"{made.claimed_seconds:.3g} s"
    parts.append(f"{made.seconds:.3g} s (claimed {time})")
    if made.repeats is False:
        parts.append("this machine does not repeat itself")
    return Text(where + ", ".join(parts))


def _held(run: Run, made: Comparison) -> Text:
    tried = [trial for trial in made.trials if trial.found is not None]
    within = f"{sum(trial.holds for trial in tried)} of {format_count(len(tried), 'trial')} within their bounds"
    where = f"{shown(run.label)}  " if run.label else ""
    return Text(f"{where}held to the reference: {within}, {len(made.trials) - len(tried)} not tried")


def _state(each: Compared) -> str:
    if each.exact:
        return "the same bits"
    if (way := each.way) is None:
        return "other bits"
    return f"{way.distance:.2%} of the way from it, stretch {way.stretch:+.2%} and {way.other:+.2%}"


def as_json(made: Audited, asked: Asked) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {
        "verdict": made.verdict,
        "draw": asked.entropy,
        "blocks_of": sum(part.blocks for part in made.plan.parts),
        "findings": [asdict(finding) for finding in made.findings],
        "blocks": [_json(each) for each in made.compared],
        "equivalence": [
            {"run": shown(run.label), "trials": [trial.model_dump() for trial in comparison.trials]}
            for run, comparison in made.held
        ],
    }


def _json(each: Compared) -> dict[str, Any]:
    made, way = each.replay, each.way
    return {
        "run": shown(made.run.label),
        "samples": [made.begin, made.claim.after],
        "exact": each.exact,
        "distance": _finite(way.distance) if way else None,
        "stretch": _finite(way.stretch) if way else None,
        "other_stretch": _finite(way.other) if way else None,
        "unlike": list(each.unlike),
        "metrics": {name: _finite(value) for name, value in made.predicted.metrics.items()} if made.predicted else {},
        "seconds": made.seconds,
        "claimed_seconds": made.claimed_seconds,
        "repeats": made.repeats,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
