"""The trials of an implementation against the reference, in a few steps on the CPU or on the device it is to run on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlperf_logging.mllog.constants import GLOBAL_BATCH_SIZE

from suite.check.equivalence import draws
from suite.check.equivalence.states import amplified, at_later_steps, is_float, nudged, shaken
from suite.check.equivalence.trainee import found, train
from suite.check.equivalence.ways import distances, ways, worst
from suite.check.training import SEED, copied, dropout_off, form_of
from suite.config.bounds import Bounds, bounds, unmeasured
from suite.config.models import Benchmark
from suite.harness import contract
from suite.harness.implementation import Device, Implementation, ImplementationModule
from suite.record.equivalence import Comparison, Trial
from suite.record.predictions import differing
from suite.record.states import State
from suite.rules.equivalence import WIDEST
from suite.rules.plausible import CPU_PEAK, SAVED

TRAINED = 6  # steps of the reference to the state that most trials begin from
STEPS = 3
NUDGES = 4  # states to step from: if rounding can switch a unit on or off, some of them do

Builder = Callable[[Benchmark, Device], Implementation]  # of a benchmark whose hyperparameters may be changed


@dataclass(frozen=True)
class Subject:
    """The `candidate` to compare with the `reference`, on all arrays `data` of a benchmark.

    Both train on a device of `kind`, on a machine with `cpus` logical CPUs. With `own_draws`, the candidate draws
    samples and augmentations from its own random numbers.
    """

    benchmark: Benchmark
    reference: Builder
    candidate: Builder
    data: Mapping[str, np.ndarray]
    kind: str
    cpus: int
    own_draws: bool = False

    def pair(self, precision: str, **changes: Any) -> tuple[Implementation, Implementation]:
        """Build the reference and the candidate, with some hyperparameters changed."""
        hyperparameters = {**self.benchmark.hyperparameters, **changes}
        benchmark = self.benchmark.model_copy(update={"hyperparameters": hyperparameters})
        device = Device(self.kind, precision)
        return self.reference(benchmark, device), self.candidate(benchmark, device)


def here(module: ImplementationModule, data: Mapping[str, np.ndarray]) -> Builder:
    """A builder of the module's implementation in this process."""
    return lambda benchmark, device: contract.build(module, benchmark, data, SEED, device)


def equivalence(subject: Subject, precisions: Sequence[str]) -> Comparison:
    """Run every trial in each of the numeric formats. A format without measured bounds is reported, not tried."""
    trials: list[Trial] = []
    for each in dict.fromkeys(precisions):
        within = bounds(each)
        trials += _in(subject, each, within) if within else [found("all", each, None, None, remark=unmeasured(each))]
    return Comparison(benchmark=subject.benchmark.name, own_draws=subject.own_draws, trials=tuple(trials))


def _in(subject: Subject, precision: str, within: Bounds) -> Iterator[Trial]:
    hyperparameters = subject.benchmark.hyperparameters
    calm = dropout_off(hyperparameters)
    ours, theirs = subject.pair(precision, **calm)
    initial = copied(ours.state_dict())
    form = _form(precision, initial, theirs.state_dict())
    yield form
    if not form.holds:
        return
    yield _start(precision, initial, theirs.state_dict(), subject.own_draws)
    state = train(ours, initial, TRAINED).state
    begins = (("trained", state), ("shaken", shaken(state)))
    larger, moments = amplified(hyperparameters), at_later_steps(state, train(ours, state, 1).state, draws.DRAWS)
    if subject.own_draws:
        yield from draws.of_steps(precision, (ours, theirs), moments)
        if larger:
            pair = subject.pair(precision, **calm, **larger)
            for trial in draws.of_steps(precision, pair, moments):
                yield trial.model_copy(update={"trial": f"with {_named(larger)}, {trial.trial}"})
    else:
        # Where training makes its own data, a step decides what the next one sees, and rounding can change an episode
        steps = STEPS if subject.benchmark.dataset.train_samples else 1
        yield from _steps(f"the initial state's steps, {steps}", precision, within, ours, theirs, initial, steps)
        for name, begin in begins:
            yield from _steps(f"a step from the {name} state", precision, within, ours, theirs, begin, 1)
        if larger:
            yield from _steps(
                f"a step with {_named(larger)}", precision, within, *subject.pair(precision, **calm, **larger), state, 1
            )
    wet = subject.pair(precision) if calm else (ours, theirs)
    for name, begin in begins:  # with dropout, which an evaluation has to leave out
        yield _predictions(f"predictions of the {name} state", precision, within, *wet, begin, subject.data)
    yield from _seconds(subject, precision, wet[1], state)
    if calm:
        yield draws.of_dropout(precision, (ours, theirs), wet, moments)


def _named(hyperparameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in hyperparameters.items())


def _form(precision: str, ours: State, theirs: State) -> Trial:
    """Compare the names, shapes and dtypes of the state's arrays, and so the number of parameters."""
    names = sorted(ours.keys() | theirs.keys())
    strays = [name for name in names if form_of(ours.get(name)) != form_of(theirs.get(name))]
    sizes = [sum(array.size for array in state.values() if is_float(array)) for state in (ours, theirs)]
    remark = f"{sizes[1]:,} numbers, {sizes[0]:,} in the reference"
    where = strays[0] if strays else ""
    if where:
        remark = f"{form_of(theirs.get(where))}, {form_of(ours.get(where))} in the reference; {remark}"
    return found("arrays of another name or form", precision, len(strays), 0, where, remark)


def _start(precision: str, ours: State, theirs: State, own_draws: bool) -> Trial:
    """Compare the states of a seed: floats up to rounding, the rest exactly, or only its scalars if `own_draws`."""
    apart = {}
    for name, array in ours.items():
        if is_float(array):
            apart[name] = float(np.abs(array - theirs[name]).max())
        elif not (own_draws and array.ndim):
            apart[name] = float(not np.array_equal(array, theirs[name]))
    name = [*apart][int(np.argmax([*apart.values()]))]  # argmax takes nan for the largest
    return found("the initial state", precision, apart[name], 1e-6, name)


def _predictions(
    trial: str,
    precision: str,
    within: Bounds,
    ours: Implementation,
    theirs: Implementation,
    state: State,
    data: Mapping[str, np.ndarray],
) -> Trial:
    """Compare the predictions: as many may differ as a nudge of the state changes, or as the bounds allow."""

    def predicted(made: Implementation, of: State) -> Sequence[Any]:
        made.load_state_dict(copied(of))
        return made.predict(data)

    one, other, rounded = predicted(ours, state), predicted(theirs, state), predicted(ours, nudged(state, within.nudge))
    spread = differing(one, rounded, within.close) if len(one) == len(other) else 0.0
    bound = max(within.predictions, spread)
    if bound > within.hopeless:
        return found(trial, precision, None, None, remark=f"a nudge changes {spread:.0%} of them")
    remark = f"of {len(one):,}, {len(other):,} given"
    return found(trial, precision, differing(one, other, within.close), bound, "", remark)


def _steps(
    trial: str, precision: str, within: Bounds, ours: Implementation, theirs: Implementation, state: State, steps: int
) -> Iterator[Trial]:
    """Compare some steps from a state: their counters, their loss, and the way of each array."""
    one, other = train(ours, state, steps), train(theirs, state, steps)
    moved = [nudged(state, within.nudge, number) for number in range(NUDGES)]
    rounded = [train(ours, each, steps) for each in moved]
    counters = [n for n, a in one.state.items() if not is_float(a) and not np.array_equal(a, other.state[n])]
    miscounted = len(counters) + (one.samples != other.samples)
    if miscounted:
        remark = f"{other.samples:,} samples, {one.samples:,} in the reference"
        yield found(f"{trial}: counters", precision, miscounted, 0, ", ".join(counters), remark)
    if one.loss is not None and other.loss is not None and math.isfinite(one.loss):
        size = max(abs(one.loss), 1e-12)
        spreads = [abs(each.loss - one.loss) / size for each in rounded if each.loss is not None]
        bound = max([within.loss, *(within.slack * each for each in spreads)])
        if bound > WIDEST:
            yield found(f"{trial}: loss", precision, None, None, remark=f"a nudge moves it by {max(spreads):.0%}")
        else:
            yield found(f"{trial}: loss", precision, abs(other.loss - one.loss) / size, bound)
    way = ways(state, one.state)
    apart = distances(state, way, ways(state, other.state))
    by_nudge = [distances(state, way, ways(before, each.state)) for before, each in zip(moved, rounded, strict=True)]
    spread = {name: max(each[name] for each in by_nudge) for name in apart}
    farthest = worst(apart, spread, within.distance, within.slack, within.hopeless)
    if farthest is None:
        yield found(trial, precision, None, None, remark="a nudge sends every array anywhere")
        return
    remark = f"{farthest.judged} of {len(apart)} arrays judged"
    yield found(trial, precision, farthest.distance, farthest.bound, farthest.name, remark)


def _seconds(subject: Subject, precision: str, made: Implementation, state: State) -> Iterator[Trial]:
    """Compare the least time that the processors need for a sample with its time, in training and in prediction.

    A prediction takes at least one forward pass, a third of the operations of a training step.
    """
    benchmark = subject.benchmark
    flops, size = benchmark.train_flops_per_sample, benchmark.hyperparameters.get(GLOBAL_BATCH_SIZE)
    if subject.kind != "cpu" or not flops or not size:
        remark = "how fast its device may be is not known"
        if subject.kind == "cpu":
            remark = f"how many operations a sample of {benchmark.name} takes is not known"
        yield found("the least time of a sample over its time", precision, None, None, remark=remark)
        return
    steps = train(made, state, STEPS).seconds
    began = time.perf_counter()
    made.predict(subject.data)
    predicting = time.perf_counter() - began
    for what, seconds, count, needed in (
        ("training", steps, STEPS * size, flops),
        ("evaluation", predicting, benchmark.dataset.eval_samples, flops / 3),
    ):
        trial = f"the least time of a sample in {what} over its time"
        least = count * needed / (SAVED * CPU_PEAK * subject.cpus)
        yield found(trial, precision, least / seconds, 1.0, remark=f"{count:,} in {seconds:.3g} s")
