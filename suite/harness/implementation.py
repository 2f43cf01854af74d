"""The interface between the harness and an implementation. No tensor type crosses it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from suite import config
from suite.config.models import Framework, Precision
from suite.errors import BrokenContract, UserError, one_of
from suite.harness import lean
from suite.harness.by_framework import having
from suite.measure.cpus import usable_cpus
from suite.store import packages
from suite.store.task import callable_like, is_there


@dataclass(frozen=True)
class Device:
    """What to train on: `kind` is `cpu` or `gpu`; `precision` is that of the forward and backward passes.

    `rank` is the worker's number among all workers; `local_rank` is its number on its node, and that of its
    accelerator there. `addresses` holds the `HOST:PORT` of each worker by rank, for the framework's own messages; it is
    empty for a single worker. `memory_gb` is an accelerator's memory, None if not known. An `imagined` device does not
    exist: only shapes count, and other workers are not contacted.
    """

    kind: str
    precision: Precision
    rank: int = 0
    local_rank: int = 0
    addresses: tuple[str, ...] = ()
    memory_gb: float | None = None
    imagined: bool = False

    @property
    def world_size(self) -> int:
        """How many workers there are."""
        return max(len(self.addresses), 1)

    @property
    def cpus(self) -> int:
        """How many processes or threads the worker can use: its share of the logical CPUs of its machine."""
        hosts = [address.rpartition(":")[0] for address in self.addresses]
        return max(usable_cpus() // (hosts.count(hosts[self.rank]) if hosts else 1), 1)


def untrained(who: str, device: Device, precisions: Iterable[str] | None, hw: str | None = None) -> str | None:
    """Why `who`, which trains in `precisions` (None: not known), cannot train on the device; None if it can.

    `hw` is the system that gave the precision, None if it was asked for.
    """
    given = f"; {device.precision} is what hw={hw} takes here where precision= is left out" if hw else ""
    if precisions is not None and device.precision not in precisions:
        return f"precision={device.precision}: {who} trains in {', '.join(precisions)}{given}"
    if device.precision == "tf32" and device.kind != "gpu":
        return f"precision=tf32 is arithmetic of GPUs: on processors take fp32{given}"
    return None


def check_precision(who: str, module: ImplementationModule, device: Device, hw: str | None = None) -> None:
    """Raise UserError if `who`'s module cannot train in the device's precision, which `hw` gave if it is named."""
    if problem := untrained(who, device, getattr(module, "PRECISIONS", None), hw):
        raise UserError(problem)


def unshared(workers: int, most: int, of: str) -> str | None:
    """Why so many workers cannot share a step of `most` parts, called `of` in the message; None if they can."""
    if workers <= most:
        return None
    return f"{workers} workers cannot share the {most} {of} of a step: take {most} workers at most, or a larger batch"


def unseen(framework: str, mend: str) -> UserError:
    """The error for a framework that is to train on an accelerator and sees none.

    Each implementation must check this itself: TensorFlow would train on the CPU without a word.
    """
    return UserError(
        f"{framework} sees no accelerator on this machine: {mend}; python -m suite.doctor names the driver, and the "
        "newest CUDA or the ROCm that it supports"
    )


@dataclass(frozen=True)
class TrainStats:
    """`samples` seen since the start of the run, and the mean `loss` over the last step, a float (None if not known).

    Each step counts `global_batch_size` samples; a benchmark whose steps differ has no such hyperparameter.
    """

    samples: int
    loss: float | None


class Implementation(Protocol):
    """A model in training. Made by a module's `build(hyperparameters, data, seed, device)`, which also warms it up.

    `build` is not timed, so it must not read, normalise, move or cache any array of a split. `train_until` and
    `predict` do that at their first call, and keep the result on the device for as long as they get the same arrays.

    With several workers each has its own, and all get the same calls. A step uses the same samples as with one worker,
    divided among them; after it all have the same state, which `state_dict` returns whole.
    """

    def train_until(self, samples: int) -> TrainStats:
        """Take whole steps until at least `samples` samples have been seen in all, and no step more (at least one)."""
        ...

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """One JSON value for each example of the `test_*` arrays, which `data` holds and nothing else, in order.

        With several workers each predicts a share; the shares are joined in the order of the ranks.
        """
        ...

    def state_dict(self) -> dict[str, np.ndarray]:
        """Everything that is needed to go on from here, as numpy arrays: parameters, optimizer state, counters."""
        ...

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a `state_dict()`, of this or of another process."""
        ...


class ImplementationModule(Protocol):
    """A module `reference_impls.<task>.<framework>`, or one of your own, `implementation=PATH`.

    `ACCELERATORS` is the largest number of workers, one for each accelerator, that can train together. Three more may
    be left out. `PRECISIONS`: the numeric formats of conf/formats.yaml that it trains in. `SHARED_BY`: names of
    hyperparameters; the first that the benchmark has says how many samples of a step stay on one worker, else one does.
    `OWN_DRAWS`: whether it draws order and augmentation from its own random numbers, False if left out. All are read
    without an import, so they must be literals: a number, tuples of strings, and True or False.
    """

    ACCELERATORS: int

    def build(
        self, hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
    ) -> Implementation:
        """The implementation, initialised and warmed up on made-up arrays.

        `data` maps names to read-only arrays: `train_*` and those of no split, such as a vocabulary; no `test_*` and
        no `answer_*`.
        """
        ...


def source(task: str, framework: Framework) -> Path:
    """The file of the reference implementation of `task`.

    Raises UserError, which names the frameworks in which the task is written, for any other.
    """
    spec = find_spec(_module(task, framework))
    assert spec
    assert spec.origin
    return Path(spec.origin)


def load_implementation(task: str, framework: Framework) -> ImplementationModule:
    """Import the reference implementation of `task`.

    Raises UserError for any other framework, naming those it is written in, for packages of the task or the framework
    that are missing, naming them, and for a framework whose import fails; BrokenContract if the module lacks a required
    part.
    """
    name = _module(task, framework)
    packages.require(task, framework)
    try:
        lean.load(framework)
    except ImportError as error:
        anew = f"{packages.install(task, framework)} --force-reinstall"
        raise UserError(
            f"{framework.title} is installed and cannot be imported: {error}; install it anew: {anew}"
        ) from error
    return held_to_contract(packages.imported(name, task, framework))


def held_to_contract(module: Any) -> ImplementationModule:
    """Return `module`. Raises BrokenContract if it lacks a required part."""
    accelerators = getattr(module, "ACCELERATORS", None)
    if type(accelerators) is not int or accelerators < 1:
        found = "has no ACCELERATORS" if accelerators is None else f"has ACCELERATORS {accelerators!r:.40}"
        raise BrokenContract(f"{module.__name__} {found}", ImplementationModule)
    callable_like(module, ImplementationModule.build)
    return cast(ImplementationModule, module)


def written() -> list[str]:
    """The frameworks that the reference of any task is written in, installed or not."""
    tasks = config.names("task")
    return [name for name in config.names("framework") if any(name in frameworks(task) for task in tasks)]


def frameworks(task: str) -> list[str]:
    """The frameworks that `task` is written in, installed or not."""
    package = f"reference_impls.{task}"
    return having(package) if is_there(package) else []


def compared(task: str, framework: str) -> str:
    """The framework of the reference that code in `framework` is compared with: the same, else the first installed."""
    written = frameworks(task)
    if framework in written:
        return framework
    return next((name for name in written if not packages.missing(task, config.framework(name))), written[0])


def _module(task: str, framework: Framework) -> str:
    written = frameworks(task)
    if not written:
        raise BrokenContract(f"reference_impls/{task}/ holds no module of a framework", ImplementationModule)
    one_of(f"framework for {task}", framework.name, written)
    return f"reference_impls.{task}.{framework.name}"
