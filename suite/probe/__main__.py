"""`python -m suite.probe`: where the time goes: a task or a model seen at a level, such as throughput."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from suite.errors import USER_ERROR, OneLineParser, UserError, command, only_options, printable, truth
from suite.measure.machine import detect
from suite.probe import levels, options, page, record, showing, tracking
from suite.probe.sweeping import sweep
from suite.record.tables import plain_console
from suite.record.tracking_server import BehindError
from suite.store.disk import refuse_unwritable, write_text

OPTIONS = (*options.SINGLE, *options.SWEPT)


def epilog() -> str:
    """The levels and the options."""
    shown = "\n".join(f"  {name:<21} {text}" for name, text in levels.names().items())
    return f"""\
Levels (level=):
{shown}

What is looked at; lists such as batch=32,64 make a sweep of all combinations:
  task=NAME scale=NAME   a task of the suite, by its reference implementation: what python -m suite.run trains
  implementation=PATH    code of your own for the task, a folder or a file that holds build(), in any framework
  model=NAME             a classifier of torchvision or keras.applications, on synthetic pictures
  framework=NAME         torch (the default) or tensorflow
  mode=train|infer       training steps (the default), or inference; a task's is its whole evaluation, untrained
  batch=N                samples a step; default: the task's own, 32 of a model
  size=N                 height and width of a model's pictures; of a task with sequences their length
  precision=NAME         of conf/formats.yaml; default: that of the run of from=, else the benchmark's or the system's;
                         several at level=precision
  data=real|synthetic    a task's own training data (the default), or noise in its place
  samples=N              where models are trained: so many samples; default: to the target, or the budget's end
  kernels=TAG+TAG        of level=kernels: quick (the default), all, matmul, convolution, recurrent, sparse, all_reduce,
                         and without task= or model=, of DeepBench: train, server, device
  peak=FOLDER            of level=throughput: MFU of the peak that level=kernels out=FOLDER attained on this machine
  from=FOLDER            in place of training: the last state of a run that was made with checkpoints=keep
  hw=NAME                the system; default: what this machine is
How:
  repeats=N seconds=X    each cell N times (5), each time some X seconds long (1), the cells in random order
  out=FOLDER             new or empty: keep what was found there, as {record.FILE}, and show it in MLflow
  trace=FILE             where level=trace writes, for ui.perfetto.dev or chrome://tracing; default: trace.json in out=
  data_dir=FOLDER        where datasets lie
  mlflow=false           do not feed MLflow; python -m suite.sync FOLDER does it later
  manifest=FILE          measure again what FILE, or a folder of out=, holds, and say what differs; beside it go out=,
                         trace=, data_dir=, mlflow=, and implementation= again where code of one's own was looked at

A cell that cannot be measured is marked, and the sweep goes on. Exit code: 0 measured, 2 a mistake in the command, or
no cell could be measured. docs/probe.md shows each level.
"""


def main(argv: list[str]) -> int:
    """Measure what the command line `argv` names and print it."""
    parser = OneLineParser("python -m suite.probe", "Look at a workload at a level.", epilog())
    parser.add_argument("words", nargs="*", metavar="option=value", help="see below")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--html", metavar="FILE", help="write a page as well, self-contained")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of that object, and stop")
    args = parser.parse_intermixed_args(argv)
    if args.schema:
        print(record.dumps(record.Probe.model_json_schema()))
        return 0
    given = only_options(args.words, (*OPTIONS, "data_dir", "manifest", "mlflow"), "level=throughput")
    found = detect()
    manifest, mlflow = given.pop("manifest", None), truth("mlflow", given.pop("mlflow", "true"))
    data_dir = given.pop("data_dir", None)
    if manifest and (others := sorted(given.keys() - {"out", "trace", "implementation"})):
        raise UserError(f"manifest={manifest} repeats what it holds: leave out {', '.join(others)}")
    kept = record.read(Path(manifest)) if manifest else None
    wanted = options.again(kept, given, data_dir, found) if kept else options.parse(given, data_dir, found)
    out, html = (Path(place) if place else None for place in (given.get("out"), args.html))
    if out:
        record.refuse_used(out)
    refuse_unwritable(html, *(subject.trace for subject in wanted.subjects))
    progress = Console(stderr=True)
    with progress.status("") as status:
        probe = sweep(
            wanted.level, wanted.subjects, wanted.repeats, found, lambda said: status.update(Text(printable(said)))
        )
    console = plain_console(160)
    try:
        if args.json:
            print(probe.model_dump_json(indent=1))
        else:
            showing.show(console, probe)
            if kept:
                showing.show_compared(console, kept, probe)
    finally:  # the reader of the output may have gone, as head does
        try:
            if out:
                record.write(probe, out)
        finally:  # the page may lie on another disk, which has room
            if html:
                write_text(html, page.html(probe))
    for place in filter(None, () if args.json else (out, html)):
        console.print(f"kept in {place}", soft_wrap=True)
    if out and mlflow:
        try:
            tracking.track(out)
        except BehindError as error:
            again = f"python -m suite.sync {shlex.quote(str(out))}"
            print(f"not in MLflow: {error}; bring it there with {again}", file=sys.stderr)
    if all(cell.error for cell in probe.cells):
        print("error: no cell could be measured", file=sys.stderr)
        return USER_ERROR
    return 0


if __name__ == "__main__":
    command(main)
