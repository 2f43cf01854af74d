"""What is measured: a workload under its conditions, which can be built as often as a level needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from mlperf_logging.mllog.constants import GLOBAL_BATCH_SIZE

from suite import config
from suite.config.models import Benchmark, System
from suite.errors import UserError
from suite.harness import contract
from suite.harness.contestant import OwnImplementation, trainer
from suite.harness.implementation import Device, ImplementationModule, check_precision, load_implementation
from suite.harness.memory import let_go
from suite.probe import instruments
from suite.probe.record import DEFAULT_BATCH, Conditions
from suite.probe.synthetic import synthetic
from suite.probe.tracing import Tracked, Watched, uncounted
from suite.probe.workload import Inference, Training, Workload
from suite.record.states import State
from suite.store.arrays import prepared
from suite.store.modules import Sizing, load_sizing
from suite.store.task import Arrays, Task, for_run, load_task

SEED = 1  # of every workload, so that repeats do the same
COUNTED_STEPS = 2  # whose operations are counted
LIKE_A_RUN = 0.1  # how far off those may be from a run's mean
MODEL_PRECISIONS = ("fp32", "bf16", "fp16")


class Inside(NamedTuple):
    """A task's implementation `made`, all arrays of its benchmark, and what tells whether it learnt enough."""

    made: contract.Checked
    data: Arrays
    benchmark: Benchmark
    task: Task


@dataclass(frozen=True)
class Subject:
    """A workload that can be built as often as a level needs. `seconds` is how long a repeat of it should last.

    `own` is the code of a task's workload, None for the reference's. `trace` is the file to write at a level that
    writes a trace. `state` is loaded into a task's implementation when it is built; None leaves what its seed gives.
    `precision_of` names the system that gave the precision, None if it was asked for.
    """

    conditions: Conditions
    system: System
    seconds: float
    data_dir: str | None = None
    own: OwnImplementation | None = None
    trace: Path | None = None
    state: State | None = None
    precision_of: str | None = None

    @property
    def device(self) -> Device:
        """What it runs on."""
        return Device(self.system.device_kind, self.conditions.precision, memory_gb=self.system.memory_gb)

    @property
    def instruments(self) -> instruments.Instruments:
        """The instruments of its framework. Raises UserError if it has none."""
        return instruments.load(self.conditions.framework)

    def build(self) -> Workload:
        """Build the workload and run it a first time. Raises UserError for conditions that it cannot have."""
        let_go(self.system.device_kind)
        conditions = self.conditions
        if conditions.model:
            check_model_precision(conditions.precision)
            if conditions.data == "real":
                raise UserError("data=real: a model= has synthetic pictures alone")
            return self.instruments.model(conditions, self.device, SEED)
        inside = self.inside()
        return Training(inside.made, inside.benchmark) if conditions.mode == "train" else Inference(*inside[:2])

    def inside(self, seed: int = SEED) -> Inside:
        """Build a task's implementation anew, with its data and benchmark. Raises UserError for a model."""
        let_go(self.system.device_kind)
        conditions = self.conditions
        if conditions.task is None:
            raise UserError("model= has no data and no quality of its own: give task=")
        module = self.module(conditions.task)
        benchmark, task = self.benchmark(), load_task(conditions.task)
        check_precision(trainer(self.own, conditions.framework), module, self.device, self.precision_of)
        data = for_run(benchmark, task, prepared(benchmark, task, self.data_dir), seed)
        if conditions.size is not None:
            arrays, hyperparameters = self.sizing(benchmark).sized(conditions.size, data)
            data, benchmark = {**data, **arrays}, _changed(benchmark, hyperparameters)
        if conditions.data == "synthetic":
            if conditions.mode == "infer":
                raise UserError("data=synthetic stands for training data: mode=infer predicts the evaluation split")
            data = synthetic(data, benchmark.name)
        made = contract.build(module, benchmark, data, seed, self.device)
        if self.state is not None:
            made.load_state_dict(self.state)
        return Inside(made, data, benchmark, task)

    def module(self, task: str) -> ImplementationModule:
        """The code of a task's workload. Raises UserError where it cannot be loaded."""
        if self.own:
            return self.own.load(task)
        return load_implementation(task, config.framework(self.conditions.framework))

    def watched(self) -> Watched:
        """The workload, built to be watched."""
        return self.instruments.watch(self.build, self.device)

    def memory(self) -> Tracked:
        """The workload, built so that its memory can be tracked."""
        return self.instruments.memory(self.build, self.device)

    def batch(self) -> int | None:
        """Samples per step; None if they cannot be chosen."""
        if self.conditions.model or self.conditions.batch:
            return self.conditions.batch or DEFAULT_BATCH
        own = self.benchmark().hyperparameters.get(GLOBAL_BATCH_SIZE)
        return own if self.conditions.mode == "train" and isinstance(own, int) else None

    def changed(self, **conditions: Any) -> Subject:
        """The same subject under other conditions."""
        return replace(self, conditions=self.conditions.model_copy(update=conditions))

    @contextmanager
    def first_steps(self) -> Iterator[Callable[[], None]]:
        """Context with a function that takes the first COUNTED_STEPS of the workload, which is built to be counted."""
        with self.instruments.apart():
            workload = self.build()
            workload.ready(COUNTED_STEPS)
            yield lambda: workload.run(COUNTED_STEPS)

    def flops(self) -> float:
        """Floating-point operations of a step, the mean of the first COUNTED_STEPS, as its framework counts them.

        Raises UserError where it cannot count.
        """
        with self.first_steps() as steps:
            counts = self.instruments.flops(steps)
        if why := uncounted(counts):
            raise UserError(why)
        return sum(filter(None, counts.values())) / COUNTED_STEPS

    def unlike_a_run(self, flops: float, samples: int) -> str | None:
        """Say how far the operations of the first steps are from a run's; None if they are near, or not known."""
        conditions = self.conditions
        if self.own or not conditions.task or conditions.mode == "infer" or conditions.size is not None:
            return None
        declared, found = self.benchmark().train_flops_per_sample, flops / samples
        if declared is None or abs(found / declared - 1) <= LIKE_A_RUN:
            return None
        return (
            f"counted are the first {COUNTED_STEPS} steps, of {found / 1e6:.4g} MFLOP a sample; "
            f"a run's have {declared / 1e6:.4g} on average"
        )

    def uneven_steps(self) -> str | None:
        """How the benchmark's training steps differ along a run; None if they do not, or if this is no training."""
        trains = self.conditions.task is not None and self.conditions.mode == "train"
        return self.benchmark().uneven_steps if trains else None

    def benchmark(self) -> Benchmark:
        """The benchmark, with the requested batch. Raises UserError for a batch or size that it cannot have."""
        conditions = self.conditions
        found = config.benchmark(str(conditions.task), str(conditions.scale))
        if conditions.size is not None:
            self.sizing(found)
        if conditions.batch is None:
            return found
        if conditions.mode == "infer":
            raise UserError(
                f"batch={conditions.batch}: inference of {found.name} is its evaluation, in batches of its own; "
                "batch= is for mode=train or model="
            )
        if GLOBAL_BATCH_SIZE not in found.hyperparameters:
            raise UserError(f"batch={conditions.batch}: {found.name} has no hyperparameter {GLOBAL_BATCH_SIZE}")
        every = max(conditions.batch, found.evaluation.every)
        evaluation = found.evaluation.model_dump() | {"every": every}
        return _changed(found, {GLOBAL_BATCH_SIZE: conditions.batch}, evaluation=evaluation)

    def sizing(self, benchmark: Benchmark) -> Sizing:
        """What sets the lengths of the benchmark's sequences. Raises UserError if its data fixes its size."""
        if found := load_sizing(benchmark.task):
            return found
        raise UserError(
            f"size={self.conditions.size}: {benchmark.name} has the size of its data, and no "
            f"tasks/{benchmark.task}/sizes.py sets another; size= is for model= and for tasks of sequences"
        )


def check_model_precision(precision: str) -> None:
    """Raise UserError for a precision in which models of libraries are not measured."""
    if precision not in MODEL_PRECISIONS:
        raise UserError(f"precision={precision}: model= is looked at in {', '.join(MODEL_PRECISIONS)}")


def _changed(benchmark: Benchmark, hyperparameters: Mapping[str, Any], **others: Any) -> Benchmark:
    """The benchmark with other hyperparameters, and with other values of the fields in `others`."""
    hyper = {**benchmark.hyperparameters, **hyperparameters}
    return config.checked(Benchmark, benchmark.model_dump() | {"hyperparameters": hyper} | others, benchmark.name)
