"""`python -m suite.audit`: train a part of a run again, and hold the run to it. `--help` explains the options."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path

from rich.console import Console
from rich.text import Text

from suite import config
from suite.audit import drawing, showing
from suite.audit.auditing import Asked, audit, planned
from suite.config.formats import formats
from suite.errors import OneLineParser, UserError, command, one_of, truth, whole
from suite.harness.interrupt import interruptible
from suite.record.summary import format_count
from suite.review import archive
from suite.review.model import EXCUSED, report
from suite.review.progress import bar
from suite.rules.finding import EXIT_CODES
from suite.store.files import data_option

OPTIONS = ("blocks", "draw", "run_code", "isolated", "states", "framework", "precision", "equivalence")

EPILOG = """\
PATH is the evidence of a run, of a result, or a package with several; or one of these as .zip or .tar (.gz, .bz2, .xz).
Of each result some blocks (from one evaluation to the next) are drawn, trained again with the implementation that the
evidence names, and compared: the state bit for bit on a machine like the run's, else within a distance; the predictions
and metric of that state, the loss, the time. The initial state of every run is built again from its seed.

  run_code=true      run the implementation, which is a stranger's code, in a process without network that can write to
                     a temporary folder only; without it the audit prints what it would run, and ends
  isolated=true      this machine as a whole is isolated: run the code where such a process cannot be made
  blocks=N           of each result; default: 2
  draw=HEX           draw the blocks that an audit has drawn before, which prints this; default: new entropy
  states=FOLDER      where the states lie that the runs kept (checkpoints=keep), below it as in PATH; default: in PATH;
                     without them training begins at the seed, and only the same bits will do
  framework=NAME     train the reference in another framework than the run did
  precision=NAME     train in another precision than the run did
  equivalence=true   hold an implementation that is not the reference to it again, as suite.check does, where the
                     division is closed; also what a package calls the reference, where neither its revision nor its
                     files are those that are here
  data_dir=FOLDER    where datasets lie; default: $SUITE_DATA, else the user's cache folder

Exit code: 0 trained again as claimed, 1 not, or the review fails, 2 it could not be told, or a mistake in the command.
"""


def main(argv: list[str]) -> int:
    """Audit what the command line `argv` names, print what was found and return the exit code."""
    args = _arguments(argv)
    path, options = Path(args.words[0]), args.options
    for name, allowed in (("framework", config.names("framework")), ("precision", formats())):
        if name in options:
            one_of(name, options[name], allowed)
    asked = Asked(
        blocks=whole("blocks", options.get("blocks", "2"), 1000),
        entropy=options.get("draw") or drawing.fresh(),
        framework=options.get("framework"),
        precision=options.get("precision"),
        states=Path(options["states"]) if "states" in options else None,
        isolated=truth("isolated", options.get("isolated", "false")),
        equivalence=truth("equivalence", options.get("equivalence", "false")),
        data_dir=args.data_dir,
        evidence=path,
    )
    if asked.states is not None and not asked.states.is_dir():
        raise UserError(f"states={asked.states}: no such folder")
    console = Console(highlight=False, markup=False, stderr=args.json)
    with interruptible(), archive.opened(path) as opened:
        root = opened.resolve()
        with bar(args.json) as progress:
            reviewed = report(
                root, subject=path.resolve().name, data_dir=args.data_dir, waivers=args.waivers, progress=progress
            )
        if reviewed.verdict != "pass":
            count = format_count(reviewed.counted(reviewed.verdict), "finding")
            said = f"its review has {count} of severity {reviewed.verdict}"
            if args.json:
                print(json.dumps({"verdict": reviewed.verdict, "error": said, "findings": [], "blocks": []}))
            excused = f" --waivers {shlex.quote(str(args.waivers))}" if args.waivers else ""
            again = f"suite review {shlex.quote(str(path))}{data_option(args.data_dir)}{excused}"
            console.print(f"{reviewed.verdict.upper()}: {said}, and is not audited; {again} lists them", soft_wrap=True)
            return EXIT_CODES[reviewed.verdict]
        plan = planned(root, asked)
        showing.plan(console, plan, asked)
        if not truth("run_code", options.get("run_code", "false")):
            raise UserError("nothing was run: say run_code=true where this code may be run, see suite audit --help")
        with console.status("training again") as status:
            made = audit(root, plan, asked, lambda text: status.update(Text(text)))
    if args.json:
        print(json.dumps(showing.as_json(made, asked), indent=1))
    else:
        showing.show(console, made, asked)
    return EXIT_CODES[made.verdict]


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = OneLineParser("suite audit", "Train a part of a run again, and hold the run to it.", EPILOG)
    parser.add_words("PATH", "what to audit", 1)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--waivers", metavar="FILE", type=Path, help=EXCUSED)
    args = parser.parse_words(argv, OPTIONS)
    if len(args.words) != 1:
        raise UserError(f"{len(args.words)} folders given: name one. See suite audit --help.")
    return args


if __name__ == "__main__":
    command(main)
