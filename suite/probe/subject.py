"""What is measured: a workload under its conditions, which can be built as often as a level needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from suite import config
from suite.config.models import Benchmark, System
from suite.errors import UserError
from suite.harness import contract
from suite.harness.implementation import Device, load_implementation
from suite.probe import instruments
from suite.probe.record import DEFAULT_BATCH, Conditions
from suite.probe.tracing import Tracked, Watched
from suite.probe.workload import Inference, Training, Workload
from suite.store.arrays import prepared
from suite.store.task import for_run, load_task

SEED = 1  # of every workload, so that repeats do the same
BATCH = "global_batch_size"


@dataclass(frozen=True)
class Subject:
    """A workload that can be built, as often as a level needs. `seconds` is how long a repeat of it is to last."""

    conditions: Conditions
    system: System
    seconds: float
    data_dir: str | None = None

    @property
    def device(self) -> Device:
        """What it runs on."""
        return Device(self.system.device_kind, self.conditions.precision)

    @property
    def instruments(self) -> instruments.Instruments:
        """Those of its framework. Raises UserError where it has none."""
        return instruments.load(self.conditions.framework)

    def build(self) -> Workload:
        """The workload, warmed up as its `build` does. Raises UserError for conditions that it cannot have."""
        conditions = self.conditions
        if conditions.model:
            return self.instruments.model(conditions, self.device, SEED)
        benchmark, task = self.benchmark(), load_task(str(conditions.task))
        framework = config.framework(conditions.framework)
        module = load_implementation(str(conditions.task), framework)
        data = for_run(benchmark, task, prepared(benchmark, task, self.data_dir), SEED)
        trained = contract.build(module, benchmark, data, SEED, self.device)
        return Training(trained, benchmark) if conditions.mode == "train" else Inference(trained, data)

    def watched(self) -> Watched:
        """The workload, built to be watched."""
        return self.instruments.watch(self.build, self.device)

    def memory(self) -> Tracked:
        """The workload, built so that its memory can be told."""
        return self.instruments.memory(self.build, self.device)

    def batch(self) -> int | None:
        """Samples a step, where they can be chosen."""
        if self.conditions.model or self.conditions.batch:
            return self.conditions.batch or DEFAULT_BATCH
        own = self.benchmark().hyperparameters.get(BATCH)
        return own if self.conditions.mode == "train" and isinstance(own, int) else None

    def of_batch(self, batch: int) -> Subject:
        """The same in another batch."""
        return replace(self, conditions=self.conditions.model_copy(update={"batch": batch}))

    def flops(self, steps: int) -> float:
        """Floating-point operations of a step, the mean of the first `steps`, as its framework counts them.

        Raises UserError where it cannot count.
        """
        with self.instruments.apart():
            workload = self.build()
            workload.ready(steps)
            return sum(self.instruments.flops(lambda: workload.run(steps)).values()) / steps

    def benchmark(self) -> Benchmark:
        """The benchmark, with the batch that is asked for."""
        conditions = self.conditions
        found = config.benchmark(str(conditions.task), str(conditions.scale))
        if conditions.size is not None:
            raise UserError(f"size={conditions.size}: {found.name} has the size of its data; size= is for model=")
        if conditions.batch is None:
            return found
        if conditions.mode == "infer":
            raise UserError(
                f"batch={conditions.batch}: inference of {found.name} is its evaluation, in batches of its own; "
                "batch= is for mode=train or model="
            )
        if BATCH not in found.hyperparameters:
            raise UserError(f"batch={conditions.batch}: {found.name} has no hyperparameter {BATCH}")
        values: dict[str, Any] = {**found.model_dump(), "hyperparameters": {**found.hyperparameters}}
        values["hyperparameters"][BATCH] = conditions.batch
        values["evaluation"]["every"] = max(conditions.batch, values["evaluation"]["every"])
        return config.checked(Benchmark, values, found.name)
