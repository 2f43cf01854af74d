"""Workers that the suite starts itself, on this machine, and the share of its processors that each worker takes."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from suite.harness.interrupt import SIGNALS
from suite.harness.workers.channel import free_port
from suite.harness.workers.place import LOCALHOST, OWN, Place
from suite.measure.cpus import usable_cpus, usable_indices
from suite.record.environment import STARTED

THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
NODES = Path("/sys/devices/system/node")
_END_S = 5.0


@contextlib.contextmanager
def started(
    place: Place, world_size: int, module: str = "suite.run"
) -> Iterator[tuple[Place, list[subprocess.Popen[bytes]]]]:
    """The leader's place among `world_size` workers, and those that are started here, to be ended with the block.

    Where a launcher has started all at `place` there are none to be started, else all but the leader, on this machine.
    They run `module`, look for modules where the leader does, whatever lies in the current folder, and end with the
    connection to it. They ignore signals, which are the leader's to obey.
    """
    if place.launcher:
        yield place, []
        return
    place = Place(0, world_size, 0, world_size, 0, LOCALHOST, free_port(), secrets.token_hex(), "suite")
    command = [sys.executable, "-P", "-m", module]
    processes = []
    try:
        with _blocked_in_children():
            for rank in range(1, world_size):
                environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), OWN: place.own(rank)}
                processes.append(
                    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environ)
                )
        yield place, processes
    finally:
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
            process.kill()
            process.wait()


@contextlib.contextmanager
def _blocked_in_children() -> Iterator[None]:
    """Block `SIGNALS` in what is started in the block from its first moment on; in this process, while it lasts."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def take_share(place: Place, environ: MutableMapping[str, str] = os.environ) -> None:
    """Give this worker its share of its node's processors: as many threads, and where there are several NUMA nodes
    processors that lie together.

    Before a framework is imported, which reads the number of its threads then. What the user has set stays; srun binds
    by itself. torchrun would have PyTorch's workers meet at its own store, of which the run's addresses say nothing.
    """
    environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    if place.local_size == 1:
        return
    threads = max(1, usable_cpus() // place.local_size)
    if place.launcher == "torchrun" and environ.get("OMP_NUM_THREADS") == "1" and not _began_with("OMP_NUM_THREADS"):
        for variables in (environ, STARTED):
            variables.pop("OMP_NUM_THREADS", None)  # torchrun's own, of any machine
    for name in THREADS:
        environ.setdefault(name, str(threads))
    ordered = by_numa_node(usable_indices())
    if place.launcher != "srun" and len(list(NODES.glob("node[0-9]*"))) > 1 and len(ordered) >= place.local_size:
        first = place.local_rank * len(ordered) // place.local_size
        last = (place.local_rank + 1) * len(ordered) // place.local_size
        os.sched_setaffinity(0, ordered[first:last])


def _began_with(name: str) -> bool:
    """Whether the process that started this one, a launcher, was given the variable itself; so where nothing tells."""
    try:
        variables = Path(f"/proc/{os.getppid()}/environ").read_bytes().split(b"\0")
    except OSError:
        return True
    return any(each.startswith(f"{name}=".encode()) for each in variables)


def by_numa_node(indices: list[int]) -> list[int]:
    """The processors, those of one NUMA node beside each other."""

    def node(index: int) -> int:
        found = (NODES.parent / "cpu" / f"cpu{index}").glob("node[0-9]*")
        return min((int(each.name.removeprefix("node")) for each in found), default=0)

    return sorted(indices, key=lambda index: (node(index), index))
