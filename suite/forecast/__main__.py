"""`python -m suite.forecast`: time, energy and cost of a run to its target, before it is made."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from suite import config
from suite.config.models import System
from suite.errors import USER_ERROR, OneLineParser, UserError, command, one_of, only_options
from suite.forecast import choosing, options, showing, sources
from suite.forecast.measurement import read
from suite.forecast.model import Forecast, forecast
from suite.forecast.needed import Needed, needed
from suite.forecast.options import Options
from suite.forecast.picture import picture
from suite.forecast.sources import Asked
from suite.harness.implementation import frameworks
from suite.measure.machine import Machine, detect
from suite.record.tables import plain_console
from suite.results.reading import Source
from suite.results.reading import read as read_results
from suite.store.disk import refuse_unwritable, write_text

EPILOG = """\
  task=NAME scale=NAME   the benchmark; it needs reference convergence points, or published ones (conf/rcp/); without
                         scale= that which the system runs by default, of hw=all the largest
  hw=NAME                the system, default: that of from=, else what this machine is; hw=all for all of conf/hw/:
                         estimates but for what this machine is, and each is hw=cpu: that is probed as well
                         where a step takes it at most 10 s
  framework=NAME         torch (the default) or tensorflow
  batch=N                samples a step; default: the benchmark's own
  from=PATH              what python -m suite.probe level=clock out=PATH found on the system, or on one of its kind; or
                         the times of the bricks of a task, python -m suite.bricks measure BRICKS out=PATH
  hw.price_per_hour=X    any value of conf/hw/ can be set, also hw.nodes=, hw.link_gb_per_s= and hw.link_latency_us=
  deadline=2h budget=100 with hw=all: the cheapest system whose runs keep the deadline (90s, 30min, 2h, 1d), the fastest
                         whose runs keep the budget, 95 of 100 of them
  results=FOLDER         results of python -m suite.run, for --picture
  data_dir=FOLDER        where datasets lie

A run is forecast as its start, its steps and its evaluations. How many samples it takes to the target is drawn from the
reference's runs, or where there are none from what others published of the same model, which is marked; those that
failed are paid for, and another follows. What a step and an evaluation take is measured on
this machine, in about a minute, or stands in the probe of from=; of a machine that is elsewhere it is an estimate from
its peak rates, and is marked so. Several workers share a step and add a ring all-reduce. Figures are the median and the
interval of 90 % of runs. What is not known is said to be.

Exit code: 0 forecast, 2 a mistake in the command, or nothing to forecast from.
"""


def main(argv: list[str]) -> int:
    """Forecast what the command line `argv` asks for and print it."""
    parser = OneLineParser("python -m suite.forecast", "Forecast time, energy and cost to the target.", EPILOG)
    parser.add_argument("words", nargs="*", metavar="option=value", help="see below")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--picture", metavar="FILE", type=Path, help="draw cost against time as an SVG file")
    args = parser.parse_intermixed_args(argv)
    for word in args.words:
        options.allowed(word)
    given = only_options(args.words, (*options.OPTIONS, *options.OF_SYSTEM), "task=translation")
    found = detect()
    kept = read(given["from"]) if "from" in given else None
    wanted = options.parse(given, found, kept)
    one_of(f"framework for {wanted.task}", wanted.framework, frameworks(wanted.task))
    if kept and not any(sources.like(kept.system(found), system) for system in wanted.systems):
        measured = kept.system(found)
        raise UserError(
            f"from={wanted.probe} was measured on hw={measured.name} ({measured.title}), which is not like "
            f"hw={wanted.systems[0].name}: without from= there is an estimate from peak rates"
        )
    if wanted.results and not args.picture:
        raise UserError(
            f"results={wanted.results} is drawn into --picture FILE: give it as well, or leave out results="
        )
    refuse_unwritable(args.picture)
    benchmark = config.benchmark(wanted.task, wanted.scale)
    runs = needed(benchmark, wanted.batch)
    alone = len(wanted.systems) == 1
    progress = Console(stderr=True)
    with progress.status("") as status:
        asked = Asked(benchmark, wanted.framework, wanted.batch, kept, wanted.data_dir, status.update, alone)
        made, failed = _all(asked, runs, wanted, found)
    results = read_results(Source(Path(wanted.results)), wanted.data_dir).entries if wanted.results else []
    console = plain_console(120)
    chosen = choosing.choices(made, wanted.deadline, wanted.budget)
    if args.json:
        told = {
            each.asked: {"most": each.most, "system": each.forecast and each.forecast.system, "why": each.why}
            for each in chosen
        }
        print(json.dumps({"forecasts": [asdict(each) for each in made], "not known": failed, **told}, indent=1))
    else:
        if alone:
            showing.whole(console, made[0])
        else:
            showing.many(console, made, failed)
        showing.choices(console, made, chosen)
    if args.picture:
        write_text(args.picture, picture(made, results, benchmark.name))
        if not args.json:
            console.print(f"drawn in {args.picture}", soft_wrap=True)
    return 0 if made else USER_ERROR


def _all(asked: Asked, runs: Needed, wanted: Options, found: Machine) -> tuple[list[Forecast], dict[str, str]]:
    """The forecasts, and the reason for each system without one. Raises UserError if the only system has none."""
    made, failed = list[Forecast](), dict[str, str]()

    def one(system: System) -> Forecast:
        rates, node = sources.found_for(asked, system, found)
        return forecast(runs, rates, system, node, asked.framework)

    for system in wanted.systems:
        try:
            made.append(one(system))
        except UserError as error:
            if asked.alone:
                raise
            failed[system.name] = str(error)
    return made, failed


if __name__ == "__main__":
    command(main)
