"""A model that a run trained, answering requests: each has the arrays of one test example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from suite.config.models import System
from suite.config.plan import Plan
from suite.errors import BrokenContract, UserError
from suite.harness import contract
from suite.harness.contestant import OwnImplementation, trainer
from suite.harness.contract import Checked
from suite.harness.implementation import Device, Implementation, check_precision, load_implementation
from suite.harness.seeds import evaluation_seed
from suite.record import evidence, states
from suite.record.mllog import read
from suite.record.summary import summarise
from suite.run import resuming
from suite.store.arrays import prepared
from suite.store.modules import Requesting, load_requests
from suite.store.task import Task, for_run, load_task, score

Request = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Examples:
    """A benchmark's test examples as requests, and what scores the answers; `trained` is the run's own quality."""

    plan: Plan
    task: Task
    requests: Requesting
    data: Mapping[str, np.ndarray]
    trained: float | None

    @property
    def count(self) -> int:
        """The number of examples."""
        return self.task.split_sizes(self.data)["eval_samples"]

    def request(self, index: int) -> Request:
        """The request for an example."""
        return self.requests.request(self.data, index)

    @cached_property
    def first(self) -> Request:
        """The request for the first example: what a request looks like."""
        return self.request(0)

    @cached_property
    def _untrained(self) -> Mapping[str, np.ndarray]:
        """The arrays with an empty training split: counting a large split takes longer than an answer."""
        return {name: array[:0] if name.startswith("train_") else array for name, array in self.data.items()}

    def checked(self, asked: Request) -> Request:
        """Return an untrusted request if it has one example's arrays, with the types and dimensions of this split's.

        Otherwise raises UserError, which says what is expected.
        """
        if asked.keys() != self.first.keys():
            raise UserError(f"the arrays are {', '.join(asked) or 'none'}; expected {', '.join(self.first)}")
        for name, array in asked.items():
            like = self.data[name]
            if array.dtype != like.dtype or array.ndim != like.ndim or array.shape[1:] != like.shape[1:]:
                rest = "".join(f", {length}" for length in like.shape[1:])
                raise UserError(f"{name} is {array.dtype} {[*array.shape]}; expected {like.dtype} [N{rest}]")
        given = {**self._untrained, **asked}
        try:
            alone = self.requests.request(given, 0)
            count = self.task.split_sizes(given)["eval_samples"]
        except (ArithmeticError, LookupError, ValueError) as error:
            raise UserError(f"the arrays are not of one example: {error}") from error
        if count != 1 or any(alone[name].shape != array.shape for name, array in asked.items()):
            raise UserError(f"the arrays are not of one example but of {count}, or of other lengths than they say")
        return asked

    def quality(self, answers: Sequence[Any]) -> float:
        """The benchmark's metric over one answer for each example. Raises BadPrediction."""
        predictions = [self.requests.numbered(answer, index) for index, answer in enumerate(answers)]
        return float(score(self.plan.benchmark, self.task, predictions, self.data)[self.plan.benchmark.metric])


class Model:
    """Answers the requests of `examples`, at most `batch` together, with the last state that its run kept."""

    def __init__(self, examples: Examples, made: Checked, batch: int) -> None:
        self.examples, self.made, self.batch = examples, made, batch
        names = contract.evaluation_data(examples.data).keys() - examples.first.keys()
        self._others = {name: examples.data[name] for name in names}

    def answers(self, requests: Sequence[Request]) -> list[Any]:
        """Return an answer to each request, numbered as the first example's.

        The last request pads a batch to a power of two, or to the largest batch, so that a framework that compiles for
        each shape knows them all.
        """
        size = self._size(len(requests))
        filled = [*requests, *[requests[-1]] * (size - len(requests))]
        joined = {name: np.concatenate([each[name] for each in filled]) for name in self.examples.first}
        predictions = self.made.predict({**self._others, **joined})
        if len(predictions) != size:
            found = f"predict of {self.made.name} returned {len(predictions)} predictions for {size} examples"
            raise BrokenContract(found, Implementation.predict)
        return [self.examples.requests.numbered(each, 0) for each in predictions[: len(requests)]]

    def warm_up(self) -> None:
        """Answer a batch of each padded size, so that none is the first of its shape under load."""
        count = self.examples.count
        for size in sorted({self._size(requests) for requests in range(1, self.batch + 1)}):
            self.answers([self.examples.request(index % count) for index in range(size)])

    def _size(self, requests: int) -> int:
        """The size to which a batch of so many requests is padded."""
        return min(1 << (requests - 1).bit_length(), self.batch)


def examples(folder: Path, own: OwnImplementation | None, data_dir: str | None) -> Examples:
    """The examples of the run in `folder`. Raises UserError if there is no run, or its task defines no requests."""
    plan = resuming.from_evidence(folder, {}, own, option="")
    name = plan.benchmark.task
    requests = load_requests(name)
    if requests is None:
        raise UserError(
            f"{name} has no tasks/{name}/requests.py: nothing says what one request is, so that it cannot be served"
        )
    task = load_task(name)
    lines = list(read(_run(folder) / evidence.LOG))
    data = for_run(plan.benchmark, task, prepared(plan.benchmark, task, data_dir), evaluation_seed(lines))
    return Examples(plan, task, requests, data, summarise(lines).quality)


def load(
    folder: Path, found: Examples, own: OwnImplementation | None, system: System, precision: str, batch: int
) -> Model:
    """The model of the run in `folder`, on a system, in a precision. Raises UserError if it kept no fitting state."""
    plan = found.plan
    kept = states.kept(_run(folder))
    if not kept:
        raise UserError(f"{folder} holds no kept state: name a run that was made with checkpoints=keep")
    module = own.load(plan.benchmark.task) if own else load_implementation(plan.benchmark.task, plan.framework)
    device = Device(system.device_kind, precision, memory_gb=system.memory_gb)
    check_precision(trainer(own, plan.framework.name), module, device)
    made = contract.build(module, plan.benchmark, found.data, plan.seeds[0], device)
    try:
        made.load_state_dict(states.read(kept[-1])[0])
    except (OSError, states.BadState, KeyError, ValueError, RuntimeError) as error:
        raise UserError(f"{kept[-1]} is no state of {plan.benchmark.name}: {error}") from error
    return Model(found, made, batch)


def _run(folder: Path) -> Path:
    return folder if (folder / evidence.CONFIG).exists() else folder / "run_1"
