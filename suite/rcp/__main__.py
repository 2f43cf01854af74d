"""`python -m suite.rcp [FOLDER...]`: make, or add to, reference convergence points from evidence; or show them."""

from __future__ import annotations

from pathlib import Path

from suite import config
from suite.errors import OneLineParser, UserError, command
from suite.plots.curves import svg
from suite.rcp.points import add
from suite.rcp.showing import figures, markdown
from suite.rules import reference
from suite.store.disk import refuse_unwritable, write_text

EPILOG = """\
FOLDER is the out= folder of python -m suite.run: evidence of the reference implementation, of one run or of several.
Each run must be of committed code, pass the review and have gone on to its target or the end of its budget: give all,
also those that did not reach it, which stand in the file as failures. Each needs a seed of its own. The points go to
conf/rcp/TASK/SCALE.yaml, and count from as many runs that reached the target, at a batch size, as a result of the
benchmark has (at least four); MLPerf asks for twice as many. Points of an older recipe (other hyperparameters, target
or evaluation) are dropped. Commit the file before further runs: conf/ is a part of their code.

Without FOLDER the points that are there, of all tasks or of task=TASK, as a table in Markdown.
"""


def main(argv: list[str]) -> int:
    """Add the runs that the command line `argv` names to the points, or show the points."""
    parser = OneLineParser(
        prog="python -m suite.rcp",
        description="Make, add to, or show reference convergence points.",
        epilog=EPILOG,
    )
    parser.add_words("FOLDER", "evidence of reference runs", nargs="*")
    parser.add_argument("--curves", metavar="FILE", type=Path, help="without FOLDER: write their curves as an SVG file")
    args = parser.parse_words(argv, also=("task",))
    task = args.options.get("task")
    if args.words:
        if task or args.curves:
            raise UserError("task= and --curves show the points that are there: give no FOLDER with them")
        add([Path(word) for word in args.words], args.data_dir)
        return 0
    refuse_unwritable(args.curves)
    stored = [(each, points) for each in config.benchmarks(task) if (points := reference.load(each).points)]
    if not stored:
        raise UserError(f"no reference convergence points of {task or 'any task'} are there: see {parser.prog} --help")
    print(markdown(stored), end="")
    if args.curves:
        write_text(args.curves, svg(figures(stored)))
    return 0


if __name__ == "__main__":
    command(main)
