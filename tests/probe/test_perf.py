"""Counters of `perf stat`, held to the same of the operating system."""

import resource
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from suite.probe import perf
from tests.waiting import until

FAULTS = {"page faults": "page-faults:u"}
PAGES = 2000
TOLD = "123456,,instructions:u,1000,100.00,,\n<not supported>,,cycles:u,0,100.00,,\n<not counted>,,x,0,0.00,,\n"


def touch_from_a_thread() -> None:
    """Faults of pages, in a thread that begins meanwhile."""
    thread = threading.Thread(target=lambda: np.ones(PAGES * 4096 * 16, np.uint8)[::4096].sum())
    thread.start()
    thread.join()


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_threads_are_counted_and_what_comes_before_is_not():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    calls = []
    found = perf.counted(lambda: (touch_from_a_thread(), calls.append(1)), FAULTS)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert calls == [1]
    if not found.values:
        pytest.skip(found.missing["page faults"])
    assert 0 < found.values["page faults"] <= used
    assert perf.counted(lambda: None, FAULTS).values["page faults"] < found.values["page faults"]


def test_what_perf_tells_is_a_number_or_a_reason():
    found = perf.read(TOLD, {"instructions": "instructions:u", "cycles": "cycles:u", "other": "x", "none": "y"})
    assert found.values == {"instructions": 123456}
    assert found.missing.keys() == {"cycles", "other", "none"}
    assert "virtual machines" in found.missing["cycles"]


def test_kinds_of_cores_are_counted_together():
    """As versions of perf name their events."""
    told = "20,,cpu_core/instructions:u/,1,1.00,,\n3,,cpu_atom/instructions/u,1,1.00,,\n"
    told += "<not counted>,,cpu_atom/cycles:u/,0,0.00,,\n7,,cpu_core/cycles:u/,1,1.00,,\n"
    told += "<not supported>,,cpu_atom/x:u/,0,0.00,,\n<not supported>,,cpu_core/x:u/,0,0.00,,\n"
    found = perf.read(told, {"instructions": "instructions:u", "cycles": "cycles:u", "other": "x:u"})
    assert found.values == {"instructions": 23, "cycles": 7}
    assert found.missing.keys() == {"other"}


def test_without_perf_the_reason_is_told(monkeypatch):
    monkeypatch.setenv("PATH", "")
    calls = []
    found = perf.counted(lambda: calls.append(1))
    assert (calls, found.values) == ([1], {})
    assert set(found.missing.values()) == {perf.NO_PERF}


def test_a_perf_that_is_not_permitted_says_so(monkeypatch, tmp_path):
    program = tmp_path / "perf"
    program.write_text("#!/bin/sh\necho 'Access to performance monitoring operations is limited.' >&2\nexit 255\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    calls = []
    found = perf.counted(lambda: calls.append(1))
    assert calls == [1]
    assert found.missing["cycles"] == "perf: Access to performance monitoring operations is limited."


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv of util-linux is not installed")
def test_perf_ends_with_a_process_that_is_killed(monkeypatch, tmp_path):
    program, told = tmp_path / "perf", tmp_path / "pid"
    program.write_text(f"#!/bin/sh\necho $$ > {told}.new; mv {told}.new {told}; exec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    counting = subprocess.Popen([sys.executable, "-c", "from suite.probe import perf; perf.counted(print)"])
    until(told.exists)
    counting.kill()
    counting.wait()
    until(lambda: not running(int(told.read_text())))


def running(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
