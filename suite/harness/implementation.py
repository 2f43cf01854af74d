"""What the harness asks of an implementation, and what it tells one. No tensor type crosses this line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from suite import config
from suite.config.models import Framework, Precision
from suite.errors import BrokenContract, UserError, unknown
from suite.harness import lean, quiet
from suite.measure.cpus import usable_cpus
from suite.store import packages
from suite.store.task import callable_like, is_there


@dataclass(frozen=True)
class Device:
    """What to train on: `kind` is `cpu` or `gpu`; `precision` is that of the forward and backward passes.

    Of several workers this is the one of `rank`, and of `local_rank` on its node, whose accelerator it takes;
    `addresses` is `HOST:PORT` of each by rank, for what their framework sends, and empty where there is only one.
    `memory_gb` is what an accelerator has, None if not known. One that is `imagined` is not there: shapes alone count,
    and other workers are not asked.
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
        """How many processes or threads of its own fit: the worker's share of the logical CPUs of its machine."""
        hosts = [address.rpartition(":")[0] for address in self.addresses]
        return max(usable_cpus() // (hosts.count(hosts[self.rank]) if hosts else 1), 1)


def untrained(who: str, device: Device, precisions: Iterable[str] | None) -> str | None:
    """Why `who`, which trains in `precisions` (None: not known), does not do so on the device; None where it does."""
    if precisions is not None and device.precision not in precisions:
        return f"precision={device.precision}: {who} trains in {', '.join(precisions)}"
    if device.precision == "tf32" and device.kind != "gpu":
        return "precision=tf32 is arithmetic of GPUs: on processors take fp32"
    return None


def check_precision(who: str, module: ImplementationModule, device: Device) -> None:
    """Raise UserError where the module, which is `who`'s, says that it does not train in the device's precision."""
    if problem := untrained(who, device, getattr(module, "PRECISIONS", None)):
        raise UserError(problem)


def unshared(workers: int, most: int, of: str) -> str | None:
    """Why so many workers cannot train together where a step has `most` parts `of` something; None where they can."""
    if workers <= most:
        return None
    return f"{workers} workers cannot share the {most} {of} of a step: take {most} workers at most, or a larger batch"


def unseen(framework: str, mend: str) -> UserError:
    """The error of a framework that is to train on an accelerator and sees none.

    Each implementation must ask: TensorFlow would train on the processors and say nothing.
    """
    return UserError(
        f"{framework} sees no accelerator on this machine: {mend}; python -m suite.doctor names the driver, and the "
        "newest CUDA or the ROCm that it supports"
    )


@dataclass(frozen=True)
class TrainStats:
    """`samples` seen since the start of the run, and the mean `loss` over the last step (None if not known).

    Where the benchmark has a `global_batch_size` each step counts so many; one whose steps differ has none.
    """

    samples: int
    loss: float | None


class Implementation(Protocol):
    """A model in training. Made by a module's `build(hyperparameters, data, seed, device)`, which also warms it up.

    `build` is untimed, so it reads, normalises, moves and caches no array of a split. `train_until` and `predict` do so
    at their first call, and keep on the device what they made.

    Of several workers each has one, and all are called alike. A step is of the same samples as with one worker, shared
    out; then all have the same state, which `state_dict` gives whole.
    """

    def train_until(self, samples: int) -> TrainStats:
        """Take whole steps until at least `samples` samples have been seen in all (at least one step)."""
        ...

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """One JSON value for each example of the `test_*` arrays, which `data` holds and nothing else, in order.

        Of several workers each predicts a share; the shares follow one another by rank.
        """
        ...

    def state_dict(self) -> dict[str, np.ndarray]:
        """Everything that is needed to go on from here: parameters, optimizer state, counters."""
        ...

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a `state_dict()`, of this or of another process."""
        ...


class ImplementationModule(Protocol):
    """A module `reference_impls.<task>.<framework>`, or one of your own, `implementation=PATH`.

    `ACCELERATORS`: how many workers can train together, at most, one for each accelerator. `PRECISIONS`, which may be
    left out: the numeric formats of conf/formats.yaml that it trains in. `SHARED_BY`, which may be left out: names of
    hyperparameters, of which one, where a recipe has it, is how many samples of a step stay on one worker; else each
    is alone. `OWN_DRAWS`, False where left out: whether order and augmentation are drawn by random numbers of its own.
    A plain number, tuples of plain texts, and True or False, for they are read without an import.
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

    Raises UserError that names the frameworks in which the task is written.
    """
    spec = find_spec(_module(task, framework))
    assert spec
    assert spec.origin
    return Path(spec.origin)


def load_implementation(task: str, framework: Framework) -> ImplementationModule:
    """The reference implementation of `task`.

    Raises UserError that names the frameworks it is written in, or the packages of task and framework that are missing;
    BrokenContract if it lacks a part.
    """
    name = _module(task, framework)
    packages.require(task, framework)
    quiet.without_accelerator()
    lean.load(framework)
    return held_to_contract(packages.imported(name, task, framework))


def held_to_contract(module: Any) -> ImplementationModule:
    """The module. Raises BrokenContract if it lacks a part."""
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
    if not is_there(f"reference_impls.{task}"):
        return []
    return [name for name in config.names("framework") if find_spec(f"reference_impls.{task}.{name}")]


def compared(task: str, framework: str) -> str:
    """The framework of the reference that code in `framework` is held to: the same, else the first installed."""
    written = frameworks(task)
    if framework in written:
        return framework
    return next((name for name in written if not packages.missing(task, config.framework(name))), written[0])


def _module(task: str, framework: Framework) -> str:
    written = frameworks(task)
    if not written:
        raise BrokenContract(f"reference_impls/{task}/ holds no module of a framework", ImplementationModule)
    if framework.name not in written:
        raise unknown(f"framework for {task}", framework.name, written)
    return f"reference_impls.{task}.{framework.name}"
