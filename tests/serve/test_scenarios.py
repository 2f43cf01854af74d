"""One load of LoadGen's, on whatever answers."""

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from suite.errors import UserError
from suite.serve import scenarios
from suite.serve.batching import Overloaded


def refuse(_: int) -> Future:
    """Answer nothing."""
    future: Future = Future()
    future.set_exception(OSError("reset"))
    return future


def test_a_query_takes_until_its_last_sample_is_answered():
    asked = count(1)

    def ask(_: int) -> Future:
        future: Future = Future()
        if next(asked) % 8:
            future.set_result(None)
        else:
            threading.Timer(0.001, future.set_result, (None,)).start()
        return future

    found = scenarios.load("multi-stream", ask, examples=8, seconds=0.1, expected=0.001)
    assert 0.001 <= found.latencies["50"] < 1  # seconds
    assert found.bound is None


def answer(_: int) -> Future:
    """Answer at once."""
    future: Future = Future()
    future.set_result(None)
    return future


def test_a_load_that_took_longer_than_its_bound_does_not_count():
    found = scenarios.load("server", answer, examples=4, seconds=0.01, rate=100_000.0, bound=1e-9)
    late, of = found.problems[0].split(" queries took longer than the bound")[0].split(" of ")
    assert (int(of), found.bound, found.valid) == (found.queries, 1e-9, False)
    assert 0.9 * int(of) < int(late) <= int(of)


def test_a_bound_is_in_seconds():
    with ThreadPoolExecutor(64) as pool:
        slow = lambda _: pool.submit(time.sleep, 0.005)  # noqa: E731
        found = scenarios.load("server", slow, examples=4, seconds=0.01, rate=10_000.0, bound=4.0)
    assert found.latencies["50"] > 0.005
    assert not [problem for problem in found.problems if "longer than the bound" in problem]


def test_a_load_that_loadgen_calls_invalid_does_not_count():
    """Of a stream that was said to have far slower queries, and so had too few."""
    found = scenarios.load("single-stream", answer, examples=4, seconds=0.5, bound=1.0, expected=0.1)
    assert (found.valid, found.bound, found.failed, found.shed) == (False, None, 0, 0)
    assert len(found.problems) == 1


def test_a_load_with_a_lost_sample_has_no_latency():
    asked = count()

    def ask(_: int) -> Future:
        future: Future = Future()
        if next(asked) == 9:
            future.set_exception(OSError("reset"))
        else:
            future.set_result(None)
        return future

    found = scenarios.load("single-stream", ask, examples=4, seconds=0.01, expected=0.001)
    assert (found.failed, found.latencies, found.counts) == (1, {}, None)


@pytest.mark.parametrize("cut", [lambda log: 0, lambda log: len(log) // 2, lambda log: log.rstrip().rindex(b"\n") + 1])
def test_a_log_for_which_there_was_no_room_is_one_line(cut, monkeypatch):
    start = scenarios._start

    def on_a_full_disk(issue, examples, settings, folder):
        start(issue, examples, settings, folder)
        path = Path(folder) / "mlperf_log_detail.txt"
        log = path.read_bytes()
        path.write_bytes(log[: cut(log)])

    monkeypatch.setattr(scenarios, "_start", on_a_full_disk)
    with pytest.raises(UserError, match=r"^LoadGen's log in /\S+ is cut short: .* as TMPDIR$"):
        scenarios.load("offline", refuse, examples=4, seconds=0.01, rate=1000.0)


def test_requests_that_were_not_taken_are_not_those_that_failed():
    def shed(_: int) -> Future:
        future: Future = Future()
        future.set_exception(Overloaded("3 requests wait"))
        return future

    found = scenarios.load("single-stream", shed, examples=4, seconds=0.01, expected=0.001)
    assert (found.shed, found.failed) == (found.queries, 0)
    assert found.problems == [f"{found.queries} of its samples shed"]


def test_what_was_not_answered_is_not_said_to_have_taken_longer_than_the_bound():
    found = scenarios.load("server", refuse, examples=4, seconds=0.01, rate=100_000.0, bound=1e-9)
    assert found.problems == [f"{found.queries} of its samples failed"]


@pytest.mark.parametrize("scenario", ["multi-stream", "offline"])  # queries of eight samples, one of all samples
def test_what_was_not_answered_counts_for_no_rate(scenario):
    found = scenarios.load(scenario, refuse, examples=8, seconds=0.01, rate=1000.0, expected=0.001)
    assert found.failed > 1
    assert found.reached == 0


def test_loads_come_from_one_thread_whose_end_loadgen_would_not_survive():
    threads = set()

    def ask(example: int) -> Future:
        threads.add(threading.current_thread())
        return answer(example)

    for _ in range(2):
        scenarios.load("multi-stream", ask, examples=8, seconds=0.01, expected=0.001)
    assert len(threads) == 1


def test_ctrl_c_under_load_ends_the_process_without_an_abort():
    code = """
import os, signal, threading
from concurrent.futures import Future
from suite.errors import command
from suite.serve.scenarios import load

interrupt = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))

def ask(index):
    if interrupt.ident is None:  # not yet started
        interrupt.start()
    return Future()

command(lambda _: load("multi-stream", ask, examples=4, seconds=5.0))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "")


def test_ctrl_c_beside_a_thread_of_compiled_code_ends_the_process_before_it():
    code = """
import atexit, os, signal
from suite.errors import command
from suite.serve import ending

atexit.register(os.abort)  # as such a thread does

def loaded(argv):
    with ending.at_once():
        signal.raise_signal(signal.SIGINT)

command(loaded)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "")
