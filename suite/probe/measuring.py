"""Times and what they say: where the warm-up ends, means with intervals, jitter and drift."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median_low

import numpy as np

from suite.probe.record import Figure
from suite.probe.workload import Workload

LEAST_VALUES = 3  # for an interval; fewer leave no spread to speak of
RESAMPLES = 2000
MOST_WARM_UP_STEPS = 50
LEAST_WARM_UP_STEPS = 3
MOST_STEPS = 1000  # of a repeat


def timed(call: Callable[[], object]) -> float:
    """Seconds that `call` takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def step_times(workload: Workload, steps: int) -> list[float]:
    """Seconds of each of `steps` steps, waiting for each."""
    workload.ready(steps)
    return [timed(lambda: workload.run(1)) for _ in range(steps)]


def block(workload: Workload, steps: int) -> float:
    """Seconds of `steps` steps, waiting only for the last.

    One step goes before, off the clock: after another workload was built, TensorFlow prepares anew what it ran before.
    """
    workload.ready(steps + 1)
    workload.run(1)
    return timed(lambda: workload.run(steps))


def first_steps(workload: Workload, seconds: float) -> list[float]:
    """Seconds of each of the first steps, as many as `first_times` takes."""
    return first_times(lambda: step_times(workload, 1)[0], seconds)


def first_times(step: Callable[[], float], seconds: float) -> list[float]:
    """What `step` returns: LEAST_WARM_UP_STEPS at least, then until `seconds` or MOST_WARM_UP_STEPS are reached."""
    found: list[float] = []
    while len(found) < LEAST_WARM_UP_STEPS or (sum(found) < seconds and len(found) < MOST_WARM_UP_STEPS):
        found.append(step())
    return found


def end_of_warm_up(times: Sequence[float]) -> int:
    """How many of the first steps to leave out, so that the mean of the others has the least standard error.

    The marginal standard error rule (White 1997, Simulation 69); at most half are left out.
    """
    values = np.asarray(times)
    errors = [values[first:].var() / (len(values) - first) for first in range(len(values) // 2 + 1)]
    return int(np.argmin(errors))


def steps_for(seconds: float, times: Sequence[float]) -> int:
    """How many steps last about `seconds`, from 1 to MOST_STEPS, if steps of their kind took `times`."""
    return int(np.clip(round(seconds / float(np.median(times))), 1, MOST_STEPS))


def steps_after_warm_up(workload: Workload, warm_up: float, seconds: float) -> int:
    """How many steps last about `seconds`, by those after the warm-up, whose end is looked for in `warm_up` seconds."""
    first = first_steps(workload, warm_up)
    return steps_for(seconds, first[end_of_warm_up(first) :])


def interval(values: Sequence[float]) -> tuple[float, float] | tuple[None, None]:
    """The 95 % interval of the mean by Student's t, cut off at 0 if all values are above 0.

    None for fewer than LEAST_VALUES. A bootstrap of three to five values holds the mean only 75 to 83 times in 100.
    """
    error = standard_error(values)
    if len(values) < LEAST_VALUES or error is None:
        return None, None
    from scipy.special import stdtrit  # imported here since it takes a quarter of a second

    half, middle = float(stdtrit(len(values) - 1, 0.975)) * error, float(np.mean(values))
    return max(middle - half, 0.0) if min(values) > 0 else middle - half, middle + half


def mean(values: Sequence[float], unit: str) -> Figure:
    """The mean of repeats with its interval; unknown if there are none."""
    if not values:
        return Figure(value=None, unit=unit)
    low, high = interval(values)
    return Figure(value=float(np.mean(values)), unit=unit, low=low, high=high)


def median(values: Sequence[float], unit: str) -> Figure:
    """The lower median of repeats with its 95 % interval by the bootstrap (percentiles, fixed seed).

    Unknown if there are none; without an interval for fewer than LEAST_VALUES.
    """
    if not values:
        return Figure(value=None, unit=unit)
    made = Figure(value=median_low(values), unit=unit)
    if len(values) < LEAST_VALUES:
        return made
    from scipy.stats import bootstrap  # as above: a second

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy warns if all values are alike
        found = bootstrap(
            (values,),
            partial(np.quantile, q=0.5, method="lower"),
            n_resamples=RESAMPLES,
            method="percentile",
            rng=np.random.default_rng(0),
        ).confidence_interval
    return made.model_copy(update={"low": float(found.low), "high": float(found.high)})


def percentile(values: Sequence[float], at: int) -> float | None:
    """The percentile `at`; None if the values are too few for one of them to lie beyond it."""
    return float(np.percentile(values, at)) if len(values) * (100 - at) >= 100 else None


def standard_error(values: Sequence[float]) -> float | None:
    """The standard error of the mean; None for a single value."""
    return float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else None


def jitter(values: Sequence[float]) -> float | None:
    """1.4826 times the median absolute deviation, which outliers do not move (as tf_cnn_benchmarks has it).

    None for a single value.
    """
    if len(values) < 2:
        return None
    return 1.4826 * float(np.median(np.abs(np.asarray(values) - np.median(values))))


def drift(values: Sequence[float]) -> float | None:
    """The rise of the values from first to last, as a share of the median (Theil-Sen slope); None for fewer than 3."""
    if len(values) < LEAST_VALUES:
        return None
    from scipy.stats import theilslopes  # as above

    kept = np.linspace(0, len(values) - 1, min(len(values), MOST_STEPS)).round().astype(int)  # its memory is quadratic
    slope = theilslopes(np.asarray(values)[kept], kept).slope
    return float(slope * (len(values) - 1) / np.median(values))
