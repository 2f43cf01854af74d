"""`python -m suite.run`: train a benchmark to its target and leave evidence. `--help` explains the options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from suite.config.plan import Plan
from suite.errors import BY_SIGNAL, LOST, USER_ERROR, UserError, WorkerLost, command, complain
from suite.harness.completing import complete
from suite.harness.contestant import OwnImplementation, read
from suite.harness.folder import gone_on_by, has_run, locked, refuse_used, used
from suite.harness.implementation import load_implementation
from suite.harness.session import Session
from suite.harness.workers import place as places
from suite.harness.workers import starting
from suite.harness.workers.following import follow
from suite.harness.workers.leading import Followers, dismiss, dismissed_on_mistake, followed
from suite.harness.workers.place import Place
from suite.measure import systems
from suite.measure.accelerators import nvidia
from suite.measure.machine import Machine, detect
from suite.record.mllog import INTERRUPT
from suite.record.summary import Summary
from suite.rules.verdict import review
from suite.run import obstacles, printing, slurm
from suite.run.help import help_text
from suite.run.options import Options, parse
from suite.run.planning import from_options
from suite.run.resuming import from_evidence
from suite.store.arrays import prepared
from suite.store.task import load_task

if TYPE_CHECKING:
    from suite.forecast.memory import Footprint

BUDGET_ENDED = 3


def main(argv: list[str]) -> int:
    """Run the command line `argv` and return its exit code: 0 target reached, 2 user's mistake, 3 not reached.

    130 is Ctrl-C, 143 SIGTERM. Of several commands (`-m`) the code is that of the first that is not 0; a signal ends
    them all. Raises UserError for a mistake in the only command, and for one that can be seen before the first begins.
    Where this process is one of several workers and not the first, it takes its orders from that one.
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
        slurm_options, argv = slurm.split(argv)
        if slurm_options is not None and (count := len(parse(["-m", *argv]))) > 1:
            raise UserError(f"-m makes {count} commands, and a job of SLURM is one: submit one after the other")
        commands = parse(argv)
        if place.launcher and len(commands) > 1:
            raise UserError(
                f"-m makes {len(commands)} commands, and {place.launcher} starts the workers of one: give it one"
            )
        _refuse_one_folder(commands)
        if slurm_options is not None and commands[0].hw == systems.AUTO and not commands[0].resume:
            raise UserError(
                f"hw={systems.AUTO} would be this machine, not those of the job: name their system, hw=NAME"
            )
    if slurm_options is not None and not commands[0].dry_run:
        return _launched(commands, argv, slurm_options)
    codes: list[int] = []
    for options in commands:
        try:
            codes.append(_run(options, place, elsewhere=slurm_options is not None, commands=len(commands)))
        except (UserError, OSError, WorkerLost) as error:
            if len(commands) == 1:
                raise
            complain(error)
            codes.append(LOST if isinstance(error, WorkerLost) else USER_ERROR)
        if codes[-1] > BY_SIGNAL:
            break
    return next((code for code in codes if code), 0)


def _refuse_one_folder(commands: Sequence[Options]) -> None:
    """Raise UserError where several commands would leave their evidence in one folder."""
    for out, count in Counter(options.out for options in commands if options.out).items():
        if count > 1:
            raise UserError(
                f"out={out} is the folder of {count} commands, and each needs its own: leave it out, or tell them "
                f"apart, as with out='{out}/${{seed}}'"
            )


def _launched(commands: Sequence[Options], words: Sequence[str], slurm_options: Mapping[str, str]) -> int:
    """Give the only command to SLURM, with the out= folder that it would choose itself.

    Raises UserError, before it waits in a queue, for what no machine could run.
    """
    (options,) = commands
    own, resumed = _own(options), Path(options.resume) if options.resume else None
    made = _planned(options, detect(), own, resumed)
    if problem := obstacles.on_machines_of_a_job(made, own) or (None if resumed else used(made.out, options.given)):
        raise UserError(problem)
    named = [] if options.resume or options.out else [f"out={made.out}"]
    return slurm.launch([*words, *named], made.system, slurm_options)


def _own(options: Options) -> OwnImplementation | None:
    framework = options.framework if "framework" in options.given else None
    return read(Path(options.implementation), framework) if options.implementation else None


def _planned(options: Options, found: Machine, own: OwnImplementation | None, resumed: Path | None) -> Plan:
    return from_evidence(resumed, options.given, own) if resumed else from_options(options, found, own)


def _run(options: Options, place: Place, elsewhere: bool, commands: int) -> int:
    """One of so many `commands`, and its exit code; `elsewhere` where it is for the machines of a job."""
    console = printing.console()
    with dismissed_on_mistake(place):
        found, own, resumed = detect(), _own(options), _resumed(options, place)
        made = _planned(options, found, own, resumed)
        nowhere = (obstacles.on_machines_of_a_job if elsewhere else obstacles.anywhere)(made, own)
        here = [] if elsewhere else obstacles.here(made, own, found, place, options.mlflow)
        if resumed is None and (taken := used(made.out, options.given)):
            here.append(taken)
        if not options.dry_run and (problem := next(iter(here), nowhere)):
            raise UserError(problem)
        if commands > 1 and made.system.world_size > 1 and not options.dry_run:
            raise UserError(
                f"-m makes {commands} commands, and the {made.system.world_size} workers that this one starts are of "
                "one: give one after the other, or of one command runs=N"
            )
    unseen = _unseen(made) if options.hw == systems.AUTO and resumed is None else {}
    if options.dry_run:
        memory = _memory(made, nowhere, options.data_dir)
        told = {**unseen, "memory": memory.line(made.system), **_forecast(made, found)}
        printing.plan(console, made, found, options.data_dir, told, elsewhere)
        printing.obstacles(console, nowhere, here, memory.problem(made.system))
        dismiss(place)
        return 0
    printing.plan(console, made, found, options.data_dir, unseen)
    try:
        summaries, stopped_by = _trained(console, made, found, options, own, place, resumed is None)
    except KeyboardInterrupt:  # before the clock ran, or a second signal
        if has_run(made.out):
            printing.go_on(console, gone_on_by(made.out, options.given), place.launcher)
        raise
    printing.result(console, made, summaries, options.mlflow, options.data_dir)
    printing.verdict(console, review(made.out, options.data_dir))
    if stopped_by:
        if len(summaries) < len(made.seeds) or summaries[-1].reason == INTERRUPT:
            printing.go_on(console, gone_on_by(made.out, options.given), place.launcher)
        return BY_SIGNAL + stopped_by
    return 0 if all(summary.converged for summary in summaries) else BUDGET_ENDED


def _unseen(made: Plan) -> dict[str, str]:
    """Why a plan for processors may have been meant for accelerators; nothing where no sign of any is seen."""
    why = nvidia.broken() if made.system.device_kind == "cpu" else None
    return {"accelerators": f"none, for NVML does not answer ({why}): see python -m suite.doctor"} if why else {}


def _forecast(made: Plan, found: Machine) -> dict[str, str]:
    """What a run of the plan is expected to take, without a probe; nothing for an implementation of one's own."""
    from suite.forecast import roughly  # where it is asked for: it imports the probe

    if made.contestant:
        return {}
    return {"forecast": roughly.line(made.benchmark, made.system, found, made.precision, made.framework.name)}


def _memory(made: Plan, nowhere: str | None, data_dir: str | None) -> Footprint:
    """What a worker of the plan needs of its accelerator."""
    from suite.forecast import memory

    if made.contestant:
        return memory.Footprint(None, "the implementation is not the suite's")
    if nowhere:
        return memory.Footprint(None, "no machine could run it")
    return memory.needed(made.benchmark, made.system, made.framework, made.precision, data_dir)


def _trained(
    console: Console,
    made: Plan,
    found: Machine,
    options: Options,
    own: OwnImplementation | None,
    place: Place,
    new: bool,
) -> tuple[Sequence[Summary], int | None]:
    """What the runs took, and the signal that ended the last of them, if one did."""
    with _workers(made, place) as followers:
        name = made.benchmark.task
        module = own.load(name) if own else load_implementation(name, made.framework)
        task = load_task(made.benchmark.task)
        data = prepared(made.benchmark, task, options.data_dir)
        if followers:
            followers.prepare(made, options.implementation, options.data_dir)
        resume = gone_on_by(made.out, options.given)
        session = Session(made, found, task, module, data, console, options.mlflow, resume, own, followers)
        with locked(made.out):
            if new:
                refuse_used(made.out, options.given)
            return complete(session)


def _resumed(options: Options, place: Place) -> Path | None:
    """The folder of the run to go on with: that of resume=, or of out= where torchrun or SLURM has started it again."""
    if options.resume:
        return Path(options.resume)
    if not place.restarts or (place.launcher is None and options.out is None):
        return None
    if options.out is None:
        raise UserError(f"{place.launcher} has started the workers again: out= would tell them what to go on with")
    return Path(options.out) if has_run(Path(options.out)) else None


@contextmanager
def _workers(made: Plan, place: Place) -> Iterator[Followers | None]:
    """The followers of this process, which the suite starts itself where no launcher has; None for a single worker."""
    with starting.started(place, made.system.world_size) as (led, processes):
        starting.take_share(led)
        with followed(led, processes) as followers:
            yield followers


if __name__ == "__main__":
    command(main)
