"""What MLflow shows of a run, derived from its evidence: names and numbers, no MLflow.

Until `run_start` there is nothing to show. What was not measured is absent, never 0.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby, islice, pairwise
from pathlib import Path
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from suite.measure.energy import ESTIMATED, counter
from suite.measure.samples import COUNTERS, MAX_INTERVAL_MS, Sample, SamplesError, read_samples
from suite.record import evidence, mllog
from suite.record.names import REFERENCE
from suite.record.parsing import number, yaml_mapping
from suite.store.disk import read_safely

MAX_PARAMS = 1000
MAX_KEY = 250  # also of the name of a run or an experiment
MAX_NAME = 100  # of the parts of a key
MAX_TEXT = 500
MAX_METRICS = 50
MAX_CONFIG_BYTES = 1 << 18
POWER_POINTS = 500  # of each system metric
LOADS = ("utilisation", "steal", "others")  # columns of power.csv, fractions
_INT64 = 2**63 - 1
_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
_NO_TEXT = re.compile(r"[\0\ud800-\udfff]")  # which PostgreSQL and UTF-8 refuse
_ENDED = {"target": "FINISHED", "interrupt": "KILLED"}


@dataclass(frozen=True)
class Point:
    """One value of a metric at a step, with the log's own time (milliseconds since 1970)."""

    key: str
    value: float
    time_ms: int
    step: int


class View:
    """A run as MLflow shows it, kept up with a log that may still grow. An untrusted log cannot make it raise.

    `status` is MLflow's run status; `started_ms` and `ended_ms` are the times of run_start and run_stop.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_id: str | None = None
        self.result_id: str | None = None
        self.run_index = 1
        self.runs = 1
        self.started_ms: int | None = None
        self.ended_ms: int | None = None
        self.status = "RUNNING"
        self.tags: dict[str, str] = {}
        self.params: dict[str, str] = {}
        self._metric = "quality"
        self._offset = 0
        self._number = 0
        self._samples = 0
        self._stops_ms: list[int] = []

    @property
    def sealed(self) -> bool:
        """Whether the run is over and its evidence complete."""
        return self.folder / evidence.MANIFEST in self.artifacts()

    def read(self) -> list[Point]:
        """The points of the lines that were completed since the last call."""
        return [point for line in self._new_lines() for point in self._points(line)]

    def power(self) -> list[Point]:
        """Load and power of the leader's node by second of the timed run: means of at most `POWER_POINTS` intervals.

        Where a signal stopped the run and it goes on, each part has its own: what was shown of the first stays true.
        """
        if self.started_ms is None or self.ended_ms is None:
            return []
        try:
            samples = read_samples(self.folder / evidence.POWER)
        except SamplesError:
            return []
        timed = [s for s in samples if s.node == 0 and self.started_ms <= s.time_ms <= self.ended_ms]
        parts = groupby(timed, lambda sample: bisect_left(self._stops_ms, sample.time_ms))
        return [point for _, part in parts for point in self._intervals(list(part))]

    def artifacts(self) -> list[Path]:
        """The files of sealed evidence; a link or anything else that is no plain file is left out."""
        paths = [self.folder / name for name in (*evidence.SEALED, evidence.MANIFEST)]
        return [path for path in paths if path.is_file() and not path.is_symlink()]

    def _new_lines(self) -> Iterator[mllog.Line]:
        try:
            file = (self.folder / evidence.LOG).open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._offset)
            while raw := file.readline(mllog.MAX_LINE_BYTES):
                if not raw.endswith(b"\n") and len(raw) < mllog.MAX_LINE_BYTES:
                    return  # the writer is in the middle of this line
                self._offset += len(raw)
                self._number += 1
                yield mllog.parse(self._number, raw.removesuffix(b"\n"))

    def _intervals(self, samples: list[Sample]) -> Iterator[Point]:
        """Means of so many intervals each, without pauses and counters that run backwards, as in `energy`."""
        length = max(1, math.ceil(len(samples) / POWER_POINTS))
        for end in range(length, len(samples), length):
            pairs = [
                (first, last)
                for first, last in pairwise(samples[end - length : end + 1])
                if last.time_ms - first.time_ms <= MAX_INTERVAL_MS
            ]

            def system(name: str, value: float, at_ms: int = samples[end].time_ms) -> Point:
                return Point(f"system/{name}", value, at_ms, self._seconds(at_ms))

            for name in LOADS:
                known = [getattr(last, name) for _, last in pairs]
                if known and None not in known:
                    yield system(name, sum(known) / len(known))
            for name in COUNTERS:
                power = counter(name)
                drawn = [(watts, b.time_ms - a.time_ms) for a, b in pairs if (watts := power(a, b)) is not None]
                if drawn:
                    weighted = sum(watts * ms for watts, ms in drawn)
                    yield system(f"{name[:-1]}w", weighted / sum(ms for _, ms in drawn))

    def _points(self, line: mllog.Line) -> Iterator[Point]:
        if not 0 <= line.time_ms <= _INT64:
            return
        metadata, value = line.metadata, number(line.value)
        samples = metadata.get(keys.SAMPLES_COUNT)
        if isinstance(samples, int) and 0 <= samples <= _INT64:
            self._samples = samples

        def at_samples(key: str, value: float | None) -> Iterator[Point]:
            if value is not None and self.started_ms is not None:
                yield Point(key, value, line.time_ms, self._samples)

        match line.key:
            case keys.SUBMISSION_BENCHMARK:
                self._tag("benchmark", line.value)
            case keys.SUBMISSION_DIVISION:
                self._tag("division", line.value)
            case keys.SEED:
                self._tag("seed", line.value)
            case logkeys.CONFIG:
                self._identify(metadata)
            case logkeys.IMPLEMENTATION:
                self._tag("implementation", line.value)
            case logkeys.ENVIRONMENT:
                noisy = line.value == "noisy" or self.tags.get("noisy") == "true"
                self._tag("noisy", noisy)
            case logkeys.RESTART:
                name = "restarts" if self.started_ms is not None else "aborted_starts"
                self._tag(name, int(self.tags.get(name, 0)) + 1)
                if self.ended_ms is not None:  # it was stopped by a signal, and goes on
                    self.ended_ms, self.status = None, "RUNNING"
                    self._tag("status", "running")
            case keys.RUN_START if self.started_ms is None:
                self.started_ms = line.time_ms
                self._tag("status", "running")
            case logkeys.TRACKED if isinstance(line.value, dict):
                yield from at_samples("samples_per_second", number(line.value.get("throughput")))
                yield from at_samples("train_loss", number(line.value.get("loss")))
            case keys.EVAL_ACCURACY:
                yield from at_samples(self._metric, value)
                if value is not None and self.started_ms is not None:
                    yield Point(f"{self._metric}_by_seconds", value, line.time_ms, self._seconds(line.time_ms))
                metrics = metadata.get("metrics")
                for name, other in islice(metrics.items() if isinstance(metrics, dict) else (), MAX_METRICS):
                    if plain_key(name) != self._metric:
                        yield from at_samples(plain_key(name), number(other))
            case keys.RUN_STOP if self.started_ms is not None and self.ended_ms is None:
                self.ended_ms = line.time_ms
                self._stops_ms.append(line.time_ms)
                self._tag("status", metadata.get(keys.STATUS))
                self._tag("reason", metadata.get("reason"))
                self.status = _ENDED.get(str(metadata.get("reason")), "FAILED")
                if metadata.get(keys.STATUS) == keys.SUCCESS:
                    yield from at_samples("time_to_quality_s", (line.time_ms - self.started_ms) / 1000)
                    yield from at_samples("samples_to_quality", self._samples)
            case logkeys.ENERGY:
                self._tag("energy_source", metadata.get("source"))
                estimated = ESTIMATED in str(metadata.get("source")).split("+")  # of all nodes, or of one
                yield from at_samples("energy_joules_estimated" if estimated else "energy_joules", value)
            case logkeys.COST:
                self._tag("currency", metadata.get("currency"))
                yield from at_samples("cost", value)

    def _identify(self, metadata: dict[str, Any]) -> None:
        for name in ("run_id", "result_id"):
            if isinstance(metadata.get(name), str) and _ID.fullmatch(metadata[name]):
                setattr(self, name, metadata[name])
        for name in ("run_index", "runs"):
            if isinstance(metadata.get(name), int) and 1 <= metadata[name] <= 10_000:
                setattr(self, name, metadata[name])
        for name in ("task", "scale", "framework", "system", "git_revision", "git_dirty"):
            self._tag(name, metadata.get(name))
        self.tags.setdefault("implementation", REFERENCE)
        config, self.params = _resolved(self.folder / evidence.CONFIG)
        benchmark = config.get("benchmark")
        if isinstance(benchmark, dict) and isinstance(benchmark.get("metric"), str):
            self._metric = plain_key(benchmark["metric"])

    def _tag(self, name: str, value: Any) -> None:
        if isinstance(value, bool):
            self.tags[name] = str(value).lower()
        elif isinstance(value, str) or (isinstance(value, int) and abs(value) <= _INT64):
            self.tags[name] = _text(value)

    def _seconds(self, time_ms: int) -> int:
        assert self.started_ms is not None
        return round((time_ms - self.started_ms) / 1000)


def plain_key(name: str) -> str:
    """`name` as a key that every MLflow store accepts; where it is too long, its end is a hash of all of it."""
    key = re.sub(r"[^A-Za-z0-9_-]", "_", name) or "_"
    if len(key) <= MAX_NAME:
        return key
    return f"{key[: MAX_NAME - 9]}_{sha256(name.encode(errors='replace')).hexdigest()[:8]}"


def _text(value: Any) -> str:
    return _NO_TEXT.sub("", str(value))[:MAX_TEXT]


def _resolved(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The mapping in a YAML file, and its leaves as text; both empty where no mapping can be read."""
    try:
        config, _ = yaml_mapping(read_safely(path, MAX_CONFIG_BYTES))
    except (OSError, ValueError):
        return {}, {}
    leaves = islice(_leaves(config), MAX_PARAMS)
    return config, {key[:MAX_KEY]: _text(value) for key, value in leaves if key and value is not None}


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The path (`a.b.0`) and value of each leaf."""
    if not isinstance(value, dict | list) or not value:
        yield ".".join(path), value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, plain_key(str(name))))
    elif all(isinstance(item, int | float) for item in value):
        yield ".".join(path), list(value[:MAX_TEXT])
    else:
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*path, str(index)))
