"""No accelerator waits for the host: `python -m tests.bench.device` finds nothing in any benchmark."""

import json
import subprocess
import sys

import pytest

from suite import config
from suite.harness.implementation import frameworks
from tests.bench.device import MOST_BYTES, WATCHED

CASES = [(task, framework) for task in config.names("task") for framework in WATCHED if framework in frameworks(task)]


@pytest.fixture(scope="module")
def figures():
    """Of every mini; a process of its own, since TensorFlow divides a CPU only before it uses it."""
    command = [sys.executable, "-m", "tests.bench.device", "--json", "--scale", "mini", "--steps", "2"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # what it complains of is shown
    return {(row["task"], row["framework"]): row for row in json.loads(done.stdout)}


@pytest.mark.slow
@pytest.mark.parametrize(("task", "framework"), CASES)
def test_a_step_sends_little_and_waits_for_nothing(figures, task, framework):
    row = figures[task, framework]
    assert row["operators"] > 0
    assert 0 <= row["bytes"] <= MOST_BYTES
    assert row["waits"] <= (1 / row["updates"] if row["updates"] > 1 else 0), row["waited"]
