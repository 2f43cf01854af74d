"""The load of MLPerf inference's scenarios, made, timed and judged by MLPerf's LoadGen.

https://github.com/mlcommons/inference_policies/blob/master/inference_rules.adoc, "Scenarios"; LoadGen's early stopping
says from how many queries a percentile is known with 99 % confidence.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from functools import cache, partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import mlperf_loadgen as loadgen
from pydantic import BaseModel

from suite.errors import UserError, printable
from suite.serve import ending
from suite.serve.batching import Overloaded

_DETAIL = "mlperf_log_detail.txt"
_PREFIX = ":::MLLOG "
_LAST = "num_errors"  # of the keys that LoadGen writes there
_MARGIN = 1.2  # of the offline scenario's samples, so that they last for as long as is asked
_COUNTS = ("early_stopping_latency_ss", "early_stopping_latency_ms")
PERCENTILES = ("50.00", "90.00", "99.00", "99.90")  # as LoadGen writes them
Ask = Callable[[int], "Future[Any]"]  # for the example of that number, from any thread


class Scenario(NamedTuple):
    """A scenario: LoadGen's name for it, the least number of queries, and its meaning in words."""

    name: str
    queries: int
    meaning: str


SCENARIOS = {
    "single-stream": Scenario("SingleStream", 64, "one query after another; the 90th percentile counts"),
    "multi-stream": Scenario("MultiStream", 662, "queries of 8 samples one after another; the 99th counts"),
    "server": Scenario("Server", 1000, "Poisson arrivals at a rate; the 99th is to keep the bound"),
    "offline": Scenario("Offline", 1, "all samples at once; samples a second count"),
}
MLPERF_SECONDS = 600  # the least duration of an official run


class Load(BaseModel, frozen=True):
    """The result of a load: the `rate` asked for, the samples answered a second (`reached`), and what LoadGen found.

    `latencies` are in seconds by percentile, empty if samples were not answered. `counts` is the latency of a stream
    that MLPerf's checker takes (early stopping's bound of the percentile that counts). `shed` requests were not taken,
    `failed` ones not answered. `problems` say why the load does not count. None is what a scenario does not tell.
    """

    scenario: str
    rate: float | None
    reached: float | None
    queries: int
    seconds: float
    latencies: dict[str, float]
    counts: float | None = None
    bound: float | None
    shed: int
    failed: int
    problems: list[str]

    @property
    def valid(self) -> bool:
        """Whether LoadGen calls the load valid and every request was answered."""
        return not self.problems


def load(
    scenario: str,
    ask: Ask,
    examples: int,
    seconds: float,
    rate: float | None = None,
    bound: float | None = None,
    expected: float | None = None,
) -> Load:
    """Put load on `ask` for at least `seconds`.

    In `server` it is `rate` queries a second, of which 99 % should be answered within `bound` seconds; in `offline` it
    is the samples that `rate` a second would take. A stream has queries for as long if each takes `expected` seconds,
    by default LoadGen's own estimate.

    Raises UserError if the temporary folder has no room for LoadGen's log.
    """
    settings = _settings(scenario, seconds, rate, bound, expected)
    asking = _Asking(ask)
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        _start(asking.issue, examples, settings, folder)
        lasted = time.monotonic() - began
        told = _told(Path(folder) / _DETAIL)
    return _judged(scenario, rate, bound, told, lasted, asking.counts)


def _settings(scenario: str, seconds: float, rate: float | None, bound: float | None, expected: float | None) -> Any:
    """LoadGen's settings for the arguments of `load`."""
    kind = SCENARIOS[scenario]
    settings = loadgen.TestSettings()
    settings.scenario = getattr(loadgen.TestScenario, kind.name)
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.min_duration_ms = round(seconds * 1000)
    settings.min_query_count = kind.queries
    if scenario == "server":
        settings.server_target_qps, settings.server_target_latency_ns = float(rate or 1), round((bound or 1) * 1e9)
    elif scenario == "offline":
        settings.offline_expected_qps = float(rate or 1) * _MARGIN
    elif expected is not None:
        setattr(settings, f"{scenario.replace('-', '_')}_expected_latency_ns", max(round(expected * 1e9), 1))
    return settings


class _Asking:
    """Asks for the samples that LoadGen issues, and reports them complete; `counts` are those without an answer."""

    def __init__(self, ask: Ask) -> None:
        self.counts = {"shed": 0, "failed": 0}
        self._ask, self._counting = ask, threading.Lock()

    def issue(self, samples: list[Any]) -> None:
        for sample in samples:
            self._ask(sample.index).add_done_callback(partial(self._answered, sample.id))

    def _answered(self, number: int, done: Future[Any]) -> None:
        if error := done.exception():
            with self._counting:
                self.counts["shed" if isinstance(error, Overloaded) else "failed"] += 1
        loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(number, 0, 0)])


def _start(issue: Callable[[list[Any]], None], examples: int, settings: Any, folder: str) -> None:
    """Run LoadGen's test in another thread, so that a signal reaches the main thread meanwhile."""
    log = loadgen.LogSettings()
    log.log_output.outdir = folder
    log.log_output.copy_summary_to_stdout = False
    log.enable_trace = False
    system = loadgen.ConstructSUT(issue, lambda: None)
    library = loadgen.ConstructQSL(examples, examples, lambda indices: None, lambda indices: None)
    ended: Future[None] = Future()
    _tests().put((partial(loadgen.StartTestWithLogSettings, system, library, settings, log), ended))
    with ending.at_once():
        while not wait([ended], 0.2).done:
            pass
    ended.result()
    loadgen.DestroyQSL(library)
    loadgen.DestroySUT(system)


@cache
def _tests() -> SimpleQueue[tuple[Callable[[], None], Future[None]]]:
    """The queue of a thread that runs all tests: LoadGen's log may look for one's entries when the next has begun.

    With a thread that has ended that is memory no longer there: a segmentation fault in one of some hundred tests.
    The thread is a daemon, because Python waits for an executor's before it ends, also after Ctrl-C.
    """
    tests: SimpleQueue[tuple[Callable[[], None], Future[None]]] = SimpleQueue()

    def run() -> None:
        while True:
            test, ended = tests.get()
            try:
                test()
            except BaseException as error:
                ended.set_exception(error)
            else:
                ended.set_result(None)

    threading.Thread(target=run, name="loadgen", daemon=True).start()
    return tests


def _told(path: Path) -> dict[str, Any]:
    try:
        lines = (line.removeprefix(_PREFIX) for line in path.read_text().splitlines() if line.startswith(_PREFIX))
        told = {entry["key"]: entry["value"] for entry in map(json.loads, lines)}
        told[_LAST]
    except (OSError, ValueError, KeyError) as error:  # LoadGen does not look whether its log could be written
        raise UserError(
            f"LoadGen's log in {path.parent} is cut short: make room there, or name a folder on a larger disk as TMPDIR"
        ) from error
    return told


def _judged(
    scenario: str,
    rate: float | None,
    bound: float | None,
    told: Mapping[str, Any],
    lasted: float,
    counts: Mapping[str, int],
) -> Load:
    """The load as LoadGen reports it; `counts` are the samples without answers."""
    # Without "per_query" the latencies are of samples; a query of the multi-stream waits for its last sample
    of = "percentile_per_query_latency_ns" if scenario == "multi-stream" else "percentile_latency_ns"
    times = {name: told.get(f"result_{name}_{of}") for name in PERCENTILES}
    found = {f"{float(name):g}": ns / 1e9 for name, ns in times.items() if ns is not None}
    problems = [f"{number} of its samples {name}" for name, number in counts.items() if number]
    lost = sum(counts.values())
    if told["result_validity"] != "VALID" and not lost:  # LoadGen judges those without answers too
        problems.append(_why(told))
    reached, samples = _reached(scenario, told), told["result_query_count"] * told["effective_samples_per_query"]
    return Load(
        scenario=scenario,
        rate=rate,
        reached=None if reached is None else reached * (1 - lost / samples),
        queries=told["result_query_count"],
        seconds=lasted,
        latencies={} if scenario == "offline" or lost else found,
        counts=None if lost else next((told[name] / 1e9 for name in _COUNTS if told.get(name)), None),
        bound=bound if scenario == "server" else None,
        problems=problems,
        **counts,
    )


def _why(told: Mapping[str, Any]) -> str:
    if told.get("result_perf_constraints_met") is False:
        late, queries = told["result_overlatency_query_count"], told["result_query_count"]
        return f"{late} of {queries} queries took longer than the bound"
    reasons = (str(told.get(key, "")) for key in ("result_invalid_reason", "early_stopping_result"))
    return printable(" ".join(" ".join(reasons).replace("*", "").split())) or "LoadGen calls it invalid"


def _reached(scenario: str, told: Mapping[str, Any]) -> float | None:
    if scenario == "multi-stream":
        return float(told["effective_samples_per_query"] * 1e9 / told["result_mean_query_latency_ns"])
    names = ("result_samples_per_second", "result_completed_samples_per_sec", "result_qps_with_loadgen_overhead")
    return next((float(told[name]) for name in names if name in told), None)
