"""What the suite asks of a task: its data as arrays, their numbers of examples, and the score of predictions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeGuard, cast

import numpy as np

from suite.config.models import Benchmark
from suite.errors import BadPrediction, BrokenContract, UserError, one_of
from suite.store import packages
from suite.store.authors import guarded

Arrays = dict[str, np.ndarray]

KINDS = "biufcSUmM"  # numpy's kinds of numbers, booleans, texts and times: what a file holds without pickle


class Task(Protocol):
    """A module with prepare, split_sizes, score and METRICS: the lowest and highest value of each metric by its name.

    The module is `tasks.<task>`. A missing bound is given as infinite.
    """

    METRICS: Mapping[str, tuple[float, float]]

    def prepare(self, scale: str, files: Any) -> Arrays:
        """All arrays of a benchmark by name, made from the dataset's verified files in the folder `files`.

        A name says who is given the array besides `score`: `test_*` `predict`, `answer_*` nobody, any other `build`.
        """
        ...

    def split_sizes(self, data: Mapping[str, np.ndarray]) -> dict[str, int]:
        """The dataset's `eval_samples`, and its `train_samples` if the arrays tell them, as counted in `data`."""
        ...

    def score(self, predictions: Sequence[Any], data: Mapping[str, np.ndarray]) -> dict[str, float]:
        """The metrics of `predictions`, finite or nan, the benchmark's own among them. Raises BadPrediction."""
        ...


class Drawing(Task, Protocol):
    """A task that evaluates each run on arrays of its own, which nobody knows before the run begins."""

    def evaluation_arrays(self, data: Mapping[str, np.ndarray], seed: int) -> Arrays:
        """More `test_*` and `answer_*` arrays for one run: those of `seed`, from 0 to 2^63 - 1, always the same."""
        ...


def load_task(task: str) -> Task:
    """Load the module of `task`. Raises UserError for missing packages, BrokenContract for missing parts."""
    name = f"tasks.{task}"
    if not is_there(name):
        raise BrokenContract(f"there is no module {name}, which conf/task/{task}.yaml asks for", Task)
    packages.require(task)
    module = packages.imported(name, task)
    for function in (Task.prepare, Task.split_sizes, Task.score):
        callable_like(module, function)
    if hasattr(module, "evaluation_arrays"):
        callable_like(module, Drawing.evaluation_arrays)
    metrics = getattr(module, "METRICS", None)
    if not isinstance(metrics, Mapping) or not metrics or not all(map(_are_bounds, metrics.values())):
        raise BrokenContract(f"{name}.METRICS is {metrics!r:.60}", Task)
    definition: Task = cast(Any, module)
    return definition


def is_there(name: str) -> bool:
    """Whether there is a module of this name in the suite's own `tasks` or `reference_impls`.

    Raises UserError if something else of that name hides the suite's.
    """
    with suppress(ModuleNotFoundError):  # for a file tasks.py, which has no submodules
        if find_spec(name):
            return True
    own = Path(__file__).resolve().parents[2] / name.partition(".")[0]
    if spec := find_spec(own.name):
        found = [Path(each).resolve() for each in spec.submodule_search_locations or [str(spec.origin)]]
        if own not in found:
            raise UserError(
                f"{found[0]} hides the suite's own {own.name}: start from another folder, or by the command suite"
            )
    return False


def callable_like(module: Any, contract: Any) -> None:
    """Raise BrokenContract unless `module` has a function of the contract's name that takes the same arguments."""
    name = contract.__name__
    function = getattr(module, name, None)
    parameters = [each for each in inspect.signature(contract).parameters if each != "self"]
    if not callable(function):
        raise BrokenContract(f"{module.__name__} has no function {name}", contract)
    try:
        inspect.signature(function).bind(*parameters)
    except TypeError as error:
        raise BrokenContract(f"{name} of {module.__name__} takes other arguments ({error})", contract) from None
    except ValueError:  # written in C, without a signature
        return


def _are_bounds(bounds: Any) -> bool:
    numbers = isinstance(bounds, Sequence) and len(bounds) == 2 and all(isinstance(b, int | float) for b in bounds)
    return numbers and bool(bounds[0] < bounds[1])


def check_metric(benchmark: Benchmark, task: Task) -> None:
    """Raise UserError, which names the nearest metric, unless the benchmark's metric is one of the task's."""
    one_of(f"metric of {benchmark.name}", benchmark.metric, task.METRICS)


def check_target(benchmark: Benchmark, task: Task) -> None:
    """Raise UserError unless the target lies within the bounds of the metric, one of the task's."""
    low, high = task.METRICS[benchmark.metric]
    if not low <= benchmark.target <= high:
        raise UserError(
            f"target {benchmark.target:g} of {benchmark.name} is out of reach: {benchmark.metric} goes from {low:g} to "
            f"{high:g}"
        )


def check_first(benchmark: Benchmark) -> None:
    """Raise UserError unless the first evaluation lies within the budget."""
    first, budget = benchmark.evaluation.first, benchmark.budget_samples
    if first > budget:
        raise UserError(
            f"evaluation.first {first} of {benchmark.name} is beyond budget_samples {budget}: make it smaller, or the "
            "budget larger"
        )


def prepare(benchmark: Benchmark, task: Task, folder: Path) -> Arrays:
    """The benchmark's arrays, made by the task from the files in `folder`. Raises BrokenContract for anything else."""
    with guarded(Task.prepare, benchmark.task):
        arrays: Any = task.prepare(benchmark.scale, folder)
    _check_arrays(benchmark, arrays, Task.prepare)
    return dict(arrays)


def draws(task: Task) -> TypeGuard[Drawing]:
    """Whether the task draws evaluation arrays for each run."""
    return hasattr(task, "evaluation_arrays")


def for_run(benchmark: Benchmark, task: Task, data: Mapping[str, np.ndarray], seed: int | None) -> Arrays:
    """All arrays of one run: the benchmark's `data`, and those that its task draws from the run's evaluation `seed`.

    Raises BrokenContract if anything but evaluation arrays is drawn, BadPrediction if a seed is needed and not known.
    """
    if not draws(task):
        return dict(data)
    if seed is None:
        raise BadPrediction(0, "nobody can tell for which evaluation arrays these are: the log's head does not say")
    with guarded(Drawing.evaluation_arrays, benchmark.task):
        arrays: Any = task.evaluation_arrays(data, seed)
    _check_arrays(benchmark, arrays, Drawing.evaluation_arrays)
    for name in arrays:
        if name in data or not name.startswith(("test_", "answer_")):
            raise BrokenContract(
                f"evaluation_arrays of {benchmark.task} named an array {name!r:.40}", Drawing.evaluation_arrays
            )
    return {**data, **arrays}


def _check_arrays(benchmark: Benchmark, arrays: Any, contract: Callable[..., Any]) -> None:
    """Raise BrokenContract unless a function of the task returned plain arrays by name."""
    function = contract.__name__
    if not isinstance(arrays, dict):
        raise BrokenContract(f"{function} of {benchmark.task} returned {described(arrays)}", contract)
    for name, array in arrays.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise BrokenContract(f"{function} of {benchmark.task} named an array {name!r:.40}", contract)
        if not is_plain(array):
            done = "prepared" if function == "prepare" else "drawn"
            raise BrokenContract(f"{name!r}, {done} by {benchmark.task}, is {described(array)}", contract)


def check_sizes(benchmark: Benchmark, task: Task, arrays: Arrays) -> None:
    """Raise UserError unless the dataset declares as many samples as its arrays hold; a subset may declare none."""
    dataset, sizes = benchmark.dataset, split_sizes(benchmark, task, arrays)
    for name, found in sizes.items():
        declared = getattr(dataset, name)
        if declared != found and not (declared is None and dataset.subset):
            raise UserError(
                f"{benchmark.name}: {name} of {dataset.name} is {declared}, but its arrays hold {found}: "
                f"declare {name}: {found} in conf/task/{benchmark.task}.yaml."
            )


def split_sizes(benchmark: Benchmark, task: Task, arrays: Arrays) -> dict[str, int]:
    """The sizes of the splits, as the task counts them. Raises BrokenContract for anything but counts."""
    with guarded(Task.split_sizes, benchmark.task):
        sizes: Any = task.split_sizes(arrays)
    known = {"train_samples", "eval_samples"}
    counts = isinstance(sizes, dict) and all(type(each) is int for each in sizes.values())
    if not counts or not {"eval_samples"} <= sizes.keys() <= known:
        raise BrokenContract(f"split_sizes of {benchmark.task} returned {sizes!r:.80}", Task.split_sizes)
    return dict(sizes)


def score(benchmark: Benchmark, task: Task, predictions: Sequence[Any], data: Mapping[str, np.ndarray]) -> Any:
    """The metrics of `predictions`: floats by name, the benchmark's metric among them.

    Raises BadPrediction for predictions that cannot be scored, BrokenContract for metrics that are not as promised.
    """
    with guarded(Task.score, benchmark.task):
        metrics: Any = task.score(predictions, data)
    if not isinstance(metrics, dict):
        raise BrokenContract(f"score of {benchmark.task} returned {described(metrics)}", Task.score)
    for name, value in metrics.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) == float("inf"):
            raise BrokenContract(f"{name!r}, scored by {benchmark.task}, is {described(value)}", Task.score)
    if benchmark.metric not in metrics:
        found = f"score of {benchmark.name} returned {', '.join(map(repr, metrics)) or 'nothing'}"
        raise BrokenContract(f"{found} without the benchmark's metric {benchmark.metric!r}", Task.score)
    return metrics


def is_plain(array: object) -> bool:
    """Whether `array` is a numpy array that a file can hold as it is: of numbers, booleans, texts or times."""
    return isinstance(array, np.ndarray) and array.dtype.kind in KINDS


def described(value: object) -> str:
    """What a wrong value is, in a few words: `a list`, `a numpy array of dtype object`, `a numpy.int64, 3`, `an int of
    1329 bits`.
    """
    if isinstance(value, np.ndarray):
        return f"a numpy array of dtype {value.dtype}"
    kind = type(value)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.split('.')[0]}.{kind.__name__}"
    if type(value) is int and value.bit_length() > 64:
        return f"an int of {value.bit_length()} bits"
    brief = f", {value!r}" if isinstance(value, int | float | str | np.generic) and len(repr(value)) < 40 else ""
    return "None" if value is None else f"a{'n' * (name[0] in 'aeio')} {name}{brief}"
