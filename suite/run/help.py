"""What `python -m suite.run --help` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from suite import config
from suite.config.formats import closed
from suite.config.models import Benchmark, Formula, Range
from suite.harness.implementation import written
from suite.record.system import DIVISIONS, STATUSES


def help_text(argv: Sequence[str]) -> str:
    """The options and their values; with task= and scale= in `argv` also the hyperparameters of that benchmark."""
    given = dict(word.split("=", 1) for word in argv if "=" in word)
    lines = [
        "python -m suite.run task=TASK [option=value ...]",
        "",
        "Train a task's reference model to its target quality; report time, cost and energy; leave evidence.",
        "",
        "Tasks and their scales:",
    ]
    for task in config.names("task"):
        lines.append(f"  {task}: {config.task_file(task).title}")
        for benchmark in config.benchmarks(task):
            lines.append(f"    scale={benchmark.scale:<7} {benchmark.title}; {benchmark.metric} {benchmark.target:g}")
    lines += ["", "Systems (hw=):"]
    systems = config.names("hw")
    width = max(map(len, systems))
    lines += [f"  {name:<{width}} {config.system(name).title}" for name in systems]
    lines += ["", "Frameworks of the reference (framework=):"]
    lines += [f"  {name:<11} {config.framework(name).title}" for name in written()]
    lines += [
        "",
        "Options:",
        "  implementation=PATH  train with code of your own, a folder or a file that holds build(), in any framework;",
        "                     its files stay with the evidence; python -m suite.new makes one to begin with",
        "  scale=NAME         the size of the task; default: the system's own, which the plan prints",
        "  hw=NAME            default: auto, what this machine is",
        "  framework=NAME     default: torch",
        "  subset=X           the share of the training data's shards, such as 0.01: a pilot, which is no submission",
        "  seed=N             fixes data order, initialisation, augmentation; default: drawn from the system's entropy",
        "  token=TEXT         what a round published; seeds are derived from it and submitter=: nobody chose them",
        "                     (docs/submissions.md); instead of seed=",
        "  runs=N             N runs with distinct seeds and their olympic mean (of two runs the mean)",
        "  out=FOLDER         where the evidence goes; default: runs/<what>-<when>",
        "  data_dir=FOLDER    where datasets lie or are downloaded to; default: $SUITE_DATA, else the cache folder",
        "  resume=FOLDER      go on with an interrupted run, on the same log and the same clock",
        "  dry_run=true       print the plan, also of a machine that is elsewhere, and stop",
        "  checkpoints=keep   keep the state at each evaluation in states/, for an audit; default: last",
        "  witness=URL        an RFC 3161 authority, to time-stamp begin and end of the clock; default: none",
        "  mlflow=false       do not feed MLflow while training; python -m suite.sync FOLDER does it later",
        "  submitter=NAME     your organisation, as the log and the system description name it",
        f"  division=NAME      {' or '.join(DIVISIONS)}; what each allows is in rules.md; default: {DIVISIONS[0]}",
        f"  category=NAME      of the system: {', '.join(STATUSES)}; default: research",
        "",
        "Any value of the chosen benchmark, and of the chosen system:",
        "  hyperparameters.NAME=X   with task= and scale= this help lists them",
        "  target=X",
        "  budget_samples=N  evaluation.first=N  evaluation.every=N   your own in the open division",
        f"  precision=NAME           the numeric format: {', '.join(closed())};",
        "                           the references know the first four, reinforcement_learning's fp32 alone;",
        "                           default: the system's",
        "  hw.price_per_hour=X      your own price; any value of conf/hw/ can be set this way, but one of",
        "                           price, precision, nodes and workers alone for a submission (rule system.3)",
        "",
        "Several commands: -m seed=1,2,3 framework=torch,tensorflow runs each combination, one after the other.",
        "Several workers: hw.nodes=N, and on processors hw.workers=N, under torchrun or SLURM, to which",
        "-m hydra/launcher=slurm slurm.NAME=X submits (docs/cluster.md).",
        "",
        "Exit code: 0 target reached, 3 the run ended without it, 2 a mistake in the command, 130 Ctrl-C,",
        "143 SIGTERM, 1 a worker was lost; after these resume= goes on.",
    ]
    if "task" in given and "scale" in given:
        lines += ["", *_hyperparameters(config.benchmark(given["task"], given["scale"]))]
    return "\n".join(lines)


def _hyperparameters(benchmark: Benchmark) -> Iterator[str]:
    yield f"Hyperparameters of {benchmark.name}; without a note they are fixed in the closed division:"
    for name, value in benchmark.hyperparameters.items():
        yield f"  hyperparameters.{name}={value}{_freedom(benchmark.free.get(name))}"


def _freedom(free: Range | Formula | None) -> str:
    """A note on the values that the closed division allows for a hyperparameter; empty for one that is fixed."""
    match free:
        case Range(low=low, high=high, multiple_of=multiple):
            return f"  (free from {low:g} to {high:g}{f', in multiples of {multiple}' if multiple else ''})"
        case Formula(proportional_to=other, power=power, tolerance=tolerance):
            bound = f"follows {other} ^ {power:g}" if power != 1 else f"follows {other}"
            around = f"; free from {1 - tolerance:.3g} to {1 / (1 - tolerance):.3g} times that" if tolerance else ""
            return f"  ({bound}{around})"
    return ""
