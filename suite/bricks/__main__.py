"""`python -m suite.bricks`: the times of many models from those of the parts that they share."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection
from dataclasses import asdict
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.text import Text

from suite import __version__
from suite.bricks import evaluating, frameworks, measuring, options, pace, private, record, showing
from suite.bricks.arguments import MOST_CALLS
from suite.bricks.chaining import Bricks
from suite.bricks.composing import compose, counted
from suite.bricks.record import Key, Made, Model, Timings
from suite.errors import OneLineParser, UserError, command, one_of, printable, split_options, unknown, whole
from suite.harness.implementation import Device
from suite.harness.memory import keep_freed_memory
from suite.measure import noise
from suite.measure.machine import detect
from suite.measure.systems import AUTO, system_here
from suite.probe.record import one_line
from suite.probe.showing import show_noisy
from suite.record.system import versions
from suite.record.tables import plain_console
from suite.store.disk import refuse_unwritable

ROOM = 1 << 33  # bytes that a decoy may take
REPEATS = "5"
EPILOG = f"""\
make models=... out=bricks.json: the unique bricks of models, of which hardly anything is computed
  models=LIST            names of classifiers, torchvision, keras, a file with a name a line, or FILE.py of one's own
                         that holds build(), which gives a torch.nn.Module or keras.Model for pictures
  task=NAME scale=NAME   in place of models=: a task's reference, or with implementation=PATH code of one's own; with
                         mode=train an evaluation beside the training step, which is what a forecast takes
  framework=NAME         torch (the default) or tensorflow
  mode=infer|train       forward (the default), or a training step: forward, backward and update
  batch=N size=N         samples a step (1; of a task its own), height and width of pictures
  precision=NAME         fp32 (the default of models), bf16, fp16; of a task that of its runs on hw=NAME (this machine)
  data_dir=FOLDER        where a task's data lie
  granularity=N          so many calls in a brick where they make a chain, 1 (the default) to {MOST_CALLS}
  private=true           bricks alone, in an order that says nothing; decoys=N false ones among them (0);
                         key=FILE is what you keep to compose with (out= with .key.json)
measure bricks.json out=timings.json: each brick timed on this machine
  hw=NAME repeats=N      the system, default: what this machine is; rounds ({REPEATS})
compose timings.json: the models' times
  model=NAME key=FILE    one model alone; the key of private bricks

Exit code: 0 done, 2 a mistake in the command, or nothing that could be done. docs/bricks.md tells how true it is.
"""


def main(argv: list[str]) -> int:
    """Make, measure or compose as the command line `argv` says."""
    parser = OneLineParser("python -m suite.bricks", "Many models at the price of their parts.", EPILOG)
    parser.add_argument("words", nargs="*", metavar="make|measure|compose option=value", help="see below")
    parser.add_argument("--json", action="store_true", help="of compose: print one JSON object instead of a table")
    args = parser.parse_intermixed_args(argv)
    if not args.words:
        raise UserError(f"do what? Give one of: {', '.join(VERBS)} (--help explains them).")
    verb = args.words[0]
    one_of("command of bricks", verb, VERBS)
    if args.json and verb != "compose":
        raise UserError(f"--json is of compose: {verb} writes a file, out=")
    act, allowed, files = VERBS[verb]
    given, paths = split_options(args.words[1:], allowed)
    if len(paths) != files:
        raise UserError(f"{verb} takes {files or 'no'} FILE beside its options; given: {' '.join(paths) or 'none'}")
    return act(given, *paths, to=plain_console(120), as_json=args.json)


def make(given: dict[str, str], *, to: Console, as_json: bool) -> int:
    """Record the steps of models and write their bricks to a file."""
    here = detect()
    wanted = options.making(given, here)
    refuse_unwritable(wanted.out, wanted.key)
    disturbed = noise.watched(here)
    bricks, models, failed = Bricks(wanted.granularity), list[Model](), dict[str, str]()
    conditions = wanted.sources[0].subject.conditions
    framework = frameworks.load(conditions.framework)
    with Console(stderr=True).status("") as status:
        for source in wanted.sources:
            told = source.subject.conditions
            status.update(Text(f"looking at {told.name}, {len(bricks.made)} bricks so far"))
            try:
                evaluation = told.task is not None and told.mode == "infer"
                subject = evaluating.trained(source.subject) if evaluation else source.subject
                recorded = framework.record(subject, source.network)
                models.append(bricks.add(told, recorded, evaluating.scoring(subject) if evaluation else None))
            except Exception as error:  # whatever a framework raises for a size or a batch that a model refuses
                if len(wanted.sources) == 1 and isinstance(error, UserError):
                    raise
                if len(wanted.sources) == 1:
                    raise UserError(f"{told.name}: {one_line(error)}") from error
                failed[told.name] = one_line(error)
        if not models:
            raise UserError(f"no bricks of any: {next(iter(failed.values()))}")
        made, key = tuple(bricks.made), None
        if wanted.key:
            status.update(f"making {wanted.decoys} decoys")
            device = Device("cpu", conditions.precision)
            runs = partial(frameworks.runs, framework, device=device, mode=conditions.mode, room=ROOM)
            made, key = private.disguised(made, models, wanted.decoys, runs)
    found = Made(
        framework=conditions.framework,
        mode=conditions.mode,
        precision=conditions.precision,
        granularity=wanted.granularity,
        private=key is not None,
        noisy=tuple(disturbed()),
        bricks=made,
        models=() if key else tuple(models),
    )
    record.write(found, wanted.out)
    if key and wanted.key:
        record.write(key, wanted.key)
    showing.made(to, models, len(bricks.made), failed)
    show_noisy(to, found.noisy)
    to.print(f"kept in {wanted.out}", soft_wrap=True)
    if key and wanted.key:
        to.print(f"{key.decoys} decoys among {key.bricks} bricks; yours alone: {wanted.key}", soft_wrap=True)
    return 0


def measure(given: dict[str, str], file: str, *, to: Console, as_json: bool) -> int:
    """Time the bricks of `file` and write the timings."""
    if "out" not in given:
        raise UserError("where to? Give out=FILE, for example out=timings.json")
    made, here = record.read(Made, Path(file)), detect()
    framework = frameworks.load(made.framework)
    if made.precision not in record.PRECISIONS:
        raise UserError(f"{file} is in precision {made.precision}: bricks run in {', '.join(record.PRECISIONS)}")
    check_operators(made, framework.OPERATORS, file)
    system = system_here(given.get("hw", AUTO), here)
    repeats = whole("repeats", given.get("repeats", REPEATS), record.MOST_ROUNDS)
    device = Device(system.device_kind, made.precision)
    refuse_unwritable(Path(given["out"]))
    keep_freed_memory()
    disturbed = noise.watched(here)
    with Console(stderr=True).status("") as status:
        times, seconds = measuring.measure(framework, made.bricks, device, made.mode, repeats, status.update)
    if not any(each.hot for each in times):
        raise UserError(f"no brick of {file} could be run: {next((each.why for each in times), 'it has none')}")
    timings = Timings(
        suite_version=__version__,
        date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        system=system.name,
        machine=asdict(here),
        software=versions(),
        threads=os.environ.get("OMP_NUM_THREADS"),
        framework=made.framework,
        mode=made.mode,
        precision=made.precision,
        cache=measuring.largest_cache(),
        pace=None if system.accelerator else pace.microseconds(),
        seconds=seconds,
        noisy=[*(f"when the bricks were made: {why}" for why in made.noisy), *disturbed()],
        quickest=measuring.quickest_counts(framework, device),
        digest=record.digest(made.bricks),
        times=tuple(times),
        models=made.models,
    )
    record.write(timings, Path(given["out"]))
    lacking = [each.why for each in times if each.why]
    to.print(f"{len(times) - len(lacking)} of {len(times)} bricks timed in {repeats} rounds, {seconds:.1f} s")
    if lacking:
        more = f", and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        to.print(f"not timed: {printable(lacking[0])}{more}", soft_wrap=True)
    show_noisy(to, timings.noisy)
    to.print(f"kept in {given['out']}", soft_wrap=True)
    return 0


def compose_models(given: dict[str, str], file: str, *, to: Console, as_json: bool) -> int:
    """Print the times of models, composed from the timings in `file`."""
    timings = record.read(Timings, Path(file))
    models = timings.models
    if "key" in given:
        key = record.read(Key, Path(given["key"]))
        if key.bricks != len(timings.times):
            raise UserError(f"key={given['key']} is of {key.bricks} bricks; {file} has times of {len(timings.times)}")
        if key.digest and timings.digest and key.digest != timings.digest:
            raise UserError(f"key={given['key']} is of other bricks than {file} has times of")
        models = key.models
    elif not models:
        raise UserError(f"{file} has no models: their owner composes them, with key=FILE")
    if "model" in given:
        chosen = tuple(each for each in models if each.conditions.name.lower() == given["model"].lower())
        if not chosen:
            raise unknown("model of these bricks", given["model"], (each.conditions.name for each in models))
        models = chosen
    times = counted(timings)
    found = [compose(model, times, timings.cache, timings.pace) for model in models]
    if as_json:
        print(json.dumps({"models": showing.rows(found), "noisy": timings.noisy}, indent=1))
    else:
        showing.composed(to, found, timings)
    return 0


def check_operators(made: Made, operators: Collection[str], file: str) -> None:
    """Raise UserError for an operator that is not in the closed table."""
    for brick in made.bricks:
        for call in brick.calls:
            if call.op not in operators:
                raise UserError(f"{file} asks for the operator {call.op!r}, which bricks do not have")


VERBS: dict[str, tuple[Callable[..., int], tuple[str, ...], int]] = {
    "make": (make, options.MAKE, 0),
    "measure": (measure, options.MEASURE, 1),
    "compose": (compose_models, options.COMPOSE, 1),
}


if __name__ == "__main__":
    command(main)
