"""How long the parts of a run take: measured by a probe at level=clock, or estimated from bricks or peak rates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from mlperf_logging.mllog.constants import GLOBAL_BATCH_SIZE

from suite.config.models import Benchmark, System
from suite.errors import UserError, printable
from suite.measure.machine import Machine
from suite.measure.systems import power_ceiling
from suite.probe.levels.clock import AT, EVALUATION, REPEAT, STEP
from suite.probe.record import Cell

LEVEL = "clock"
UTILISATION = 0.01, 0.7  # of a peak rate, where an accelerator computes: small models to large ones (docs/forecast.md)
HOST_STEP_S = 1e-4, 1e-2  # what the host takes to launch a step: one captured graph, or each kernel (docs/forecast.md)
HOST_EVALUATION_S = 1e-2, 1.0  # and to score an evaluation
OF_PROBE = 0.76, 1.27  # of a probe's times, that a run takes: nine of ten took 0.78 to 1.24 (docs/forecast.md)
OF_BRICKS = 0.75, 1.4  # of the bricks' times, that a step or an evaluation takes: see there
EACH = 501  # number of values of each rate
FP32_BYTES = 4
MOST = 1e12  # the largest value of a probe's figure, in its own unit
GRID = 1000  # parts of a run, within which steps are taken as alike
FORWARD = 1 / 3  # of a training sample's operations: the backward pass takes two for each of the forward pass
ESTIMATE = "estimate from peak rates"
ASSUMED_EVALUATION = "assumed: an evaluation is one forward pass of its split, and {:g} to {:g} s of scoring".format(
    *HOST_EVALUATION_S
)


@dataclass(frozen=True)
class Along:
    """How steps vary along a run: the `seconds` of one at each of the ascending places `at`, in samples."""

    at: np.ndarray
    seconds: np.ndarray

    def until(self, samples: np.ndarray) -> np.ndarray:
        """The mean step of runs that end after `samples`, relative to the mean of `seconds`; linear between places."""
        places = np.linspace(0, samples.max(), GRID + 1)
        middles = (places[1:] + places[:-1]) / 2
        means = np.cumsum(np.interp(middles, self.at, self.seconds)) / np.arange(1, GRID + 1)
        return np.asarray(np.interp(samples, places[1:], means) / self.seconds.mean())


@dataclass(frozen=True)
class Rates:
    """Seconds of the parts of a run, as arrays of equally likely values of one length, and how they are known.

    A `step` has `samples` samples; the share `data` of its time (0 to 1, None if not known) is input. If steps differ
    along a run, `step` is their mean and `along` tells how they vary; `along` is None if they do not differ or that is
    not known. `watts` is the power of a whole node and `weights` are bytes, None if not known. `communication` is that
    of an exchange of gradients. Several workers do not share the part `host` of a step and the part `scoring` of an
    evaluation, as far as these are known.
    """

    samples: int
    step: np.ndarray
    evaluation: np.ndarray
    start: float
    watts: float | None
    data: float | None
    weights: float | None
    source: str
    measured: bool
    communication: float = 0.0
    notes: tuple[str, ...] = ()
    along: Along | None = None
    host: np.ndarray | float = 0.0
    scoring: np.ndarray | float = 0.0

    def shared(self, parts: int, communication: float) -> Rates:
        """The rates of workers that share each step and evaluation in `parts`, except for `host` and `scoring`."""
        step = self.host + (self.step - self.host) / parts
        evaluation = self.scoring + (self.evaluation - self.scoring) / parts
        return replace(self, step=step, evaluation=evaluation, communication=communication)

    def steps_until(self, samples: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Seconds of the mean step of runs that end after `samples`; `which` has the index of each run's `step`."""
        mean: np.ndarray = self.step[which]
        return mean * self.along.until(samples) if self.along else mean


def measured(cell: Cell, source: str, benchmark: Benchmark) -> Rates:
    """The rates of a benchmark in a probe's cell of level=clock. Raises UserError if it lacks one.

    Evaluations are those of the later half of the repeats, of a model that has learnt a little. If steps differ along a
    run and were seen along it, the evaluation of a repeat tells the machine's pace at that repeat. A run's pace may
    differ from that of the whole probe.
    """
    if cell.error:
        raise UserError(f"{source}: {cell.conditions.name} was not measured: {cell.error}")
    repeats: dict[float, list[tuple[float, float, float]]] = {}
    for row in cell.rows:
        repeat, step, evaluation, at = (
            _positive(row.values.get(name), source) for name in (REPEAT, STEP, EVALUATION, AT)
        )
        repeats.setdefault(repeat, []).append((step / 1e3, evaluation / 1e3, at))
    samples = _positive(_figure(cell, "samples/step", source), source)
    if not repeats:
        raise UserError(f"{source} holds no repeat of level={LEVEL}")
    steps, evaluations, at = np.transpose([np.mean(each, axis=0) for each in repeats.values()])
    places, caution = along(benchmark, at, steps)
    if places:
        steps = steps.mean() * evaluations / evaluations.mean()
    else:
        evaluations = np.resize(evaluations[len(evaluations) // 2 :], len(evaluations))
    pace = np.random.default_rng(0).permutation(np.geomspace(*OF_PROBE, EACH))
    start, data, weights, watts = (_figure(cell, name, source) for name in ("start", "data phase", "weights", "power"))
    return Rates(
        samples=max(round(samples), 1),
        step=pace * np.resize(steps, EACH),
        evaluation=pace * np.resize(evaluations, EACH),
        start=(start or 0.0) / 1e3,
        watts=watts,
        data=None if data is None else min(data / 100, 1.0),
        weights=_declared(benchmark) or (None if weights is None else weights * 1e6),
        source=printable(source),
        measured=True,
        notes=(
            *caution,
            "assumed: a run takes {:g} to {:g} times what the probe saw".format(*OF_PROBE),
            *map(printable, cell.notes),
        ),
        along=places,
    )


def along(benchmark: Benchmark, at: np.ndarray, seconds: np.ndarray) -> tuple[Along | None, tuple[str, ...]]:
    """How steps vary along a run, if they differ and were seen along it; if they were not, a note that says so."""
    if benchmark.uneven_steps is None:
        return None, ()
    if not len(at) or at.max() < benchmark.budget_samples / 2:
        return None, (f"CAUTION: seen were the first steps alone, and later ones differ: {benchmark.uneven_steps}",)
    order = np.argsort(at)
    return Along(at[order], seconds[order]), ()


def from_peaks(
    benchmark: Benchmark,
    system: System,
    machine: Machine,
    precision: str,
    flops: float | None = None,
    utilisation: tuple[float, float] = UTILISATION,
) -> Rates:
    """Estimate the rates of a system from the peak rate of its accelerators, of which the share `utilisation` is used.

    `flops` are the operations of a training sample, if they are not declared. Raises UserError if the operations or the
    peak rate are not known.
    """
    flops = flops or benchmark.train_flops_per_sample
    peak = system.peak_flops(precision)
    if peak is None:
        raise UserError(f"hw={system.name} has no peak rate in {precision}: give from=, a probe at level={LEVEL} on it")
    if flops is None:
        raise UserError(f"the operations of a sample are not declared; python -m suite.forecast task={benchmark.task}")
    batch = benchmark.hyperparameters.get(GLOBAL_BATCH_SIZE, 1)
    rng = np.random.default_rng(0)
    used, host, scoring = (
        rng.permutation(np.geomspace(*each, EACH)) for each in (utilisation, HOST_STEP_S, HOST_EVALUATION_S)
    )
    seconds = flops / (peak * used)
    evaluation = _assumed_evaluation(benchmark, seconds, scoring)
    made = _estimated(benchmark, system, machine, batch, batch * seconds + host, evaluation, ESTIMATE)
    notes = (*_assumed(precision, peak / 1e12, utilisation), ASSUMED_EVALUATION, *made.notes)
    return replace(made, notes=notes, host=host, scoring=scoring)


def composed(
    benchmark: Benchmark,
    samples: int,
    step: float,
    host: float,
    evaluation: tuple[float, float | None] | None,
    source: str,
    system: System,
    machine: Machine,
) -> Rates:
    """Estimate the rates from bricks: a training step of `samples` takes `step` s, of which `host` lie between them.

    `evaluation` has the seconds of an evaluation and, of these, of its scoring; what is None is assumed.
    """
    rng = np.random.default_rng(0)
    times, scoring = (rng.permutation(np.geomspace(*each, EACH)) for each in (OF_BRICKS, HOST_EVALUATION_S))
    assumed = ["assumed: a step and an evaluation take {:g} to {:g} times what bricks tell".format(*OF_BRICKS)]
    if evaluation is None:
        taken = _assumed_evaluation(benchmark, times * step / samples, scoring)
        assumed.append(ASSUMED_EVALUATION)
    else:
        seconds, known = evaluation
        pace = rng.permutation(times)
        if known is None:
            taken = seconds * pace + scoring
            assumed.append("assumed: {:g} to {:g} s of scoring an evaluation".format(*HOST_EVALUATION_S))
        else:
            taken, scoring = seconds * pace, known * pace
    made = _estimated(benchmark, system, machine, samples, times * step, taken, printable(source))
    return replace(made, notes=(*assumed, *made.notes), host=times * host, scoring=scoring)


def _declared(benchmark: Benchmark) -> float | None:
    """Bytes of the gradients of the parameters that a benchmark declares."""
    return None if benchmark.parameters is None else float(FP32_BYTES * benchmark.parameters)


def _assumed_evaluation(benchmark: Benchmark, seconds: np.ndarray, scoring: np.ndarray) -> np.ndarray:
    """Seconds of an evaluation, given the `seconds` of a training sample."""
    return np.asarray(benchmark.dataset.eval_samples * FORWARD * seconds + scoring)


def _estimated(
    benchmark: Benchmark,
    system: System,
    machine: Machine,
    samples: int,
    step: np.ndarray,
    evaluation: np.ndarray,
    source: str,
) -> Rates:
    return Rates(
        samples=samples,
        step=step,
        evaluation=evaluation,
        start=0.0,
        watts=power_ceiling(system, machine),
        data=None,
        weights=_declared(benchmark),
        source=source,
        measured=False,
        notes=("start and input are not counted", "power is the most that the system draws"),
    )


def _assumed(precision: str, tflops: float, utilisation: tuple[float, float]) -> Iterator[str]:
    low, high = (f"{100 * each:g}" for each in utilisation)
    yield f"assumed: {low} to {high} % of {tflops:g} TFLOP/s in {precision} are used"
    yield "assumed: the host takes {:g} to {:g} ms beside each step".format(*(1e3 * each for each in HOST_STEP_S))


def _figure(cell: Cell, name: str, source: str) -> float | None:
    value = cell.figures[name].value if name in cell.figures else None
    if value is not None and not 0 <= value < MOST:
        raise UserError(f"{source} is no probe of level={LEVEL}: its {name} is {value:g}")
    return value


def _positive(value: object, source: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < MOST:
        raise UserError(f"{source} is no probe of level={LEVEL}: it lacks what a step or an evaluation takes")
    return float(value)
