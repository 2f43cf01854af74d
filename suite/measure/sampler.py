"""Writes power.csv while a run trains: counters and load, about once a second, from a thread of its own."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from zeus.exception import ZeusBaseError

from suite.errors import UserError
from suite.measure import accelerators
from suite.measure.energy import Energy, energy
from suite.measure.load import Load, LoadMeter, fraction
from suite.measure.samples import MAX_BYTES, Sample, SamplesError, format_row, header, read_samples, rounded

if TYPE_CHECKING:
    from zeus.device.cpu.rapl import RAPLCPU, RAPLFile

INTERVAL_S = 1.0


class Counters:
    """The energy counters of what a run on `device` uses: CPUs and their memory, and on a `gpu` the accelerators."""

    def __init__(self, device: str) -> None:
        from zeus.device import get_cpus  # where it is used: it takes a quarter of a second to import

        found = accelerators.find() if device == "gpu" else None
        self._accelerators = found.devices if found else []
        self.library = found.library if found else None
        self._packages: list[RAPLCPU] = []
        with suppress(ZeusBaseError, OSError, ValueError):  # no counters, or not for this user
            rapl = get_cpus()
            self._packages = [each for each in rapl.cpus if _is_package(each, Path(rapl.rapl_dir))]
        self.joules()  # the first reading takes AMD SMI half a second

    def joules(self) -> tuple[float | None, float | None, float | None]:
        """Joules so far of all accelerators, CPU packages and memory; None for a counter that is not there or fails."""
        try:
            cpus = [_package_joules(each) for each in self._packages]
        except Exception:  # besides those of files and of Zeus, its daemon's client raises httpx's
            cpus = []
        memory = [joules for _, joules in cpus if joules is not None]
        drawn = _all_known([each.joules() for each in self._accelerators])
        return _sum(drawn), _sum([joules for joules, _ in cpus]), _sum(memory)

    def accelerator_utilisation(self) -> float | None:
        """The mean over the accelerators of the fraction of recent time in which they computed; None if not known."""
        rates = _all_known([each.utilisation() for each in self._accelerators])
        return fraction(sum(rates) / len(rates)) if rates else None


class Meter:
    """Reads counters and load of this machine; `workers` are the run's other processes here, see `LoadMeter`."""

    def __init__(self, device: str, workers: Sequence[int] = ()) -> None:
        self._device, self._workers = device, workers
        self._counters = Counters(device)
        self.library = self._counters.library
        self._load: LoadMeter | None = None

    def sample(self, time_ms: int) -> Sample:
        """Return the counters now and the load since the last call; at the first call the load is not known."""
        joules = self._counters.joules()  # before the load, for which all processes may be gone through
        if self._load is None:
            self._load = LoadMeter(self._workers)
            load = Load(None, None, None)
        else:
            load = self._load.read()
            if self._device != "cpu":
                load = load._replace(utilisation=self._counters.accelerator_utilisation())
        return rounded(Sample(time_ms, *joules, *load))


class Beat:
    """Calls `work` every INTERVAL_S from a thread of its own, until `stop()`, or until it raises OSError."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work, self._stopped = work, threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, then call `work` a last time."""
        self._stopped.set()
        self._thread.join()
        with suppress(OSError):
            self._work()

    def _run(self) -> None:
        with suppress(OSError):
            while not self._stopped.wait(INTERVAL_S):
                self._work()


class Sampler:
    """Appends samples to `path` from `start()` to `stop()`, also to the file that an interrupted run left.

    `clock` returns milliseconds since 1970. `ceiling_w` is the power ceiling of a node, for estimates. `device`, `cpu`
    or `gpu`, is what the run trains on. `workers` are the run's other processes on this machine; `nodes` is the number
    of machines. If the disk refuses a row, or the file reaches `MAX_BYTES`, sampling ends but the run goes on.
    """

    def __init__(
        self,
        path: Path,
        clock: Callable[[], int],
        ceiling_w: float | None,
        device: str,
        workers: Sequence[int] = (),
        nodes: int = 1,
    ) -> None:
        self._path, self._clock, self._ceiling_w, self._nodes = path, clock, ceiling_w, nodes
        self._meter = Meter(device, workers)
        self._joules: float | None = None
        self._source: str | None = None
        self._last: dict[int, Sample] = {}
        self._writing = threading.RLock()

    def start(self) -> None:
        """Write the first row and begin.

        Raises OSError if the file cannot be written, UserError if it exists and is not a valid power.csv.
        """
        content = self._path.read_bytes() if self._path.exists() else b""
        kept = content.rfind(b"\n") + 1  # without a row that a kill cut off
        if kept:
            self._go_on()
        self._file = FileIO(self._path, "ab")
        self._file.truncate(kept)
        if not kept:
            self._write(header(self._nodes))
        self.sample()
        self._beat = Beat(self.sample)

    def stop(self) -> None:
        """Write the last row and end."""
        self._beat.stop()
        with self._writing:
            self._file.close()

    def sample(self) -> None:
        """Write a row now. Raises OSError as `add` does."""
        with self._writing:
            self.add(self._meter.sample(self._clock()))

    def add(self, sample: Sample) -> None:
        """Write a row, of this or another node. Raises OSError if the disk does not take it whole; no row follows then.

        Rows are left out that come after `stop()`, that are not later than their node's last one, or that lie beyond
        `MAX_BYTES`, which nobody would read.
        """
        row = format_row(sample, self._nodes)
        with self._writing:
            last = self._last.get(sample.node)
            if self._file.closed or self._file.tell() + len(row) >= MAX_BYTES:
                return
            if last and sample.time_ms <= last.time_ms:
                return
            try:
                self._write(row)
            except OSError:
                self._file.close()
                raise
            self._last[sample.node] = sample
            if last:
                pair = [last._replace(node=0), sample._replace(node=0)]
                self._count(self._used(pair, 1))

    def so_far(self) -> tuple[float | None, str | None]:
        """Joules measured so far, and their source."""
        return self._joules, self._source

    def _go_on(self) -> None:
        try:
            samples = read_samples(self._path)
        except SamplesError as error:
            raise UserError(f"{self._path}: {error}: delete it to go on without its samples") from error
        if samples:
            self._last = {sample.node: sample for sample in samples}
            self._count(self._used(samples, self._nodes))

    def _write(self, line: str) -> None:
        content = line.encode() + b"\n"
        if self._file.write(content) != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _used(self, samples: Sequence[Sample], nodes: int) -> Energy:
        start_ms, stop_ms = samples[0].time_ms, samples[-1].time_ms
        return energy(samples, start_ms, stop_ms, self._ceiling_w, nodes, self._meter.library)

    def _count(self, used: Energy) -> None:
        if used.joules is not None:
            self._joules, self._source = (self._joules or 0.0) + used.joules, used.source


def _is_package(cpu: RAPLCPU, zones: Path) -> bool:
    """Whether this is a CPU package; a zone named psys is the whole platform, packages included."""
    return (zones / f"intel-rapl:{cpu.cpu_index}" / "name").read_text().startswith("package")


def _by_daemon(cpu: RAPLCPU) -> bool:
    from zeus.device.cpu.rapl import ZeusdRAPLCPU  # as above

    return isinstance(cpu, ZeusdRAPLCPU)


def _package_joules(cpu: RAPLCPU) -> tuple[float, float | None]:
    """Joules of a package and of its memory, if that is counted."""
    if _by_daemon(cpu):
        read = cpu.get_total_energy_consumption()
        return read.cpu_mj / 1000, None if read.dram_mj is None else read.dram_mj / 1000
    return _zone_joules(cpu.rapl_file), _zone_joules(cpu.dram) if cpu.dram else None


def _zone_joules(zone: RAPLFile) -> float:
    """Read the counter itself: Zeus's `read` starts a process to count wraps, which would outlive a killed run."""
    return int(Path(zone.energy_uj_path).read_text()) / 1e6


def _all_known(values: Sequence[float | None]) -> list[float]:
    """The values if all are known, else an empty list."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def _sum(values: list[float]) -> float | None:
    return sum(values) if values else None
