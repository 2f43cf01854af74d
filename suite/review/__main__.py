"""`python -m suite.review PATH`: does the evidence hold? Every finding with rule, file, line and how to mend it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console

from suite.errors import OneLineParser, UserError, command, said
from suite.harness.interrupt import interruptible
from suite.review import archive
from suite.review.model import SUITE, Report, add_reviewers_files, report
from suite.review.page import html
from suite.review.progress import bar
from suite.review.sarif import sarif
from suite.review.terminal import show
from suite.rules.finding import EXIT_CODES
from suite.store.disk import refuse_unwritable, write_text

EPILOG = """\
PATH is the out= folder of python -m suite.run: the evidence of one run, or run_1, run_2, ... of a result; a folder with
several of these below it; or any of them as .zip or .tar (.gz, .bz2, .xz). With --ruleset mlperf-5.1 and the like it is
a log, a benchmark's folder or a whole submission of MLPerf Training.
The predictions are scored again on the dataset in data_dir=FOLDER, else in the folder that the environment variable
SUITE_DATA names, else in the user's cache folder. rules.md gives the rules by their ids.
A review runs none of a submission's code: suite audit PATH run_code=true trains a part again, and with equivalence=true
holds an implementation of the submitter's own to the reference again.
Use the command `suite` on what a stranger sent: python -m takes modules from the current folder, also a stranger's.

Exit code: 0 compliant, 1 not compliant, 2 could not be reviewed. A run that did not reach its target is compliant.
"""


def main(argv: list[str]) -> int:
    """Review what the command line `argv` names, print the findings and return the exit code.

    With --json an object is printed even where an error keeps everything from being reviewed.

    Raises UserError for what the user can mend, OSError for what the system refuses.
    """
    args = _arguments(argv)
    try:
        made = _review(args)
    except (UserError, OSError, MemoryError) as error:
        if args.json:
            print(json.dumps({"verdict": "error", "error": said(error), "findings": [], "logs": []}))
        raise
    if args.json:
        print(json.dumps(made.as_json(), indent=1))
    else:
        show(Console(highlight=False), made)
    return EXIT_CODES[made.verdict]


def _review(args: argparse.Namespace) -> Report:
    """Make the report, and write it to the files that `args` name."""
    path = Path(args.words[0])
    refuse_unwritable(args.html, args.sarif)
    with interruptible(), archive.opened(path) as root, bar(args.json) as progress:
        made = report(
            root,
            args.ruleset,
            subject=path.resolve().name,
            strict=args.strict,
            data_dir=args.data_dir,
            waivers=args.waivers,
            witness_roots=args.witness_roots,
            progress=progress,
        )
        if args.html:
            write_text(args.html, html(made, root))
    if args.sarif:
        write_text(args.sarif, json.dumps(sarif(made), indent=1))
    return made


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = OneLineParser(
        "suite review", "Review the evidence of a run, of a result, or of a whole submission.", EPILOG
    )
    parser.add_words("PATH", "what to review", 1)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a page for people: self-contained, offline")
    parser.add_argument("--sarif", metavar="FILE", type=Path, help="write SARIF 2.1.0, for CI")
    add_reviewers_files(parser)
    parser.add_argument("--ruleset", metavar="NAME", default=SUITE, help="suite (rules.md), or mlperf-X.Y")
    parser.add_argument(
        "--strict", action="store_true", help="with mlperf-X.Y: also what the official files let through"
    )
    args = parser.parse_words(argv)
    if len(args.words) != 1:
        raise UserError(f"{len(args.words)} folders given: name one. See suite review --help.")
    return args


if __name__ == "__main__":
    command(main)
