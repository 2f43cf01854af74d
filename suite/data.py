"""`python -m suite.data`: where the datasets lie, getting them, and verifying them."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from suite import config
from suite.config.models import Benchmark
from suite.errors import OneLineParser, UserError, command, one_of
from suite.record.tables import show_table
from suite.store import files, shards

HELP = """\
commands:
  ls                     every dataset: licence, size, whether it is here, citation (in a terminal of 120 columns)
  fetch BENCHMARK|TASK   bring the data: use what is here, else unpack an archive that is here, else download; a TASK
                         brings all its scales, full too (ls shows sizes)
  verify [BENCHMARK]     read every file and compare its sha256 sum; lists all faults
  path [BENCHMARK]       the data folder, or the benchmark's files in it

BENCHMARK is a task at a scale, in either form:
  python -m suite.data fetch TASK/SCALE
  python -m suite.data fetch task=TASK scale=SCALE
subset=0.01 takes that share of the training data, at least one shard, of benchmarks whose data are shards: for a pilot.

The data folder is data_dir=FOLDER, else the environment variable SUITE_DATA, else a folder in the user's cache folder.
Files that are already there, also read-only, are used as they are.
Exit code: 0 fine, 1 verify found a fault, 2 a mistake in what was typed or a dataset that cannot be had.
"""
WITH_CITATION = 120  # characters of a terminal that has room for it


def main(argv: list[str]) -> int:
    """Run one command and return its exit code. Raises UserError for a mistake in it or data that cannot be had."""
    parser = OneLineParser(
        prog="python -m suite.data",
        description="Where the datasets lie, getting them, and verifying them.",
        epilog=HELP,
    )
    parser.add_argument("command", nargs="?", help="ls, fetch, verify or path")
    parser.add_words("BENCHMARK", "what to act on", "*")
    args = parser.parse_words(argv, ("task", "scale", "subset"))
    if args.command is None:
        raise UserError(f"do what? Give one of: {', '.join(COMMANDS)} (--help explains them).")
    one_of("command", args.command, COMMANDS)
    names, scale = args.words, args.options.get("scale", "")
    if "task" in args.options:
        names.append(args.options["task"])
    if "scale" in args.options and not names:
        raise UserError("scale= needs a task: task=TASK scale=SCALE.")
    selected = [benchmark for name in names for benchmark in _benchmarks(name, scale)]
    if "subset" in args.options:
        selected = [benchmark.of_subset(_share(args.options["subset"])) for benchmark in selected]
    return COMMANDS[args.command](selected, args.data_dir)


def _benchmarks(name: str, scale: str = "") -> list[Benchmark]:
    """The benchmark `task/scale`, or a task's benchmark at `scale`, or all of a task's benchmarks."""
    task, _, own = name.partition("/")
    config.load("task", task)
    if own and scale and own != scale:
        raise UserError(f"scale={scale} contradicts {name}")
    return [config.benchmark(task, each) for each in ([own or scale] if own or scale else config.scales(task))]


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(
            f"subset={text} is no number: it is the share of the training data that a pilot takes"
        ) from None


def ls(selected: list[Benchmark], data_dir: str | None) -> int:
    """Print each dataset: in a table on a terminal, with citations if there is room, else as tab-separated values."""
    root = files.root(data_dir)
    heads = ["benchmark", "dataset", "licence", "size", "state", "citation"]
    rows = []
    for benchmark in selected or config.benchmarks():
        dataset = benchmark.dataset
        found = files.status(dataset, root, "size")
        size = f"{dataset.bytes / 1e6:.1f} MB" if found else "0"
        rows.append([benchmark.name, dataset.name, dataset.licence, size, files.told(found), dataset.citation])
    console = Console(markup=False)
    if console.is_terminal:
        shown = len(heads) if console.width >= WITH_CITATION else len(heads) - 1
        table = Table(*heads[:shown], box=None, title=f"data folder: {root}", title_justify="left")
        for row in rows:
            table.add_row(*row[:shown])
        show_table(console, table)
    else:
        for row in [heads, *rows]:
            print("\t".join(row))
    return 0


def fetch(selected: list[Benchmark], data_dir: str | None) -> int:
    """Bring the data of the selected benchmarks."""
    if not selected:
        raise UserError("fetch needs a benchmark or a task: python -m suite.data fetch TASK/SCALE; ls lists them.")
    for benchmark in selected:
        dataset, root = benchmark.dataset, files.root(data_dir)
        if files.faults(dataset, root, "size"):
            missing = files.missing_bytes(dataset.source_files, root)
            if what := f"{missing / 1e6:,.1f} MB to bring" if missing else dataset.in_forms:
                print(f"{benchmark.name}: {dataset.name}, {what}; licence: {dataset.licence}")
        folder = shards.ensure(benchmark, root)
        print(f"{benchmark.name}: {f'in {folder}' if benchmark.dataset.members else 'embedded, needs no files'}")
    return 0


def verify(selected: list[Benchmark], data_dir: str | None) -> int:
    """Verify every file; return 1 if there is a fault. Without a selection, datasets not fetched are no fault."""
    root = files.root(data_dir)
    faulty = False
    for benchmark in selected or config.benchmarks():
        expected = len(benchmark.dataset.members)
        faults = files.faults(benchmark.dataset, root, "sha256")
        if not expected:
            print(f"{benchmark.name}: embedded, has no files")
        elif not selected and [fault.state for fault in faults] == ["missing"] * expected:
            print(f"{benchmark.name}: not fetched")
        else:
            unheld = sum(file.sha256 is None for file in benchmark.dataset.members)
            but = f"; {unheld} of them by size alone, no sum is declared" if unheld else ""
            print(f"{benchmark.name}: {expected - len(faults)} of {expected} files right{but}")
            for fault in faults:
                print(f"  {fault.problem}")
            faulty = faulty or bool(faults)
    if faulty:
        share = selected[0].dataset.subset if selected else None
        pilot = f" subset={share}" if share else ""
        print(f"To mend, delete the faulty files and run {files.fetching(f'BENCHMARK{pilot}', data_dir)}.")
    return int(faulty)


def path(selected: list[Benchmark], data_dir: str | None) -> int:
    """Print the data folder, or the selected benchmarks' files, one per line; they need not exist."""
    root = files.root(data_dir)
    if not selected:
        print(root)
    for benchmark in selected:
        if not benchmark.dataset.members:
            print(f"{benchmark.name} is embedded: it has no files.", file=sys.stderr)
        for file in benchmark.dataset.members:
            print(root / file.path)
    return 0


COMMANDS = {"ls": ls, "fetch": fetch, "verify": verify, "path": path}

if __name__ == "__main__":
    command(main)
