"""Lets tests run beside each other, and says why a test that needs something rare is skipped."""

import os
from functools import cache

import pytest
from hypothesis import HealthCheck, settings

from suite import config
from suite.measure.machine import detect
from suite.store import files

# For the tests and what they start: one thread each, and threads that wait leave their core to others.
os.environ |= {
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}

# A busy machine is no failure, and examples may share a test's folder; in CI they are the same every time.
settings.register_profile(
    "suite",
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("suite")


def pytest_collection_modifyitems(items):
    gpu = bool(detect().accelerators)
    for item in items:
        if item.get_closest_marker("gpu") and not gpu:  # nothing can stand in for one: these run where a GPU is
            item.add_marker(pytest.mark.skip(reason="this machine has no CUDA accelerator"))
        marker = item.get_closest_marker("data")
        if marker and not is_here(*marker.args):  # CI has all but MovieLens 100K, which may not be passed on
            item.add_marker(pytest.mark.skip(reason=f"SUITE_DATA does not hold the data of {marker.args[0]}"))


@cache
def is_here(benchmark: str) -> bool:
    task, scale = benchmark.split("/")
    return "SUITE_DATA" in os.environ and not files.faults(config.benchmark(task, scale).dataset, files.root(), "size")
