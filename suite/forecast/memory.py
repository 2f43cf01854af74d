"""Tell for `dry_run=true` how much accelerator memory a worker takes, by shapes alone, in another process."""

from __future__ import annotations

import importlib
import multiprocessing
import os
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any, cast

from suite.config.models import Benchmark, Framework, System
from suite.errors import UserError
from suite.harness.contract import training_data
from suite.harness.implementation import Device, frameworks, load_implementation
from suite.probe import instruments
from suite.store import files
from suite.store.arrays import prepared
from suite.store.modules import load_shaping
from suite.store.packages import lacking
from suite.store.task import Arrays, load_task

LONGEST_S = 120.0
SEED = 1


@dataclass(frozen=True)
class Footprint:
    """Bytes that a worker takes; None if that is not known, and `why`."""

    bytes: int | None
    why: str = ""

    def line(self, system: System) -> str:
        """The footprint in words, beside what an accelerator of the system has."""
        if self.bytes is None:
            return f"not known: {self.why}"
        has = f", which has {system.memory_gb:g} GB" if system.memory_gb else ""
        how = "by shapes, every operator by itself, without evaluations"
        return f"{self.bytes / 1e9:.3g} GB of each worker's accelerator{has}: {how}"

    def problem(self, system: System) -> str | None:
        """A warning that the accelerator may be too small, and what to do; None if it fits or that is not known."""
        if self.bytes is None or not system.memory_gb or self.bytes <= system.memory_gb * 1e9:
            return None
        return (
            f"{self.bytes / 1e9:.3g} GB may not fit into the {system.memory_gb:g} GB of an accelerator of "
            f"hw={system.name}: take a precision of fewer bits, or accelerators with more memory"
        )


def needed(
    benchmark: Benchmark, system: System, framework: Framework, precision: str, data_dir: str | None
) -> Footprint:
    """The most that a worker's build and its first training step hold. No data is fetched if none is at hand.

    Evaluations, training data that a task keeps on the device, and what libraries take are not counted.
    """
    if not system.accelerator:
        return Footprint(None, "processors share the machine's; python -m suite.probe level=memory tells of steps")
    if problem := lacking(benchmark.task, framework):
        return Footprint(None, problem)
    if framework.name not in (tell := [each for each in frameworks(benchmark.task) if find_spec(_instrument(each))]):
        others = f"; framework={' or '.join(tell)} tells what that takes" if tell else ""
        return Footprint(None, f"nothing tells it of {framework.title} away from the accelerator{others}")
    context = multiprocessing.get_context("spawn")
    told, telling = context.Pipe(False)
    process = context.Process(target=_tell, args=(telling, benchmark, system, framework, precision, data_dir))
    process.start()
    telling.close()
    try:
        late = Footprint(None, f"it takes more than {LONGEST_S:.0f} s to tell")
        return cast(Footprint, told.recv()) if told.poll(LONGEST_S) else late
    except EOFError:
        return Footprint(None, "the process that was to tell it ended")
    finally:
        process.kill()


def _tell(telling: Connection, *asked: Any) -> None:
    """Send the footprint through the pipe, without the warnings of libraries."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    telling.send(_by_shapes(*asked))


def _by_shapes(
    benchmark: Benchmark, system: System, framework: Framework, precision: str, data_dir: str | None
) -> Footprint:
    try:
        data = training_data(_arrays(benchmark, data_dir))
        module = load_implementation(benchmark.task, framework)
        addresses = ("",) * system.world_size if system.world_size > 1 else ()
        device = Device("gpu", precision, addresses=addresses, memory_gb=system.memory_gb, imagined=True)
        instrument = importlib.import_module(_instrument(framework.name))
        return Footprint(instrument.needed(lambda: module.build(benchmark.hyperparameters, data, SEED, device)))
    except UserError as error:
        return Footprint(None, str(error))
    except Exception as error:  # of a library whose operators need values or do not know the device
        return Footprint(None, f"shapes alone do not tell ({type(error).__name__}: {error})".split("\n")[0])


def _instrument(framework: str) -> str:
    return f"{instruments.__name__}.{framework}_needed"


def _arrays(benchmark: Benchmark, data_dir: str | None) -> Arrays:
    """The arrays that `build` is given. Raises UserError if it takes data that is not at hand."""
    shaping = load_shaping(benchmark.task)
    if shaping and (shaped := shaping.shaped(benchmark.scale)):
        return shaped
    if files.faults(benchmark.dataset, files.root(data_dir), "size"):
        raise UserError(f"it takes the data: {files.fetching(benchmark.name, data_dir)}")
    return prepared(benchmark, load_task(benchmark.task), data_dir)
