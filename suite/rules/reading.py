"""Read a run's evidence from an untrusted folder. What is wrong with it becomes a finding, not an exception."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlperf_logging.mllog import constants as keys

from suite import config
from suite.config.logkeys import CONFIG as LOGGED_CONFIG
from suite.config.models import Benchmark
from suite.measure.samples import MAX_BYTES, MOST_NODES, Sample, SamplesError, samples_of
from suite.record.equivalence import FILE as EQUIVALENCE
from suite.record.equivalence import Equivalence
from suite.record.evidence import (
    CONFIG,
    LOG,
    MANIFEST,
    MAX_STAMP_BYTES,
    POWER,
    PREDICTIONS,
    STAMPS,
    SYSTEM,
    Digest,
    digest,
)
from suite.record.mllog import Line
from suite.record.parsing import KeyPath, MalformedError, json_object, value_at, whole, yaml_mapping
from suite.record.states import is_kept
from suite.rules import contents
from suite.rules.cadence import evaluated_when
from suite.rules.finding import FILE_AS_WRITTEN, FOLDER_AS_WRITTEN, MAX_FINDINGS, Checks, Finding
from suite.rules.timeline import Timeline, timeline
from suite.store.code import CODE, sums_below
from suite.store.disk import LINK, UnsafeFile, entries, read_safely, reason

if TYPE_CHECKING:
    from cryptography import x509

# The most bytes and lines that are read of each file.
LIMITS = {
    LOG: (16 << 20, 1 << 17),
    CONFIG: (64 << 10, 1 << 12),
    SYSTEM: (4 << 20, 1 << 17),  # enough for 2000 nodes of eight accelerators
    POWER: (MAX_BYTES, 1 << 20),
    PREDICTIONS: (256 << 20, 1 << 20),
    MANIFEST: (10 << 20, 1 << 10),
    EQUIVALENCE: (256 << 10, 1 << 13),
    **dict.fromkeys(STAMPS.values(), (MAX_STAMP_BYTES, MAX_STAMP_BYTES)),
}
MAX_KEPT = 10_000  # states of a run
RUN_FOLDER = re.compile(r"run_[1-9][0-9]{0,3}\Z")
WAIVERS = "waivers.yaml"  # beside the evidence: the submitter's requests, see `suite.rules.waivers`


@dataclass
class Evidence:
    """One run's evidence. What could not be read is empty or None, and has a finding in `unsafe` or `malformed`.

    `label` is the run's folder, relative to the result or, in PACKAGE checks, to what is reviewed; "" for that itself.
    `package` is the folder of the submission around it, or None; only PACKAGE checks have it. `contents` holds the
    files that could be read, `code` the sha256 of each file of the submitter's own implementation, `others` the paths
    of what else lies in the folder. `data_dir` is where the reviewer's datasets lie, `roots` are the certificates of
    the witnesses that they trust.
    """

    label: str
    data_dir: str | None = None
    roots: tuple[x509.Certificate, ...] = ()
    package: str | None = None
    contents: dict[str, bytes] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    unsafe: list[Finding] = field(default_factory=list)
    malformed: list[Finding] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    config_lines: dict[KeyPath, int] = field(default_factory=dict)
    system: dict[str, Any] = field(default_factory=dict)
    samples: list[Sample] | None = None
    predictions: list[Any] | None = None
    digests: dict[str, Digest] = field(default_factory=dict)
    log_head: str | None = None
    sealed: dict[str, Digest] | None = None
    equivalence: Equivalence | None = None

    @classmethod
    def read(
        cls, folder: Path, label: str = "", data_dir: str | None = None, roots: tuple[x509.Certificate, ...] = ()
    ) -> Evidence:
        """Read the evidence in `folder`. Follows no link and reads nothing outside the folder."""
        made = cls(label, data_dir, roots)
        if folder.is_symlink():
            made.unsafe.append(_unsafe(".", LINK))
            return made
        made.code = sums_below(folder / CODE, made._survey(folder))
        for name, (limit, lines) in LIMITS.items():
            try:
                content = read_safely(folder / name, limit)
                if content.count(b"\n") > lines:
                    raise UnsafeFile(f"has more than {lines} lines")
                made.contents[name] = content
            except FileNotFoundError:
                continue
            except (UnsafeFile, OSError) as error:
                if not (folder / name).is_symlink():  # the survey reports links
                    made.unsafe.append(_unsafe(name, reason(error)))
        made.digests = {name: digest(content) for name, content in made.contents.items()}
        for name in (LOG, CONFIG, SYSTEM, MANIFEST, PREDICTIONS, EQUIVALENCE, POWER):
            if name in made.contents:
                try:
                    made._take(name)
                except MalformedError as error:
                    made.malformed.append(Finding(name, error.line, "a well-formed file", str(error), FILE_AS_WRITTEN))
        return made

    def release(self) -> None:
        """Drop what only the checks of one run need: samples, predictions, raw files and the hashes of their lines."""
        self.samples = self.predictions = None
        for name in (LOG, POWER, PREDICTIONS, MANIFEST):
            self.contents.pop(name, None)
        self.digests = {name: each.short for name, each in self.digests.items()}
        self.sealed = self.sealed and {name: each.short for name, each in self.sealed.items()}

    def _survey(self, folder: Path) -> list[str]:
        """Record what else lies in the folder. Return the paths of possible code, relative to the folder of code."""
        kept, coded = 0, []
        for at, (path, odd) in enumerate(entries(folder)):
            kept += is_kept(path)
            if at - kept >= MAX_FINDINGS or kept > MAX_KEPT:
                self.unsafe.append(_unsafe(".", f"more than {MAX_FINDINGS} entries, or {MAX_KEPT} states"))
                break
            if odd == LINK or (odd and path not in LIMITS):  # odd ones are refused when they are read
                self.unsafe.append(_unsafe(path, odd))
            elif path == CODE or path.startswith(f"{CODE}/"):
                coded.append(path.removeprefix(CODE).removeprefix("/"))
            elif path not in LIMITS and path != WAIVERS and not is_kept(path):
                self.others.append(path)
        return coded

    def _take(self, name: str) -> None:
        """Parse a file and keep what it holds. Raises MalformedError."""
        content = self.contents[name]
        if name == LOG:
            self.lines = contents.log_lines(content)
        elif name == CONFIG:
            self.config, self.config_lines = yaml_mapping(content)
        elif name == SYSTEM:
            self.system = json_object(content)
        elif name == MANIFEST:
            self.log_head, self.sealed = contents.manifest(content)
        elif name == PREDICTIONS and name not in self.changed:  # changed ones are not scored
            self.predictions = contents.predictions(content)
        elif name == EQUIVALENCE:
            self.equivalence = contents.equivalence(content)
        elif name == POWER:
            try:
                self.samples = samples_of(content)
            except SamplesError as error:
                raise MalformedError(str(error), error.line or None) from error

    def parsed(self, *names: str) -> bool:
        """Whether these files are there and well-formed."""
        return not {finding.file for finding in self.malformed} & set(names) and self.digests.keys() >= set(names)

    def intact(self, *names: str) -> bool:
        """Whether these files are well-formed and still as sealed, so that they can be compared with others."""
        return self.parsed(*names) and not self.changed & set(names)

    def system_line(self, key: str) -> int | None:
        """The first line of system.json that holds `key` in quotes."""
        return contents.line_of(self.contents.get(SYSTEM, b""), key)

    def config_line(self, *path: str | int) -> int | None:
        """The line of config.yaml that holds the value at `path`, else that of the nearest enclosing value."""
        while path and path not in self.config_lines:
            path = path[:-1]
        return self.config_lines.get(path)

    def configured(self, *path: str) -> Any:
        """The value at `path` in config.yaml, None if there is none."""
        return value_at(self.config, *path)

    def described(self, *path: str) -> Any:
        """The value at `path` in system.json, None if there is none."""
        return value_at(self.system, *path)

    def line(self, key: str) -> Line | None:
        """The first line of the log that bears `key`."""
        return next(iter(self.lines_of.get(key, [])), None)

    def last(self, key: str) -> Line | None:
        """The last line of the log that bears `key`."""
        return next(reversed(self.lines_of.get(key, [])), None)

    def value(self, key: str) -> Any:
        """The value of the first line that bears `key`, None if there is none."""
        line = self.line(key)
        return line.value if line else None

    @property
    def in_open(self) -> bool:
        """Whether the run is one of the open division."""
        return bool(self.value(keys.SUBMISSION_DIVISION) == keys.OPEN)

    @property
    def nodes(self) -> int:
        """How many nodes the configured system has, at most as many as power samples can tell apart."""
        return min(whole(self.configured("system", "nodes")) or 1, MOST_NODES)

    @property
    def world_size(self) -> int:
        """How many workers the configured system has."""
        each = whole(self.configured("system", "accelerators_per_node")) or whole(self.configured("system", "workers"))
        return self.nodes * (each or 1)

    @property
    def accelerators(self) -> list[Any]:
        """The names of the accelerators that were detected."""
        found = self.described("detected", "accelerators")
        listed = found if isinstance(found, list) else []
        return [each.get("name") if isinstance(each, dict) else each for each in listed]

    @property
    def token(self) -> Any:
        """The round's token, as the head of the log gives it; None if it gives none."""
        line = self.line(LOGGED_CONFIG)
        return line.metadata.get("token") if line else None

    @cached_property
    def lines_of(self) -> dict[str, list[Line]]:
        """The well-formed lines of the log by key."""
        lines: dict[str, list[Line]] = {}
        for line in self.lines:
            if not line.problem:
                lines.setdefault(line.key, []).append(line)
        return lines

    @cached_property
    def readable(self) -> bool:
        """Whether every line of the log is well-formed, so that what is missing from it was never there."""
        return bool(self.lines) and not any(line.problem for line in self.lines)

    @cached_property
    def timeline(self) -> Timeline:
        """What happened in which order."""
        return timeline(self.lines, self.benchmark.hyperparameters if self.benchmark else ())

    @cached_property
    def changed(self) -> frozenset[str]:
        """The files whose content differs from what was sealed."""
        sealed = (self.sealed or {}).items()
        return frozenset(name for name, seal in sealed if self.digests.get(name, digest(b"")) != seal)

    @cached_property
    def benchmark(self) -> Benchmark | None:
        """The suite's own benchmark of the name that the log gives, None if there is none of that name.

        In the open division it has the configuration's evaluations and budget. With a `subset` in the configuration, it
        is the pilot with that share of the data.
        """
        name = self.value(keys.SUBMISSION_BENCHMARK)
        task, _, scale = name.partition("/") if isinstance(name, str) else ("", "", "")
        if task not in config.names("task") or scale not in config.scales(task):
            return None
        benchmark = config.benchmark(task, scale)
        own = self.configured("benchmark")
        share = self.configured("benchmark", "dataset", "subset")
        if type(share) is float and 0 < share < 1 and benchmark.dataset.shards:
            benchmark = benchmark.of_subset(share)
        return evaluated_when(benchmark, own) if self.in_open and isinstance(own, dict) else benchmark


RUN: Checks[Evidence] = Checks()
RESULT: Checks[Sequence[Evidence]] = Checks()  # the runs of one result
PACKAGE: Checks[Sequence[Evidence]] = Checks()  # all runs that are reviewed together, of one result or of several


def _unsafe(name: str, found: str) -> Finding:
    return Finding(name, None, "plain files of moderate size, no links", found, FOLDER_AS_WRITTEN)
