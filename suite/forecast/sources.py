"""Find the rates of a system: from a kept measurement, a probe made here and now, or peak rates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mlperf_logging.mllog.constants import GLOBAL_BATCH_SIZE

from suite import config
from suite.config.models import Benchmark, System
from suite.errors import UserError
from suite.forecast import rates, roughly
from suite.forecast.measurement import Measurement
from suite.forecast.rates import Rates
from suite.forecast.workers import communication
from suite.harness.declared import by_reference
from suite.harness.implementation import unshared
from suite.measure import systems
from suite.measure.machine import Machine
from suite.probe.levels import clock
from suite.probe.record import Cell, Conditions
from suite.probe.subject import Subject
from suite.probe.sweeping import sweep

REPEATS, SECONDS = 8, 3.0  # of a probe made here: about a minute with its evaluations
LONGEST_STEP_S = 10.0  # of processors that are probed as one of several systems


@dataclass(frozen=True)
class Asked:
    """What a forecast is asked of. `batch` is the benchmark's own if None; `kept` is what lies at from=.

    `say` is told the progress; `alone` is whether no other system is asked for.
    """

    benchmark: Benchmark
    framework: str
    batch: int | None
    kept: Measurement | None
    data_dir: str | None
    say: Callable[[str], None]
    alone: bool

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Those of the run: the benchmark's, with the batch that is asked for."""
        batch = {} if self.batch is None else {GLOBAL_BATCH_SIZE: self.batch}
        return {**self.benchmark.hyperparameters, **batch}

    @property
    def counted(self) -> tuple[float, float]:
        """Operations of a training sample, counted on this machine's processors, and bytes of the weights.

        Raises UserError if they cannot be counted, for example without the data.
        """
        if isinstance(self._counted, UserError):
            raise self._counted
        return self._counted

    @cached_property
    def _counted(self) -> tuple[float, float] | UserError:
        """The counts, or why there are none; cached, because counting would take as long for the next system."""
        self.say(f"counting the operations of {self.benchmark.name}")
        cpu = config.system(systems.CPU)
        subject = Subject(_conditions(self, "fp32"), cpu, SECONDS, self.data_dir)
        try:
            weights = clock.weights(subject.inside().made.state_dict())
            return subject.flops() / subject.build().samples, float(weights)
        except UserError as error:
            return error


def found_for(asked: Asked, system: System, found: Machine) -> tuple[Rates, Machine]:
    """The rates of a run on the system, and one of its nodes.

    Raises UserError if nothing tells them, and for more workers than can share a step: no machine could make that run.
    """
    parts = by_reference(asked.benchmark.task, config.framework(asked.framework)).parts(asked.hyperparameters)
    if parts is not None and (problem := unshared(system.world_size, parts, "parts")):
        raise UserError(f"hw={system.name}: {problem}")
    communication(system, 0.0)  # an unknown link is refused before anything is measured
    node = found
    if asked.kept and like(probed := asked.kept.system(found), system):
        node = asked.kept.node(found)
        made = _of_nodes(asked.kept.rates(asked.benchmark, asked.framework, asked.batch, system, node), probed, system)
    elif here(system, found):
        if not asked.alone:
            _refuse_long_steps(asked, system)
        made = rates.measured(_probed(asked, system, found), "probe of this machine, made now", asked.benchmark)
    else:
        made = _from_peaks(asked, system, found)
    if made.weights is None and system.world_size > 1:
        made = replace(made, weights=asked.counted[1])
    # Workers on one node without accelerators share its processors.
    sharing = system.world_size if system.accelerator else system.nodes
    if system.accelerator is None and system.workers_per_node > 1:
        made = replace(made, notes=(*made.notes, "the workers of a node share its processors: they are no faster"))
    return made.shared(sharing, communication(system, made.weights)), node


def here(system: System, found: Machine) -> bool:
    """Whether a single worker of the system can be probed on this machine."""
    return systems.mismatch(system, found) is None and (system.accelerator is None or system.world_size == 1)


def like(measured: System, other: System) -> bool:
    """Whether measurements on one system hold for a worker of the other."""
    return (measured.accelerator, measured.peak_tflops) == (other.accelerator, other.peak_tflops)


def _of_nodes(made: Rates, probed: System, system: System) -> Rates:
    """The rates with the power of a node of `system`. A probe measures a whole node, but uses one accelerator."""
    if not made.measured or system.accelerator is None or made.watts is None:
        return made
    if probed.accelerators_per_node == 1:
        return replace(made, watts=made.watts * system.accelerators_per_node)
    count = probed.accelerators_per_node
    why = f"energy is not known: the probe's power is of {count} accelerators, of which it used one"
    return replace(made, watts=None, notes=(*made.notes, why))


def _refuse_long_steps(asked: Asked, system: System) -> None:
    """Raise UserError if a step on processors takes too long to probe them as one of several systems."""
    flops, own = asked.benchmark.train_flops_per_sample, asked.benchmark.hyperparameters.get(GLOBAL_BATCH_SIZE, 1)
    if system.accelerator or flops is None:
        return
    seconds = flops * (asked.batch or own) / roughly.product()
    if seconds > LONGEST_STEP_S:
        raise UserError(
            f"a step would take about {seconds:,.0f} s on these processors: give a smaller scale=, or hw={system.name} "
            "alone, which is probed all the same"
        )


def _probed(asked: Asked, system: System, found: Machine) -> Cell:
    single = system.model_copy(update={"nodes": 1, "workers": None})
    precision = systems.precision_of(single, found, asked.benchmark)
    given_by = None if asked.benchmark.precision else single.name
    subject = Subject(_conditions(asked, precision), single, SECONDS, asked.data_dir, precision_of=given_by)
    probe = sweep(rates.LEVEL, [subject], REPEATS, found, asked.say)
    (cell,) = probe.cells
    noisy = tuple(f"NOISY: {why}" for why in probe.noisy)
    return cell.model_copy(update={"notes": [*cell.notes, *noisy]})


def _conditions(asked: Asked, precision: str) -> Conditions:
    benchmark = asked.benchmark
    return Conditions(
        task=benchmark.task,
        scale=benchmark.scale,
        framework=asked.framework,
        mode="train",
        batch=asked.batch,
        precision=precision,
    )


def _from_peaks(asked: Asked, system: System, found: Machine) -> Rates:
    """Rates from peak rates; operations that are not declared are counted on this machine."""
    benchmark = asked.benchmark
    flops = benchmark.train_flops_per_sample or asked.counted[0]
    precision = systems.precision_of(system, found, benchmark)
    sized = benchmark.model_copy(update={"hyperparameters": asked.hyperparameters})
    return rates.from_peaks(sized, system, found, precision, flops)
