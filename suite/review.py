"""`python -m suite.review FOLDER`: does the evidence hold? Every finding with rule, file, line and how to mend it."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.table import Table
from rich.text import Text

from suite.errors import UserError, command, unknown
from suite.record.summary import format_cost, format_energy, format_seconds
from suite.rules.finding import Finding
from suite.rules.verdict import Review, RunReview, review

EXIT_CODES = {"pass": 0, "fail": 1, "error": 2}
STYLES = {"pass": "green", "fail": "red", "error": "magenta", "note": "cyan"}
MAX_ROWS = 20  # of one rule in the table

EPILOG = """\
FOLDER is the out= folder of python -m suite.run: the evidence of one run, or run_1, run_2, ... of a result.
The predictions are scored again on the dataset in data_dir=FOLDER (or --data-dir FOLDER), else in the folder that the
environment variable SUITE_DATA names, else in the user's cache folder. rules.md gives the rules by their ids.

Exit code: 0 compliant, 1 not compliant, 2 could not be reviewed. A run that did not reach its target is compliant.
"""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise UserError."""
        raise UserError(f"{message}. See python -m suite.review --help.")


def main(argv: list[str]) -> int:
    """Review what the command line `argv` names, print the findings and return the exit code."""
    parser = Parser(
        prog="python -m suite.review",
        description="Review the evidence of a run or of a result.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("words", nargs="+", metavar="FOLDER", help="what to review; also data_dir=FOLDER")
    parser.add_argument("--data-dir", metavar="FOLDER", help="the data folder")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    args = parser.parse_intermixed_args(argv)
    folders = [word for word in args.words if "=" not in word or Path(word).exists()]
    options = dict(word.split("=", 1) for word in args.words if word not in folders)
    for option in options:
        if option != "data_dir":
            raise unknown("option", option, ("data_dir",))
    if len(folders) != 1:
        raise UserError(f"{len(folders)} folders given: name one. See python -m suite.review --help.")
    made = review(Path(folders[0]), args.data_dir or options.get("data_dir"))
    if args.json:
        print(json.dumps(made.as_json(), indent=1))
    else:
        _print(Console(highlight=False), made)
    return EXIT_CODES[made.verdict]


def _print(console: Console, made: Review) -> None:
    if made.findings:
        console.print(_findings(made.findings))
    for run in made.runs:
        console.print(_summary(run), soft_wrap=True)
    converged = sum(run.converged for run in made.runs)
    if len(made.runs) > 1:
        score = f"time to quality, olympic mean of {len(made.runs)} runs: {format_seconds(made.score_s)}"
        console.print(f"{score}; {converged} converged", soft_wrap=True)
    count = Counter(finding.severity for finding in made.findings)
    said = {
        "pass": "every claim holds",
        "fail": f"{count['fail']} findings against the rules",
        "error": f"{count['error']} rules could not be checked",
    }
    line = Text(f"{made.verdict.upper()}: {said[made.verdict]}", STYLES[made.verdict])
    line.append("; converged: yes" if made.converged else "; converged: no, the target was not reached")
    line.append(f"; notes: {count['note']}" if count["note"] else "")
    console.print(line, soft_wrap=True)


def _findings(findings: list[Finding]) -> Table:
    """The findings; of a rule with many only the first. Text objects keep what a submission holds from being markup."""
    table = Table("rule", "file:line", "what", show_lines=True)
    seen: Counter[str] = Counter()
    for finding in findings:
        seen[finding.rule] += 1
        if seen[finding.rule] > MAX_ROWS:
            continue
        what = Text()
        for name in ("expected", "found", "mend"):
            what.append(f"{name:>8}  ", style="dim")
            what.append(getattr(finding, name) + ("" if name == "mend" else "\n"))
        where = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
        rule = Text(f"{finding.rule}\n").append(finding.severity, style=STYLES[finding.severity])
        table.add_row(rule, Text(where, overflow="fold"), what)
    for name, count in seen.items():
        if count > MAX_ROWS:
            table.add_row(name, "", f"{count - MAX_ROWS} more findings of this rule: --json lists all")
    return table


def _summary(run: RunReview) -> Text:
    """A run's claims in one line."""
    summary = run.summary
    parts = (
        f"seed {'not known' if run.seed is None else run.seed}",
        f"ended at {summary.reason or 'an unknown point'}",
        f"quality {'none' if summary.quality is None else format(summary.quality, '.4g')}",
        f"{'not known' if summary.samples is None else format(summary.samples, ',')} samples",
        f"time {format_seconds(summary.seconds)}",
        f"cost {format_cost(summary.cost, summary.currency)}",
        f"energy {format_energy(summary.joules, summary.energy_source)}",
        *(["NOISY machine"] if summary.noise else []),
    )
    return Text(run.path).append(f"  {run.verdict}", STYLES[run.verdict]).append(f"  {', '.join(parts)}")


if __name__ == "__main__":
    command(main)
