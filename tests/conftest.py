"""Says why a test that needs something rare is skipped."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from suite.measure.machine import detect

# A busy machine is no failure; in CI the same examples every time.
settings.register_profile("suite", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("suite")


def pytest_collection_modifyitems(items):
    gpu = bool(detect().accelerators)
    data = (Path(os.environ.get("SUITE_DATA", "/nonexistent")) / "cifar-10-batches-py").is_dir()
    for item in items:  # no stub stands in for a GPU or for real data: CI has the data, GPU tests run where one is
        if item.get_closest_marker("gpu") and not gpu:
            item.add_marker(pytest.mark.skip(reason="this machine has no CUDA accelerator"))
        if item.get_closest_marker("data") and not data:
            item.add_marker(pytest.mark.skip(reason="SUITE_DATA holds no CIFAR-10"))
