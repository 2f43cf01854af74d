"""Let tests run side by side, give them a project with an eighth task or without tasks, and say why one is skipped."""

# ruff: noqa: E402 (the environment is set before what reads it is imported)

import gc
import os
import shutil
import signal
from collections import Counter
from functools import cache

import pytest
from hypothesis import HealthCheck, settings

# Keep the caller's settings out of the tests: the terminal's abilities, the job they run in, a proxy for this machine.
TERMINAL = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS")
for name in [each for each in os.environ if each in TERMINAL or each.startswith(("SLURM_", "TORCHELASTIC_"))]:
    del os.environ[name]
os.environ.update(dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1,localhost"))

# For the tests and what they start: one thread each, waiting threads that leave their core to others, and no XLA
# optimization, which would take longer than it saves in the few steps that are trained. Before numpy is imported, whose
# BLAS reads it then: threads that wait for more of its work would take the cores from the tests.
os.environ.update(
    {
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "passive",
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
    }
)

import reference_impls
import tasks
from suite import config
from suite.config import folder
from suite.measure.machine import detect
from suite.store import files
from tests.eighth_task import NUMPY, lend

# Else its import would close the handlers of all loggers; TensorFlow's closes the file that pytest captures to.
os.environ["SUBMITIT_LOG_LEVEL"] = "NOCONFIG"

# Frameworks keep the objects that tracing a step makes: searching them for garbage takes a tenth of such tests' time.
gc.set_threshold(20_000, 10, 10)

# Started in the background by a shell, tests would ignore Ctrl-C, and so would all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no failure, and examples may share a test's folder; in CI they are the same every time.
settings.register_profile(
    "suite",
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("suite")


@pytest.fixture(scope="module")
def eighth_task():
    """The eighth task in this process, removed again afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        lend(patch)
        yield


@pytest.fixture
def here(eighth_task, tmp_path, monkeypatch):
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ours(tmp_path):
    """An implementation of parity in a folder `ours`."""
    (tmp_path / "ours").mkdir()
    shutil.copy(NUMPY, tmp_path / "ours/__init__.py")
    return tmp_path / "ours"


@pytest.fixture
def without_tasks(tmp_path, monkeypatch):
    """A project in `tmp_path` with the frameworks, the formats and no task, which the suite takes as its own."""
    shutil.copytree(folder.CONF / "framework", tmp_path / "conf/framework")
    shutil.copy(folder.CONF / "formats.yaml", tmp_path / "conf")
    for package in (tasks, reference_impls):
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path / package.__name__)])
    monkeypatch.setattr(folder, "CONF", tmp_path / "conf")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder.load.cache_clear()
    yield tmp_path
    folder.load.cache_clear()


def pytest_collection_modifyitems(items):
    # Files of slow tests come first, then those of whole commands before those of their parts in folders, so that no
    # process begins a long one when the others are done. In a file, the tests of one case come together, so that what
    # it builds is built once: pytest would sort by their places in a test's list.
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: (-slow[item.path], len(item.path.parts), item.path, case_of(item)))
    gpu = bool(detect().accelerators)
    for item in items:
        if item.get_closest_marker("gpu") and not gpu:  # nothing can stand in for one: these run where a GPU is
            item.add_marker(pytest.mark.skip(reason="this machine has no CUDA accelerator"))
        marker = item.get_closest_marker("data")
        if marker and not is_here(*marker.args):  # CI has all but MovieLens 100K, which may not be passed on
            item.add_marker(pytest.mark.skip(reason=f"SUITE_DATA does not hold the data of {marker.args[0]}"))


def case_of(item) -> str:
    """The name of the case whose `builds` a test takes; empty if it takes none."""
    return item.callspec.params["builds"].id if "builds" in getattr(item, "fixturenames", ()) else ""


@cache
def is_here(benchmark: str) -> bool:
    task, scale = benchmark.split("/")
    return "SUITE_DATA" in os.environ and not files.faults(config.benchmark(task, scale).dataset, files.root(), "size")
