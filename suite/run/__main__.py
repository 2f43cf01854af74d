"""`python -m suite.run`: train a benchmark to its target and leave evidence. `--help` explains the options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from suite.errors import BY_SIGNAL, LOST, USER_ERROR, UserError, WorkerLost, command, complain
from suite.harness.completing import complete
from suite.harness.folder import clear, has_run, locked
from suite.harness.implementation import load_implementation
from suite.harness.session import Session
from suite.harness.workers import place as places
from suite.harness.workers import starting
from suite.harness.workers.dismissing import dismiss, dismissed_on_mistake
from suite.harness.workers.following import follow
from suite.harness.workers.leading import Followers, followed
from suite.harness.workers.place import Place
from suite.measure.machine import detect
from suite.measure.systems import AUTO
from suite.record.mllog import INTERRUPT
from suite.record.summary import Summary
from suite.rules.verdict import review
from suite.run import obstacles, printing, slurm
from suite.run.help import help_text
from suite.run.options import Options, combinations, parse
from suite.run.planned import Planned
from suite.store.arrays import prepared
from suite.store.task import load_task

BUDGET_ENDED = 3


def main(argv: list[str]) -> int:
    """Run the command line `argv` and return its exit code: 0 target reached, 2 user's mistake, 3 not reached.

    130 is Ctrl-C, 143 SIGTERM. For several commands (`-m`) it is the first code that is not 0, or that of a signal,
    which ends them all. Raises UserError for a mistake in a single command, and for one that can be found before the
    first command begins.

    If this process is one of several workers and not the first, it takes its orders from the first.
    """
    place = places.find()
    if place.follows:
        starting.take_share(place)
        follow(place)
    if {"-h", "--help"} & set(argv):
        print(help_text(argv))
        dismiss(place)
        return 0
    with dismissed_on_mistake(place):
        commands, words, slurm_options = _commands(argv, place)
        if len(commands) > 1:
            for options in commands:
                _planned(options, place)  # a value that is not allowed is told before the first command trains
    if slurm_options is not None and not commands[0].dry_run:
        return _launched(commands[0], words, slurm_options)
    codes: list[int] = []
    for options in commands:
        try:
            if options.dry_run:
                codes.append(_dry_run(options, place, elsewhere=slurm_options is not None))
            else:
                codes.append(_run(options, place, len(commands)))
        except (UserError, OSError, WorkerLost) as error:
            if len(commands) == 1:
                raise
            complain(error)
            codes.append(LOST if isinstance(error, WorkerLost) else USER_ERROR)
        if codes[-1] > BY_SIGNAL:
            return codes[-1]
    return next((code for code in codes if code), 0)


def _commands(argv: list[str], place: Place) -> tuple[list[Options], list[str], Mapping[str, str] | None]:
    """The options of each command, the words they were parsed from, and SLURM's options, None if it is not asked for.

    Raises UserError for mistakes that can be found before the first command begins.
    """
    slurm_options, words = slurm.split(argv)
    if slurm_options is not None and (count := combinations(words)) > 1:
        raise UserError(f"-m makes {count} commands, and a job of SLURM is one: submit one after the other")
    commands = parse(words)
    if place.launcher and len(commands) > 1:
        raise UserError(
            f"-m makes {len(commands)} commands, and {place.launcher} starts the workers of one: give it one"
        )
    for out, count in Counter(options.out for options in commands if options.out).items():
        if count > 1:
            given = [options.given for options in commands]
            if any(each["out"] == out and given.count(each) > 1 for each in given):
                raise UserError(f"out={out} is the folder of a command that -m gives twice: give each value once")
            differ = [name for name in given[0] if name != "out" and len({str(each[name]) for each in given}) > 1]
            raise UserError(
                f"out={out} is the folder of {count} commands, and each needs its own: leave it out, or tell them "
                f"apart by what differs, as with out='{out}/{'-'.join(f'${{{name}}}' for name in differ)}'"
            )
    if slurm_options is not None and commands[0].hw == AUTO and not commands[0].resume:
        raise UserError(f"hw={AUTO} would be this machine, not those of the job: name their system, hw=NAME")
    return commands, words, slurm_options


def _launched(options: Options, words: Sequence[str], slurm_options: Mapping[str, str]) -> int:
    """Submit the command to SLURM, with an out= folder chosen now if none is given; return its exit code.

    Raises UserError, before it waits in a queue, for a plan that no machine could run, whose folder is taken, or that
    would change its own code.
    """
    made = Planned.of(options, detect(), Path(options.resume) if options.resume else None)
    nowhere = obstacles.on_machines_of_a_job(made.plan, made.own)
    if problem := nowhere or obstacles.among_code(made, slurm.FOLDER) or made.taken():
        raise UserError(problem)
    named = [] if options.resume or options.out else [f"out={made.plan.out}"]
    return slurm.launch([*words, *named], made.plan.system, slurm_options)


def _dry_run(options: Options, place: Place, elsewhere: bool) -> int:
    """Print what the command would do, `elsewhere` if on the machines of a job; return its exit code."""
    from suite.run import dry_run  # only if asked for: it imports the probe

    with dismissed_on_mistake(place):
        made = _planned(options, place)
        nowhere = (obstacles.on_machines_of_a_job if elsewhere else obstacles.anywhere)(made.plan, made.own)
        found = [obstacles.among_code(made, slurm.FOLDER)] if elsewhere else obstacles.here(made, place)
        here = [why for why in (*found, made.taken()) if why]
        dry_run.show(printing.console(), made, nowhere, here, elsewhere)
    dismiss(place)
    return 0


def _run(options: Options, place: Place, commands: int) -> int:
    """Make or resume the runs of one of so many `commands`; return its exit code."""
    console = printing.console()
    with dismissed_on_mistake(place):
        made = _planned(options, place)
        plan = made.plan
        nowhere = obstacles.anywhere(plan, made.own)
        here = obstacles.here(made, place)
        if problem := next(iter(here), made.taken() or nowhere):
            raise UserError(problem)
        if commands > 1 and plan.system.world_size > 1:
            raise UserError(
                f"-m makes {commands} commands, and the {plan.system.world_size} workers that this one starts are of "
                "one: give one after the other, or of one command runs=N"
            )
        printing.plan(console, plan, made.found, options.data_dir, made.unseen())
    try:
        summaries, stopped_by = _trained(made, place, console)
    except KeyboardInterrupt:  # before the clock ran, or a second signal
        if has_run(plan.out):
            printing.go_on(console, made.resume, place.launcher)
        raise
    printing.result(console, plan, summaries, options.mlflow, options.data_dir)
    printing.verdict(console, review(plan.out, options.data_dir))
    if stopped_by:
        if len(summaries) < len(plan.seeds) or summaries[-1].reason == INTERRUPT:
            printing.go_on(console, made.resume, place.launcher)
        return BY_SIGNAL + stopped_by
    return 0 if all(summary.converged for summary in summaries) else BUDGET_ENDED


def _trained(made: Planned, place: Place, console: Console) -> tuple[list[Summary], int | None]:
    """Load all that the runs need and make them; return their summaries, and the signal that ended the last, if any."""
    plan, own, options = made.plan, made.own, made.options
    with _workers(plan.system.world_size, place) as followers:
        name = plan.benchmark.task
        module = own.load(name) if own else load_implementation(name, plan.framework)
        task = load_task(name)
        data = prepared(plan.benchmark, task, options.data_dir)
        if followers:
            followers.prepare(plan, options.implementation, options.data_dir, data)
        session = Session(plan, made.found, task, module, data, console, options.mlflow, made.resume, own, followers)
        with locked(plan.out):
            if problem := made.taken():
                raise UserError(problem)
            if not made.resumed:
                clear(plan.out)
            return complete(session)


def _planned(options: Options, place: Place) -> Planned:
    """Plan the command; nothing is written. Raises UserError for a value that is not allowed."""
    return Planned.of(options, detect(), _resumed(options, place))


def _resumed(options: Options, place: Place) -> Path | None:
    """The folder of the run to resume, if any: that of resume=, or of out= if torchrun or SLURM has restarted it."""
    if options.resume:
        return Path(options.resume)
    if options.out is None:
        if place.launcher and place.restarts:
            raise UserError(f"{place.launcher} has started the workers again: out= would tell them what to go on with")
        return None
    since_s = 0.0 if place.restarts else place.launched_s
    return Path(options.out) if since_s is not None and has_run(Path(options.out), since_s) else None


@contextmanager
def _workers(world_size: int, place: Place) -> Iterator[Followers | None]:
    """The followers of this process, started by the suite itself if no launcher has; None for a single worker."""
    with starting.started(place, world_size) as (led, processes):
        starting.take_share(led)
        with followed(led, processes) as followers:
            yield followers


if __name__ == "__main__":
    command(main)
