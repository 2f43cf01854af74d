"""Workers that the suite starts itself, on this machine, and the share of its processors that each worker takes."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from suite.harness.interrupt import SIGNALS
from suite.harness.workers.channel import free_port
from suite.harness.workers.place import LOCALHOST, OWN, Place
from suite.measure.cpus import usable_cpus, usable_indices
from suite.record.environment import STARTED
from suite.store.processes import blocked

THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
NODES = Path("/sys/devices/system/node")
_END_S = 5.0


@contextlib.contextmanager
def started(
    place: Place, world_size: int, module: str = "suite.run"
) -> Iterator[tuple[Place, list[subprocess.Popen[bytes]]]]:
    """Start all workers but the leader on this machine; yield the leader's place among `world_size` and the processes.

    If a launcher has started this process, at `place`, there are none to start. The workers run `module` and look for
    modules where the leader does, whatever the current folder holds. They end with the connection to the leader, or
    with the block. They ignore signals, which are left to the leader to handle.
    """
    if place.launcher:
        yield place, []
        return
    place = Place(0, world_size, 0, world_size, 0, LOCALHOST, free_port(), secrets.token_hex(), "suite")
    command = [sys.executable, "-P", "-m", module]
    processes = []
    try:
        with blocked(*SIGNALS):
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


def take_share(place: Place, environ: MutableMapping[str, str] = os.environ) -> None:
    """Give this worker its share of its node's CPUs: as many threads and, with several NUMA nodes, CPUs of one region.

    Call it before a framework is imported, which reads the number of threads then. What the user has set stays; srun
    binds CPUs itself. PyTorch's workers are also kept from meeting at torchrun's own store, which is none of the run's
    addresses.
    """
    environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    if place.local_size == 1:
        return
    threads = max(1, usable_cpus() // place.local_size)
    if place.launcher == "torchrun" and environ.get("OMP_NUM_THREADS") == "1" and not _began_with("OMP_NUM_THREADS"):
        for variables in (environ, STARTED):
            variables.pop("OMP_NUM_THREADS", None)  # torchrun's own, on any machine
    for name in THREADS:
        environ.setdefault(name, str(threads))
    ordered = by_numa_node(usable_indices())
    if place.launcher != "srun" and len(list(NODES.glob("node[0-9]*"))) > 1 and len(ordered) >= place.local_size:
        first = place.local_rank * len(ordered) // place.local_size
        last = (place.local_rank + 1) * len(ordered) // place.local_size
        os.sched_setaffinity(0, ordered[first:last])


def _began_with(name: str) -> bool:
    """Whether the launcher that started this process was given the variable itself; True if that cannot be read."""
    try:
        variables = Path(f"/proc/{os.getppid()}/environ").read_bytes().split(b"\0")
    except OSError:
        return True
    return any(each.startswith(f"{name}=".encode()) for each in variables)


def by_numa_node(indices: list[int]) -> list[int]:
    """The CPUs, ordered by NUMA node."""

    def node(index: int) -> int:
        found = (NODES.parent / "cpu" / f"cpu{index}").glob("node[0-9]*")
        return min((int(each.name.removeprefix("node")) for each in found), default=0)

    return sorted(indices, key=lambda index: (node(index), index))
