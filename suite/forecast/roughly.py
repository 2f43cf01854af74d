"""A one-line estimate without a probe, for `suite.run dry_run=true` and `suite.doctor`."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache

import numpy as np
from mlperf_logging.mllog.constants import GLOBAL_BATCH_SIZE

from suite import config
from suite.config.formats import formats
from suite.config.models import Benchmark, System
from suite.errors import UserError
from suite.forecast import rates, showing
from suite.forecast.model import forecast, samples_to_target
from suite.forecast.needed import needed
from suite.forecast.workers import communication
from suite.measure.machine import Machine

MATRIX = 1024  # rows and columns of a product's matrices
OF_PRODUCT = 0.1, 1.0  # of the product's rate, that processors reach in training


def line(of: Benchmark, system: System, found: Machine, precision: str, framework: str) -> str:
    """The forecast, or why there is none."""
    usual = config.benchmark(of.task, of.scale)
    chosen = {"hyperparameters": of.hyperparameters, "precision": of.precision}
    benchmark = usual.model_copy(update=chosen)  # with its declared operations
    fixed = usual.hyperparameters.keys() - usual.free.keys()
    if benchmark.model_dump() != of.model_dump() or any(
        of.hyperparameters.get(name) != usual.hyperparameters[name] for name in fixed
    ):
        return "none: the benchmark was changed, and the reference convergence points are not of it"
    try:
        runs = needed(benchmark, benchmark.hyperparameters.get(GLOBAL_BATCH_SIZE))
    except UserError as error:
        return f"none: {error}"
    try:
        return showing.brief(forecast(runs, _rates(benchmark, system, found, precision), system, found, framework))
    except UserError as error:
        mark = f" ({showing.PUBLISHED})" if runs.published else ""
        return f"{showing.samples(samples_to_target(runs))}{mark}; time not known without a probe: {error}"


def _rates(benchmark: Benchmark, system: System, found: Machine, precision: str) -> rates.Rates:
    """The rates from declared operations and peak rates; without accelerators, from a matrix product's rate here.

    Raises UserError if these are not known.
    """
    rate = formats()[precision].rate
    if system.accelerator or not rate:
        made = rates.from_peaks(benchmark, system, found, precision)
        return made.shared(system.world_size, communication(system, made.weights))
    measured = system.model_copy(update={"peak_tflops": {rate: product() / 1e12}})
    made = rates.from_peaks(benchmark, measured, found, precision, utilisation=OF_PRODUCT)
    of_product = replace(made, source="estimate from a matrix product")
    return of_product.shared(system.nodes, communication(system, made.weights))


@cache
def product() -> float:
    """FLOP/s of a float32 matrix product in NumPy, the fastest of three."""
    a = np.ones((MATRIX, MATRIX), np.float32)
    times = []
    for _ in range(3):
        began = time.perf_counter()
        a @ a
        times.append(time.perf_counter() - began)
    return 2 * MATRIX**3 / min(times)
