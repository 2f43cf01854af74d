"""`python -m suite.check`: try all that a task and its implementations promise. `--help` explains the options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from suite import config
from suite.check.configuration import arrays_of, benchmark_of, task_of
from suite.check.equivalence import report
from suite.check.frameworks import Side, together
from suite.check.ledger import Ledger, Row, Skip
from suite.check.scoring import scoring
from suite.check.showing import as_json, show
from suite.check.training import Trained, training
from suite.config.formats import known
from suite.config.models import Benchmark
from suite.errors import BrokenContract, UserError, command, one_of, split_options, unknown
from suite.harness.contestant import OwnImplementation, read
from suite.harness.implementation import ImplementationModule, frameworks, load_implementation
from suite.measure import machine, systems
from suite.record.equivalence import Comparison
from suite.record.system import DIVISIONS
from suite.run.resuming import from_evidence
from suite.store import files, packages
from suite.store.disk import refuse_unwritable
from suite.store.task import Arrays, Task

HELP = """\
usage: python -m suite.check task=TASK [scale=SCALE] [framework=FRAMEWORK] [implementation=PATH]
                             [division=NAME] [precision=NAME] [out=FOLDER] [data_dir=FOLDER] [--json]

Try, with a few steps in fp32 on the CPU, everything that a task and its implementations promise: what conf/task must
say (missing sums and sizes are printed, ready to paste), metric, predictions, score, state, seeds, the count of
samples, what build reads, and the frameworks against each other. Nothing is recorded.

Without scale= every scale whose data is here is tried, without framework= every framework that the task is written in
and that is installed; with implementation= your own alone, at PATH, a folder or a file. Your own is then held to the
reference, from one state to the next, in fp32 and in precision= (left out: what a run on this machine's CPUs takes, if
your own trains in it), which is skipped where conf/equivalence.yaml has no bounds for it. With division=open it is not
held to the reference, since the model is free there;
out= writes what was found, as equivalence.json, beside the evidence of each run in FOLDER, and holds your own in the
scale, the numeric format and the hyperparameters of these runs.
--json prints a list with one object for each promise.
docs/adding-a-task.md explains the contracts, docs/equivalence.md how an implementation is held to the reference.

Exit code: 0 all promises are kept, 1 one is not, 2 a mistake in the command.
"""
OPTIONS = ("task", "scale", "framework", "implementation", "division", "precision", "out", "data_dir", "--json")
_OF_OWN = ("division", "precision", "out")


def main(argv: list[str]) -> int:
    """Run the checks, print what they find and return the exit code. Raises UserError for a mistake in the command."""
    if {"-h", "--help"} & set(argv):
        print(HELP, end="")
        return 0
    options = _options([word for word in argv if word != "--json"])
    own = read(Path(options["implementation"]), options.get("framework")) if "implementation" in options else None
    hyperparameters: Mapping[str, Any] | None = None
    if "out" in options:
        of_run = ("task", "scale", "framework", "division", "precision")
        given = {name: word for name, word in options.items() if name in of_run}
        runs = from_evidence(Path(options["out"]), given, own, "out=")
        refuse_unwritable(*report.places(Path(options["out"])))
        options |= {"scale": runs.benchmark.scale, "division": runs.division, "precision": runs.precision}
        hyperparameters = runs.benchmark.hyperparameters
    rows: list[Row] = []
    compared: list[Comparison] = []
    precision, task = options.get("precision"), options["task"]
    if own and precision and precision not in (named := own.declared.precisions or (precision,)):
        raise UserError(f"precision={precision}: {own.told.name} trains in {', '.join(named)}")
    if own and "fp32" not in (named := own.declared.precisions or ("fp32",)):
        raise UserError(
            f"{own.told.name} trains in {', '.join(named)}: a check, and the closed division (equivalence.1), hold it "
            "to the reference in fp32 on processors too: let it train so, and add fp32 to PRECISIONS"
        )
    for scale in [options["scale"]] if "scale" in options else config.scales(task):
        ledger = Ledger(f"{task}/{scale}")
        found = _check(ledger, scale, options, own, hyperparameters)
        compared += [found] if found else []
        rows += ledger.rows
    if "--json" in argv:
        print(as_json(rows))
    else:
        show(rows)
    if own and "out" in options and compared:
        report.write(Path(options["out"]), own.told, compared)
    return int(any(row.status == "fail" for row in rows))


def _options(words: list[str]) -> dict[str, str]:
    """Parse `words` into options by name.

    Raises UserError for an unknown or missing option or value, and for a framework that is not installed.
    """
    for word in words:
        name, _, value = word.partition("=")
        if name not in OPTIONS[:-1]:
            raise unknown("option", name, OPTIONS)
        if not value:
            raise UserError(f"{word!r} is not of the form option=value; for example scale=mini")
    options, _ = split_options(words, OPTIONS)
    if "task" not in options:
        raise config.which_task()
    scales = config.scales(options["task"])
    one_of(f"scale of {options['task']}", options.get("scale", scales[0]), scales)
    reference = "implementation" not in options
    for name in _OF_OWN:
        if reference and name in options:
            raise UserError(f"{name}= is for an implementation of your own: add implementation=PATH")
    one_of("division", options.get("division", DIVISIONS[0]), DIVISIONS)
    if "precision" in options:
        known(options["precision"])
    if reference and "framework" in options:
        one_of(f"framework for {options['task']}", options["framework"], frameworks(options["task"]))
        packages.require(options["task"], config.framework(options["framework"]))
    return options


def _check(
    ledger: Ledger,
    scale: str,
    options: Mapping[str, str],
    own: OwnImplementation | None,
    hyperparameters: Mapping[str, Any] | None,
) -> Comparison | None:
    """Check a benchmark. Return how an own implementation compares with the reference, None if that was not measured.

    `hyperparameters` are those that the own implementation ran with; None stands for the benchmark's.
    """
    benchmark, data_dir = benchmark_of(ledger, options["task"], scale), options.get("data_dir")
    task = task_of(ledger, benchmark) if benchmark else None
    if not benchmark or not task:
        return None
    if missing := files.faults(benchmark.dataset, files.root(data_dir), "size"):
        reason = f"{missing[0].problem}: {files.fetching(benchmark.name, data_dir)}"
        if "scale" in options:
            raise UserError(reason)
        ledger.skip("prepare returns the benchmark's arrays", reason)
        return None
    data = arrays_of(ledger, benchmark, task, data_dir)
    if data is None:
        return None
    if not own:
        _references(ledger, benchmark, task, data, options.get("framework"))
        return None
    if hyperparameters is not None:
        benchmark = benchmark.model_copy(update={"hyperparameters": dict(hyperparameters)})
    return _own(ledger.under(own.told.name), benchmark, task, data, own, options)


def _own(
    ledger: Ledger,
    benchmark: Benchmark,
    task: Task,
    data: Arrays,
    own: OwnImplementation,
    options: Mapping[str, str],
) -> Comparison | None:
    load = cache(lambda: own.load(benchmark.task))
    if not _implementation(ledger, benchmark, task, load, data, asked=True):
        return None
    if options.get("division", DIVISIONS[0]) != DIVISIONS[0]:
        ledger.skip("it is held to the reference", "the open division frees the model")
        return None
    usual = systems.precision_of(config.system(systems.CPU), machine.detect(), benchmark)
    trains_in = own.declared.precisions or (usual,)
    precision = options.get("precision") or (usual if usual in trains_in else "fp32")
    return report.against(ledger, benchmark, own, load(), data, precision)


def _references(ledger: Ledger, benchmark: Benchmark, task: Task, data: Arrays, framework: str | None) -> None:
    """Check the reference in each framework, or in `framework`, and the frameworks against each other."""
    name, found = benchmark.task, frameworks(benchmark.task)
    if not found:
        first = config.names("framework")[0]
        ledger.hold("the task is written in a framework", ImplementationModule, lambda: _load(name, first))
    trained = []
    for each in [framework] if framework else found:
        load = partial(_load, name, each)
        made = _implementation(ledger.under(each), benchmark, task, load, data, asked=framework is not None)
        if made:
            trained.append(Side(each, *made))
    for one, other in pairwise(trained):
        together(ledger.under(f"{one.framework} and {other.framework}"), benchmark, task, one, other, data)


def _load(task: str, framework: str) -> ImplementationModule:
    return load_implementation(task, config.framework(framework))


def _implementation(
    ledger: Ledger,
    benchmark: Benchmark,
    task: Task,
    loaded: Callable[[], ImplementationModule],
    data: Arrays,
    asked: bool,
) -> tuple[Trained, Mapping[str, float]] | None:
    def load() -> ImplementationModule:
        try:
            return loaded()
        except BrokenContract:
            raise
        except UserError as error:  # the framework is not installed
            if asked:
                raise
            raise Skip(str(error)) from error

    module = ledger.made("the module has all its parts", ImplementationModule, load)
    made = training(ledger, benchmark, module, data) if module else None
    metrics = scoring(ledger, benchmark, task, made.made, data) if made else None
    return (made, metrics) if made and metrics else None


if __name__ == "__main__":
    command(main)
