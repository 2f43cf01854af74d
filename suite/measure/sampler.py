"""Writes power.csv while a run trains: counters and load, about once a second, from a thread of its own."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path

import pynvml
from zeus.device import get_cpus
from zeus.device.cpu.rapl import RAPLCPU, RAPLFile, ZeusdRAPLCPU
from zeus.device.gpu.nvidia import NVIDIAGPU
from zeus.exception import ZeusBaseError

from suite.errors import UserError
from suite.measure import nvml
from suite.measure.energy import HEADER, Energy, Sample, SamplesError, energy, format_row, read_samples, rounded
from suite.measure.load import Load, LoadMeter

INTERVAL_S = 1.0


class Counters:
    """The energy counters of what a run on `device` uses: CPUs and their memory, and on a `gpu` the accelerators."""

    def __init__(self, device: str) -> None:
        self._handles = nvml.visible()[0] if device == "gpu" else []
        self._accelerators: list[NVIDIAGPU] = []
        self._packages: list[RAPLCPU] = []
        with suppress(ZeusBaseError):
            self._accelerators = [NVIDIAGPU(index) for index, _ in self._handles]
        with suppress(ZeusBaseError, OSError, ValueError):  # no counters, or not for this user
            self._packages = [each for each in get_cpus().cpus if _is_package(each)]

    def joules(self) -> tuple[float | None, float | None, float | None]:
        """Joules so far of all accelerators, CPU packages and memory; None for a counter that is not there or fails."""
        try:
            accelerators = [each.get_total_energy_consumption() / 1000 for each in self._accelerators]
        except ZeusBaseError:
            accelerators = []
        try:
            cpus = [_package_joules(each) for each in self._packages]
        except (ZeusBaseError, OSError, ValueError):
            cpus = []
        memory = [joules for _, joules in cpus if joules is not None]
        return _sum(accelerators), _sum([joules for joules, _ in cpus]), _sum(memory)

    def accelerator_utilisation(self) -> float | None:
        """The mean over the accelerators of the fraction of time, of late, in which they computed."""
        try:
            rates = [pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100 for _, handle in self._handles]
        except pynvml.NVMLError:
            return None
        return sum(rates) / len(rates) if rates else None


class Sampler:
    """Samples from `start()` to `stop()` into `path`, going on with the file that an interrupted run left.

    `clock` gives milliseconds since 1970, `ceiling_w` the power ceiling that an estimate is made from, `device` what
    the run trains on, `cpu` or `gpu`. A disk that refuses a row ends the sampling, not the run.
    """

    def __init__(self, path: Path, clock: Callable[[], int], ceiling_w: float | None, device: str) -> None:
        self._path, self._clock, self._ceiling_w, self._device = path, clock, ceiling_w, device
        self._counters = Counters(device)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="sampler", daemon=True)
        self._joules: float | None = None
        self._source: str | None = None
        self._last: Sample | None = None
        self._refused = False

    def start(self) -> None:
        """Write the first row and begin.

        Raises OSError if the file cannot be written, UserError if it is there and holds no samples.
        """
        content = self._path.read_bytes() if self._path.exists() else b""
        kept = content.rfind(b"\n") + 1  # without a row that a kill has torn
        if kept:
            self._go_on()
        self._file = FileIO(self._path, "ab")
        self._file.truncate(kept)
        if not kept:
            self._write(HEADER)
        self._write_row(Load(None, None, None))  # of the time that nobody watched
        self._meter = LoadMeter()
        self._thread.start()

    def stop(self) -> None:
        """Write the last row and end."""
        self._stopped.set()
        self._thread.join()
        if not self._refused:
            with suppress(OSError):
                self._sample()
        self._file.close()

    def so_far(self) -> tuple[float | None, str | None]:
        """Joules measured so far, and their source."""
        return self._joules, self._source

    def _work(self) -> None:
        while not self._stopped.wait(INTERVAL_S):
            try:
                self._sample()
            except OSError:
                self._refused = True
                return

    def _go_on(self) -> None:
        try:
            samples = read_samples(self._path)
        except SamplesError as error:
            raise UserError(f"{self._path}: {error}: delete it to go on without its samples") from error
        if samples:
            self._last = samples[-1]
            self._count(energy(samples, samples[0].time_ms, samples[-1].time_ms, self._ceiling_w))

    def _sample(self) -> None:
        load = self._meter.read()
        if self._device != "cpu":
            load = load._replace(utilisation=self._counters.accelerator_utilisation())
        self._write_row(load)

    def _write_row(self, load: Load) -> None:
        sample = rounded(Sample(self._clock(), *self._counters.joules(), *load))
        last = self._last
        if last and sample.time_ms <= last.time_ms:
            return
        self._write(format_row(sample))
        self._last = sample
        if last:
            self._count(energy([last, sample], last.time_ms, sample.time_ms, self._ceiling_w))

    def _write(self, line: str) -> None:
        content = line.encode() + b"\n"
        if self._file.write(content) != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _count(self, used: Energy) -> None:
        if used.joules is not None:
            self._joules, self._source = (self._joules or 0.0) + used.joules, used.source


def _is_package(cpu: RAPLCPU) -> bool:
    """Whether this is a CPU package; a zone named psys is the whole platform, packages included."""
    return isinstance(cpu, ZeusdRAPLCPU) or cpu.rapl_file.name.startswith("package")


def _package_joules(cpu: RAPLCPU) -> tuple[float, float | None]:
    """Joules of a package and of its memory, if that is counted."""
    if isinstance(cpu, ZeusdRAPLCPU):
        read = cpu.get_total_energy_consumption()
        return read.cpu_mj / 1000, None if read.dram_mj is None else read.dram_mj / 1000
    return _zone_joules(cpu.rapl_file), _zone_joules(cpu.dram) if cpu.dram else None


def _zone_joules(zone: RAPLFile) -> float:
    """The raw counter. Zeus's own `read` starts a process that counts wraps, which would outlive a killed run."""
    return int(Path(zone.energy_uj_path).read_text()) / 1e6


def _sum(values: list[float]) -> float | None:
    return sum(values) if values else None
