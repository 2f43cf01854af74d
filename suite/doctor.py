"""`python -m suite.doctor`: what this machine has, what each benchmark needs, what is missing and how to get it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from socket import AF_INET, AF_INET6
from typing import TYPE_CHECKING

import psutil
from rich.console import Console
from rich.table import Table

from suite import config
from suite.config.dataset import Dataset
from suite.config.models import Framework
from suite.errors import UserError, command, split_options, unknown, whole
from suite.harness.implementation import frameworks, written
from suite.harness.workers import place as places
from suite.harness.workers import starting
from suite.harness.workers.place import Place
from suite.measure import machine, systems
from suite.measure.accelerators import amd, nvidia
from suite.measure.machine import Machine
from suite.measure.sampler import Counters
from suite.record.system import versions
from suite.record.tables import plain_console, show_table
from suite.store import files, packages

if TYPE_CHECKING:
    from suite.probe.instruments.torch_all_reduce import AllReduce

HELP = """\
usage: python -m suite.doctor [data_dir=FOLDER] [workers=N]

What this machine has, what each benchmark needs, what is missing and the command that brings it.
data_dir= is the data folder to look into; without it SUITE_DATA, else a folder in the user's cache folder.
workers=N starts as many processes here and measures how fast they sum arrays over each other (all-reduce, PyTorch);
started by torchrun or srun it does so with the workers that these started, on as many machines. What this makes of
their link it prints as options of suite.forecast.
"""
RAPL = Path("/sys/class/powercap")

CUDNNS = {"nvidia-cudnn-cu12", "nvidia-cudnn-cu13"}
OPTIONS = ("data_dir", "workers")
MOST_WORKERS = 1024
SUMS = ("bytes", "microseconds", "bus bandwidth, Gbit/s")
Row = Sequence[str]


def main(argv: list[str]) -> int:
    """Print the report. Raises UserError for a mistake in an option, and for a data folder that is not a folder."""
    if {"-h", "--help"} & set(argv):
        print(HELP, end="")
        return 0
    options, others = split_options(argv, OPTIONS)
    if others:
        raise unknown("option", others[0], OPTIONS)
    place, workers = places.find(), whole("workers", options.get("workers", "1"), MOST_WORKERS)
    if (place.launcher or workers > 1) and find_spec("torch") is None:
        raise UserError(f"workers= sums with PyTorch, which is not installed: {packages.with_extras('torch')}")
    found = machine.detect()
    gpus = len(found.accelerators)
    if not place.launcher and 0 < gpus < workers:
        raise UserError(f"workers={workers}: each takes an accelerator, of which this machine has {gpus}")
    if place.follows:
        deque(_all_reduces(place), maxlen=0)
        return 0
    root = files.root(options.get("data_dir"))
    counters = Counters("gpu").joules()
    console = plain_console(1000)  # a line for each row, however long
    _show(console, "This machine", ["part", "found"], [*_parts(found, counters, root), *_network(place)])
    if place.launcher or workers > 1:
        with starting.started(place, workers, "suite.doctor") as (led, _):
            _show_sums(console, list(_all_reduces(led)), led.world_size)
        if place.launcher:
            return 0
    _show(console, "Benchmarks", ["benchmark", "what", "data", *written()], list(_benchmarks(root)))
    _show(console, "A run to the target", ["benchmark", "forecast"], list(_forecasts(found)))
    missing = list(_missing(options.get("data_dir"), counters, found))
    _show(console, "Missing", ["what", "how to get it"], missing or [["nothing", ""]])
    return 0


def _parts(found: Machine, counters: Sequence[float | None], root: Path) -> Iterator[Row]:
    system = systems.resolve(config.system(systems.AUTO), found)
    accelerators = Counter(f"{each.name}, {each.memory_gb:g} GB" for each in found.accelerators)
    hidden = (
        f"; {found.hidden_accelerators} hidden by CUDA_VISIBLE_DEVICES or its like" if found.hidden_accelerators else ""
    )
    names = (f"accelerators ({found.library})", "CPU (RAPL)", "memory (RAPL)")
    read = [name for name, joules in zip(names, counters, strict=True) if joules is not None]
    yield "CPU", found.cpu_model
    yield "logical CPUs", f"{found.logical_cpus}"
    yield "memory", f"{found.memory_gb:g} GB"
    yield "accelerators", ("; ".join(f"{n} x {name}" for name, n in accelerators.items()) or "none") + hidden
    if found.driver:
        yield "driver", found.driver
    yield "training precision", systems.precision_of(system, found)
    yield "energy counters", ", ".join(read) or "none: energy is estimated from load"
    yield "data folder", f"{root}, {files.free_bytes(root) / 1e9:.1f} GB free"
    yield "system", f"hw={system.name}: {system.title}"


def _network(place: Place) -> Iterator[Row]:
    for name, state in psutil.net_if_stats().items():
        addresses = [each.address for each in psutil.net_if_addrs().get(name, []) if each.family in (AF_INET, AF_INET6)]
        if state.isup and addresses:
            speed = f", {state.speed} Mbit/s" if state.speed else ""
            yield f"network {name}", f"{', '.join(addresses)}{speed}"
    if place.launcher:
        yield (
            "started by",
            f"{place.launcher}: rank {place.rank} of {place.world_size}, {place.local_size} on this node",
        )


def _all_reduces(place: Place) -> Iterator[AllReduce]:
    """Measure the all-reduce of each size, as the worker at `place`."""
    from suite.probe.instruments.torch_all_reduce import measured  # where it is asked for: it imports PyTorch

    starting.take_share(place)
    yield from measured(place, place.port, "gpu" if machine.detect().accelerators else "cpu")


def _show_sums(console: Console, found: Sequence[AllReduce], workers: int) -> None:
    """Print the time of each size, and the link with which a ring (`suite.forecast.workers.ring`) takes as long."""
    rows = [(f"{each.nbytes:,}", f"{each.seconds * 1e6:,.0f}", f"{each.bandwidth * 8 / 1e9:.3g}") for each in found]
    _show(console, f"All-reduce, {workers} workers", SUMS, rows)
    if workers > 1:  # torchrun and srun may start one
        gb_per_s, latency_us = found[-1].bandwidth / 1e9, 1e6 * found[0].seconds / (2 * (workers - 1))
        console.print(f"For suite.forecast: hw.link_gb_per_s={gb_per_s:.3g} hw.link_latency_us={latency_us:.1f}\n")


def _benchmarks(root: Path) -> Iterator[Row]:
    for task in config.names("task"):
        states = [_packages(task, framework) for framework in _frameworks()]
        for benchmark in config.benchmarks(task):
            yield benchmark.name, benchmark.title, _data(benchmark.dataset, root), *states


def _forecasts(found: Machine) -> Iterator[Row]:
    """The forecast of each benchmark on this machine, without a probe."""
    from suite.forecast import roughly  # where it is asked for: it imports the probe

    system = systems.resolve(config.system(systems.AUTO), found)
    for benchmark in config.benchmarks():
        precision = systems.precision_of(system, found, benchmark)
        yield benchmark.name, roughly.line(benchmark, system, found, precision, "")


def _packages(task: str, framework: Framework) -> str:
    """Whether the packages that a task in a framework needs are installed; nothing is imported."""
    if framework.name not in frameworks(task):
        return "not written"
    return "missing" if packages.missing(task, framework) else "installed"


def _missing(data_dir: str | None, counters: Sequence[float | None], found: Machine) -> Iterator[Row]:
    root = files.root(data_dir)
    for task in config.names("task"):
        for framework in _frameworks():
            if framework.name in frameworks(task) and (names := packages.missing(task, framework)):
                what = f"{task} in {framework.title}: {packages.listed(names)}"
                yield what, packages.install(task, framework)
    yield from _unusable(found)
    for framework in _frameworks() if found.accelerators else []:
        if why := packages.without_compiler(framework):
            yield f"{framework.title}'s compiler", why
    if found.accelerators and versions().keys() >= CUDNNS:
        yield (
            "cuDNN and NCCL of one CUDA: those of 12 and 13 lie in the same files",
            "frameworks built for one and for the other in an environment each: docs/adding-a-machine.md",
        )
    if why := nvidia.broken():
        yield (
            f"NVML, which finds accelerators: {why}",
            "after an update of the driver reboot; in a container set NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        )
    if amd.KFD.exists() and not found.accelerators and not amd.answers():
        yield (
            "AMD SMI, which finds accelerators",
            "pip install amdsmi==VERSION, that of ROCm, 6.4 or newer: cat /opt/rocm/.info/version",
        )
    for benchmark in config.benchmarks():
        if files.missing_bytes(benchmark.dataset, root):
            need = files.needed_bytes(benchmark.dataset, root)
            enough = need <= files.free_bytes(files.folder_of(benchmark.dataset, root))
            room = "" if enough else f", with {need / 1e9:.1f} GB free on its disk: data_dir=FOLDER"
            yield f"data of {benchmark.name}", f"{files.fetching(benchmark.name, data_dir)}{room}"
    zones = RAPL.glob("intel-rapl:*/energy_uj")  # of packages and their parts: all are read, or none
    if counters[1] is None and not all(os.access(each, os.R_OK) for each in zones):
        yield "leave to read the CPU's energy counters", "sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj"


def _unusable(found: Machine) -> Iterator[Row]:
    """The installed frameworks whose import fails, or that see no accelerator where the machine has one.

    Each is tried in a process of its own, all at once.
    """
    installed = [framework for framework in _frameworks() if find_spec(framework.module)]
    tried = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", _counting(framework) if found.accelerators else f"import {framework.module}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        for framework in installed
    ]
    for framework, process in zip(installed, tried, strict=True):
        seen, said = process.communicate()
        if process.returncode:
            failure = said.strip().splitlines()[-1] if said.strip() else f"ended by signal {-process.returncode}"
            what = f"{framework.title}, which is installed and cannot be imported: {failure}"
            yield what, f"{packages.install(None, framework)} --force-reinstall"
        elif seen.strip() == "0":
            yield f"{framework.title} that sees this machine's accelerators", "docs/adding-a-machine.md"


def _counting(framework: Framework) -> str:
    """Code that prints how many accelerators a framework sees."""
    return f"import {framework.module}; print({framework.accelerators})"


def _frameworks() -> list[Framework]:
    return [config.framework(name) for name in written()]


def _data(dataset: Dataset, root: Path) -> str:
    found = files.status(dataset, root, "size")
    size = f" ({dataset.bytes / 1e6:.0f} MB)" if any(file.state != "present" for file in found) else ""
    return files.told(found) + size


def _show(console: Console, title: str, heads: Row, rows: Sequence[Row]) -> None:
    table = Table(*heads, box=None, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*row)
    show_table(console, table)
    console.print()


if __name__ == "__main__":
    command(main)
