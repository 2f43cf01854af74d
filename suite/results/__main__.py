"""`python -m suite.results FOLDER...`: results side by side, as Markdown, as curves, as a page with CSV and JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from suite.errors import OneLineParser, UserError, command, shown, unknown
from suite.plots.curves import svg
from suite.record.summary import format_count
from suite.results import page
from suite.results.curves import figures
from suite.results.entry import GRADES, Entry
from suite.results.exporting import as_csv, as_json
from suite.results.markdown import markdown
from suite.results.reading import Read, read, sources
from suite.review.model import SUITE, add_reviewers_files
from suite.review.page import html as review_page
from suite.review.progress import bar
from suite.rules.seals import SEAL
from suite.store.disk import LINK, refuse_unwritable, write_text

EPILOG = """\
FOLDER is the out= folder of python -m suite.run, a submission, or a folder that holds several of these; a folder of
MLPerf Training's results is named with the rules of its round, as mlperf-5.1=FOLDER. Each is reviewed first, and its
verdict stands beside its figures. The predictions are scored again on the dataset in data_dir=FOLDER, else
in $SUITE_DATA, else in the user's cache folder; without it the verdict is "error".

  python -m suite.results runs/a runs/b --markdown                  tables for a document, on standard output
  python -m suite.results runs/a runs/b --curves docs/curves.svg    quality over samples and over time, with the target
  python -m suite.results submissions --html results.html           a page, with results.csv, results.json and the
                                                                    reviews, results-reviews/, beside it
  python -m suite.results submissions mlperf-5.1=v5.1 --html --reference "ORG: SYSTEM"

Markdown has tables for each benchmark on each machine of each submitter: a row for each run, and one for each
framework: the olympic mean (without the fastest and the slowest run; of fewer than three their mean, and that is said
beside it), the median and the range of those that reached the target. A factor by which the rules multiply an olympic
mean stands beside it. An estimated energy is marked "~" and "estimated", a run that did not reach its target "NOT
REACHED", one on a machine with other work "NOISY", an energy of less than 95 % of a run's time, or without the
accelerators that took part, "ENERGY IN PART", a price that is not the suite's "OWN PRICE", training on a part of the
data "0.5 OF THE DATA", samples to quality for which the reference has no points "NO REFERENCE POINTS", several runs
that share a seed "ONE SEED". The page has filters, sorting, cost against time with the Pareto front, each run's curves,
and times held to a reference system; it needs no network.
"""


def main(argv: list[str]) -> int:
    """Read what the command line `argv` names and write what it asks for."""
    args = _arguments(argv)
    refuse_unwritable(args.curves, args.html)
    with bar() as progress:
        named = dict.fromkeys(args.sources)
        given = (args.data_dir, progress, args.witness_roots, args.waivers)
        every = [read(source, *given) for source in named]
    for link in dict.fromkeys(link for each in every for link in _links(each)):
        print(f"{shown(str(link))}: a link to a folder, not followed: name that folder itself", file=sys.stderr)
    found = _distinct(every)
    entries = [entry for each in found for entry in each.entries]
    if args.html:
        _page(args.html, found, entries, _reference(args.reference, entries))
    if args.curves:
        write_text(args.curves, svg(figures(entries)))
    if args.markdown or not (args.curves or args.html):
        print(markdown(entries), end="")
    return 0


def _links(found: Read) -> list[Path]:
    """The links to folders that the review came upon; the results behind them are not read."""
    places = [found.source.folder / finding.file for finding in found.report.findings if finding.found == LINK]
    return [place for place in places if place.is_dir()]


def _distinct(found: Sequence[Read]) -> list[Read]:
    """Drop duplicates of a result: it may be named twice, as a copy, or by a folder below or above it.

    The one with most runs stays, and a submission rather than the runs that it was made of: it may name the system
    otherwise. None is dropped for one with a worse verdict: adding a run to a copy of a result does not oust it.
    """
    widest = sorted(found, key=lambda each: len(each.source.folder.resolve().parts))
    made = [(_runs(entry), entry) for each in widest for entry in each.entries]
    kept: list[tuple[set[object], Entry]] = []
    for runs, entry in sorted(made, key=lambda each: (-len(each[0]), not _sealed(each[1]))):
        if not any(
            runs <= others
            and _whose(entry) == _whose(other)
            and GRADES.index(other.verdict) <= GRADES.index(entry.verdict)
            for others, other in kept
        ):
            kept.append((runs, entry))
    ids = {id(entry) for _, entry in kept}
    reads = [replace(each, entries=[entry for entry in each.entries if id(entry) in ids]) for each in found]
    return [each for each in reads if each.entries or not each.report.scores]


def _whose(entry: Entry) -> tuple[str, ...]:
    system = "" if entry.ruleset == SUITE else entry.system
    return entry.ruleset, entry.benchmark, entry.submitter, system


def _sealed(entry: Entry) -> bool:
    return any((folder / SEAL).is_file() for folder in Path(entry.source, entry.path, SEAL).resolve().parents)


def _runs(entry: Entry) -> set[object]:
    """Identify each run by its seed, summary and history; one that was never evaluated by where it lies."""
    folder = Path(entry.source).resolve()
    runs: set[object] = {
        (run.seed, run.summary, run.history) if run.history.points else folder / run.path for run in entry.runs
    }
    return runs or {folder / entry.path}


def _page(path: Path, found: Sequence[Read], entries: Sequence[Entry], reference: str | None) -> None:
    """Write the page, the tables beside it, and a review of each source in a folder beside it."""
    folder = path.with_name(f"{path.stem}-reviews")
    reviews = {}
    for at, each in enumerate(found, 1):
        root, place = each.source.folder, folder / f"{at}.html"
        reviews[str(root), each.source.ruleset] = place
        write_text(place, review_page(each.report, root))
    write_text(path.with_suffix(".csv"), as_csv(entries, path))
    write_text(path.with_suffix(".json"), as_json(entries, path))
    write_text(path, page.html(entries, path, reviews, reference))
    count = format_count(len(entries), "result")
    print(f"{path}: {count}; beside it {path.stem}.csv, {path.stem}.json and {folder.name}/")


def _reference(name: str | None, entries: Sequence[Entry]) -> str | None:
    """The one system of that name, with its submitter or without. Raises UserError for none, or more than one."""
    system_of = page.systems(entries)
    systems = {system_of(entry): (page.system_of(entry), entry.system) for entry in entries}
    named = [full for full, shorter in systems.items() if name in (full, *shorter)]
    if name is not None and len(named) != 1:
        raise unknown("system of --reference", name, named or systems)
    return named[0] if name is not None else None


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = OneLineParser("python -m suite.results", "Show results side by side.", EPILOG)
    parser.add_words("FOLDER", "results, or mlperf-X.Y=FOLDER")
    parser.add_argument("--markdown", action="store_true", help="print tables in Markdown (the default)")
    parser.add_argument("--curves", metavar="FILE", type=Path, help="write the runs' curves as an SVG file")
    parser.add_argument("--html", metavar="FILE", type=Path, nargs="?", const=Path("results.html"), help="write a page")
    parser.add_argument("--reference", metavar="SYSTEM", help="with --html: the system that times are held to at first")
    add_reviewers_files(parser)
    args = parser.parse_intermixed_args(argv)
    args.sources, args.data_dir = sources(args.words)
    if args.html and args.html.suffix != ".html":
        raise UserError(f"--html {shown(str(args.html))}: a page is called something.html; its tables lie beside it")
    if args.reference and not args.html:
        raise UserError("--reference is for the page: give --html with it")
    return args


if __name__ == "__main__":
    command(main)
