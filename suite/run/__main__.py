"""`python -m suite.run`: train a benchmark to its target and leave evidence. `--help` explains the options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from suite import config
from suite.config.plan import Plan
from suite.errors import BY_SIGNAL, USER_ERROR, UserError, command, complain
from suite.harness import session
from suite.harness.contestant import OwnImplementation, read
from suite.harness.folder import locked, refuse_used
from suite.harness.implementation import load_implementation
from suite.measure.machine import Machine, detect
from suite.record.summary import Summary
from suite.rules.verdict import review
from suite.run import obstacles, printing
from suite.run.help import help_text
from suite.run.options import Options, parse
from suite.run.planning import from_options
from suite.run.resuming import from_evidence
from suite.store.arrays import prepared
from suite.store.task import check_metric, load_task

BUDGET_ENDED = 3


def main(argv: list[str]) -> int:
    """Run the command line `argv` and return its exit code: 0 target reached, 2 user's mistake, 3 not reached.

    130 is Ctrl-C, 143 SIGTERM. Of several commands (`-m`) the code is that of the first that is not 0; a signal ends
    them all. Raises UserError for a mistake in the only command, and for one that can be seen before the first begins.
    """
    if {"-h", "--help"} & set(argv):
        print(help_text(argv))
        return 0
    if not argv:
        raise UserError(f"which task? Give task= one of: {', '.join(config.names('task'))} (--help explains them).")
    commands = parse(argv)
    codes: list[int] = []
    for options in commands:
        try:
            codes.append(_run(options))
        except (UserError, OSError) as error:
            if len(commands) == 1:
                raise
            complain(error)
            codes.append(USER_ERROR)
        if codes[-1] > BY_SIGNAL:
            break
    return next((code for code in codes if code), 0)


def _run(options: Options) -> int:
    found = detect()
    framework = options.framework if "framework" in options.given else None
    own = read(Path(options.implementation), framework) if options.implementation else None
    resumed = Path(options.resume) if options.resume else None
    made = from_evidence(resumed, options.given, own) if resumed else from_options(options, found, own)
    nowhere, here = obstacles.anywhere(made, own), obstacles.here(made, found)
    console = printing.console()
    if options.dry_run:
        printing.plan(console, made, found)
        printing.obstacles(console, nowhere, here)
        return 0
    if problem := next(iter(here), nowhere):
        raise UserError(problem)
    printing.plan(console, made, found)
    summaries, stopped_by = _trained(console, made, found, options, own)
    printing.result(console, made, summaries, options.mlflow)
    printing.verdict(console, review(made.out, options.data_dir))
    if stopped_by:
        console.print(f"go on     python -m suite.run resume={made.out}", soft_wrap=True)
        return BY_SIGNAL + stopped_by
    return 0 if all(summary.converged for summary in summaries) else BUDGET_ENDED


def _trained(
    console: Console, made: Plan, found: Machine, options: Options, own: OwnImplementation | None
) -> tuple[Sequence[Summary], int | None]:
    """What the runs took, and the signal that ended the last of them, if one did."""
    if not options.resume:
        refuse_used(made.out)
    name = made.benchmark.task
    module = own.load(name) if own else load_implementation(name, made.framework)
    task = load_task(made.benchmark.task)
    check_metric(made.benchmark, task)
    data = prepared(made.benchmark, task, options.data_dir)
    timed = session.Session(made, found, task, module, data, console, options.mlflow, own)
    summaries: list[Summary] = []
    with locked(made.out):
        if not options.resume:
            refuse_used(made.out)
        for index in range(1, len(made.seeds) + 1):
            summaries.append(timed.run(index))
            if timed.stopped_by:
                break
    return summaries, timed.stopped_by


if __name__ == "__main__":
    command(main)
