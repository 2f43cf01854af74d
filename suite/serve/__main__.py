"""`python -m suite.serve`: put a model that a run trained under the load of MLPerf inference's scenarios."""

from __future__ import annotations

import json
from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from suite.config import formats
from suite.config.models import System
from suite.errors import LOST, OneLineParser, UserError, command, split_options
from suite.harness.contestant import read
from suite.measure import machine, noise, systems
from suite.record.tables import plain_console
from suite.run.resuming import stored
from suite.serve import ending, options
from suite.serve.asking import Asked, Local
from suite.serve.batching import Answers, Batcher
from suite.serve.model import Examples, examples, load
from suite.serve.options import Options
from suite.store import packages
from suite.store.disk import refuse_unwritable, write_text

NEEDED = ("mlperf_loadgen", "starlette", "uvicorn")
EPILOG = """\
FOLDER holds a run that was made with checkpoints=keep, whose last state answers. Its requests are single test examples.
  scenario=LIST        of single-stream, multi-stream, server, offline, as MLPerf inference has them; default: all
  latency=SECONDS      the bound that 99 % of the queries keep in scenario=server (0.1)
  rate=N               queries a second in scenario=server; default: the highest that keeps the bound is searched for
  seconds=X            how long each load lasts at least (10; MLPerf asks for 600)
  batch=N wait=SECONDS at most N requests are answered together (32), for which the first waits so long (0.002)
  queue=N              as many requests may wait (256, or two batches if more); a load that brings more does not count
  hw=NAME precision=X  where and how it answers; default: this machine, and the run's precision
  implementation=PATH  the code that the run was made with, where that was one's own
  data_dir=FOLDER      where datasets lie
Over HTTP, on one machine or two:
  listen=PORT          answer there until Ctrl-C, or at listen=HOST:PORT; nobody is asked who they are
  url=http://HOST:PORT put the load on such a server, with at most 64 requests under way: the client may be the limit

Exit code: 0 measured, 1 a load failed, 2 a mistake in the command. docs/serve.md explains the figures.
"""


def main(argv: list[str]) -> int:
    """Serve, or put load on, what the command line `argv` names."""
    parser = OneLineParser("python -m suite.serve", "A trained model under load.", EPILOG)
    parser.add_argument("words", nargs="*", metavar="FOLDER option=value", help="see below")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--html", metavar="FILE", help="write a page as well, self-contained")
    args = parser.parse_intermixed_args(argv)
    given, folders = split_options(args.words, options.ALLOWED)
    wanted = options.parse(given)
    if wanted.listen and (args.json or args.html):
        raise UserError("listen= waits for others' load and measures none: leave out --json and --html")
    if len(folders) != 1:
        raise UserError(f"give one FOLDER, of a run that was made with checkpoints=keep; given: {len(folders)}")
    if lacking := [name for name in NEEDED if not find_spec(name)]:
        raise UserError(f"suite.serve needs {', '.join(lacking)}: {packages.with_extras('serve')}")
    folder, code = Path(folders[0]), given.get("implementation")
    own = read(Path(code), stored(folder, "")["framework"]) if code else None
    found = examples(folder, own, given.get("data_dir"))
    if wanted.url:
        from suite.serve.web import Client

        with ending.at_once():
            client = Client(wanted.url, found)
            elsewhere = "" if client.processes else ", on a machine that was not watched for noise"
            return _load(wanted, found, client, f"over {wanted.url}{elsewhere}", args)
    system = systems.system_here(given.get("hw", systems.AUTO), machine.detect())
    precision = formats.known(given.get("precision", found.plan.precision))

    def answers() -> Answers:
        model = load(folder, found, own, system, precision, wanted.batch)
        model.warm_up()
        return model.answers

    if wanted.listen:
        from suite.serve import web

        listening = web.bound(*wanted.listen)  # before the model is built, which may take minutes
    placed = f"on {place(system)}, batch={wanted.batch} wait={wanted.wait:g}"
    where = f"by {found.plan.framework.name} in {precision} {placed}"
    with ending.at_once():
        batcher = Batcher(answers, wanted.batch, wanted.wait, wanted.queue)
        if wanted.listen:
            web.serve(found, batcher, listening, f"{found.plan.benchmark.name} {where}, queue={wanted.queue}")
            return 0
        return _load(wanted, found, Local(found, batcher), f"{where}, in this process", args)


def place(system: System) -> str:
    """The part of a system that the model answers on: one process has one accelerator."""
    return f"one accelerator of {system.name}" if system.accelerators_per_node > 1 else system.name


def _load(wanted: Options, found: Examples, asked: Asked, where: str, args: Namespace) -> int:
    from suite.serve import measuring, showing

    disturbed = noise.watched(machine.detect(), asked.processes)
    html = Path(args.html) if args.html else None
    refuse_unwritable(html)
    with Console(stderr=True).status("") as status:
        measured = measuring.measure(wanted, found, asked, status.update)
    noisy = disturbed()
    told = [f"{found.plan.benchmark.name} {where}", *(f"NOISY  {why}" for why in noisy)]
    try:
        if args.json:
            print(json.dumps({**measured.model_dump(), "where": where, "noisy": noisy}, indent=1))
        else:
            showing.show(plain_console(160), measured, told)
    finally:  # printing fails if the reader, such as head, has ended
        if html:
            write_text(html, showing.page(measured, told))
    if measured.stopped:
        raise UserError(measured.stopped)
    return LOST if any(each.failed for each in measured.loads) else 0


if __name__ == "__main__":
    command(main)
