"""`python -m suite.compare A B`: two results side by side, with confidence intervals: difference, or noise?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from suite.errors import OneLineParser, UserError, command
from suite.probe import comparing, showing
from suite.probe import record as probe_record
from suite.record.tables import plain_console, show_table
from suite.results.across import Across, of_comparisons
from suite.results.comparison import CONFIDENCE, LEAST_RUNS, Comparison, Figure, compare, format_interval
from suite.results.reading import read, sources
from suite.review.model import add_reviewers_files
from suite.review.progress import bar

MAX_DIFFERENCES = 40  # in the terminal

EPILOG = f"""\
A and B are out= folders of python -m suite.run, submissions, or folders that hold such; MLPerf's results are named with
the rules of their round, as mlperf-5.1=FOLDER. Compared are the benchmarks that both hold, and where one of them holds
results of one benchmark that differ in framework, numeric format, system, machine, submitter, division, part of the
training data, rules, hyperparameters, cadence or budget, like is held to like.

For each figure: its mean over the runs that reached the target, and the ratio B / A with its confidence interval of
{CONFIDENCE:.0%}, by Welch's t of the logarithm. An interval that holds 1 is noise: these runs do not show a
difference. Fewer than {LEAST_RUNS} such runs on a side tell nothing. Where runs did not reach the target, the means
flatter the side that lost them. Runs that share a seed ("ONE SEED") have an interval that tells nothing of other seeds.

Over several comparisons stands the geometric mean of their ratios, with the interval of all runs together; one that
holds 1 is a tie. Which benchmarks only one side holds is said.

Of two probes, out= folders of python -m suite.probe, the figures of like cells are compared by their own intervals,
which hold nothing of what differs between processes.

Below stands what differs of what decided the runs: configuration, machine, software, revision, environment. A value is
named by its place in config.yaml or system.json, the files of the evidence that hold all of them.

Exit code: 0 compared, 2 a mistake in the command, or nothing to compare.
"""


def main(argv: list[str]) -> int:
    """Compare what the command line `argv` names and print it."""
    parser = OneLineParser(
        prog="python -m suite.compare",
        description="Compare two results.",
        epilog=EPILOG,
    )
    parser.add_words("A B", "two results", 1)
    add_reviewers_files(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    args = parser.parse_intermixed_args(argv)
    if len(args.words) == 2 and all(probe_record.holds(Path(word)) for word in args.words):
        return _compare_probes(args.words, args.json)
    named, data_dir = sources(args.words)
    if len(named) != 2:
        raise UserError(f"{len(named)} results given: name two. See {parser.prog} --help.")
    with bar() as progress:
        sides = [read(source, data_dir, progress, args.witness_roots, args.waivers).entries for source in named]
    made = compare(*sides)
    if not made:
        a, b = (
            f"{source.folder} holds {', '.join(sorted({entry.benchmark for entry in side}))}"
            for source, side in zip(named, sides, strict=True)
        )
        raise UserError(f"nothing to compare: {a}; {b}")
    held = [{entry.benchmark for entry in side} for side in sides]
    lacking = {"A": sorted(held[0] - held[1]), "B": sorted(held[1] - held[0])}
    if args.json:
        told = {
            "comparisons": [{**asdict(each), "figures": _told(each.figures)} for each in made],
            "over all": _told(of_comparisons(made)),
            "only": lacking,
        }
        print(json.dumps(told, indent=1))
    else:
        console = plain_console(120)
        for each in made:
            _show(console, each)
        if len(made) > 1:
            _show_across(console, made)
        for name, benchmarks in lacking.items():
            if benchmarks:
                console.print(Text(f"only {name} holds {', '.join(benchmarks)}"), soft_wrap=True)
    return 0


def _compare_probes(places: list[str], as_json: bool) -> int:
    a, b = (probe_record.read(Path(place)) for place in places)
    if as_json:
        figures = [
            {
                "cell": x.cell,
                "figure": x.figure,
                "a": x.a.model_dump(),
                "b": x.b.model_dump(),
                "ratio": x.ratio,
                "says": x.says,
            }
            for x in comparing.compare(a, b)
        ]
        told = {"figures": figures, "left out": comparing.left_out(a, b), "differences": comparing.differences(a, b)}
        print(json.dumps(told, indent=1))
        return 0
    showing.show_compared(plain_console(160), a, b)
    return 0


def _told(figures: Sequence[Figure] | Sequence[Across]) -> list[dict[str, object]]:
    return [{**asdict(figure), "says": figure.says} for figure in figures]


def _show(console: Console, made: Comparison) -> None:
    sides = [Column(Text(f"{letter}: {side.name}")) for letter, side in (("A", made.a), ("B", made.b))]
    table = Table("", *sides, "B / A", "interval", "which says")
    table.add_row("target reached", f"{made.a.reached} of {made.a.runs}", f"{made.b.reached} of {made.b.runs}")
    table.add_row("seeds", made.a.seeds, made.b.seeds)
    table.add_row("clock", made.a.clock, made.b.clock)
    for figure in made.figures:
        low_high = "" if figure.interval is None else format_interval(figure.interval)
        ratio = "" if figure.ratio is None else f"{figure.ratio:.3g}"
        table.add_row(figure.name, Text(figure.shown_a), Text(figure.shown_b), ratio, low_high, figure.says)
    console.print(Text(made.benchmark))
    show_table(console, table)
    if made.differences:
        _show_differences(console, made)
    for side, of in (("A", made.a), ("B", made.b)):
        for remark in of.remarks:
            console.print(Text(f"{side}: {remark}", "yellow"), soft_wrap=True)


def _show_across(console: Console, made: Sequence[Comparison]) -> None:
    table = Table("over all of these", "comparisons", "B / A, geometric mean", "interval", "which says")
    for each in of_comparisons(made):
        low_high = "" if each.interval is None else format_interval(each.interval)
        mean = "" if each.ratio is None else f"{each.ratio:.3g}"
        table.add_row(each.name, f"{len(each.over)} of {len(made)}", mean, low_high, each.says)
    show_table(console, table)


def _show_differences(console: Console, made: Comparison) -> None:
    table = Table("what decided them", "A", "B", title="What differs", title_justify="left")
    for row in made.differences[:MAX_DIFFERENCES]:
        table.add_row(*(Text(cell, overflow="fold") for cell in row))
    show_table(console, table)
    if len(made.differences) > MAX_DIFFERENCES:
        console.print(f"{len(made.differences) - MAX_DIFFERENCES} more differences: --json lists all")


if __name__ == "__main__":
    command(main)
