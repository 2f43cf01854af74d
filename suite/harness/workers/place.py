"""This process's place among a run's workers, as told by what started it: torchrun, srun, or the suite itself."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from suite.errors import UserError, whole

OWN = "SUITE_WORKER"  # set for workers that the suite starts: rank, world size, port and key
PORT = "SUITE_PORT"  # where the leader listens, if not at the launcher's port
LOCALHOST = "127.0.0.1"
_SLURM_PORTS = range(20_000, 60_000)
_LAST_PORT = 65_535
_OTHERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "WORLD_SIZE")  # of MPI's launchers, and of others


@dataclass(frozen=True)
class Place:
    """A worker's `rank` among `world_size` workers, and its `local_rank` among the `local_size` on node number `node`.

    The leader listens at `host` and `port`; `key` keeps out workers of other runs. `launcher` is what started all
    workers, None for a process that was not started as one of several; `restarts` is how often it did so before.
    torchrun does not count it on a node none of whose workers was the first to end: `launched_s`, in seconds since
    1970, is when it was started itself.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_size: int = 1
    node: int = 0
    host: str = LOCALHOST
    port: int = 0
    key: str = ""
    launcher: str | None = None
    restarts: int = 0
    launched_s: float | None = None

    @property
    def follows(self) -> bool:
        """Whether another process leads."""
        return self.rank > 0

    def own(self, rank: int) -> str:
        """The value of OWN that tells the worker of that rank, started by this leader, its place."""
        return f"{rank} {self.world_size} {self.port} {self.key}"


def find(environ: Mapping[str, str] = os.environ) -> Place:
    """The place that the environment tells.

    Raises UserError if a launcher tells only a part of it, or is an unknown one: each process would train alone.
    """
    try:
        if OWN in environ:
            rank, size, port, key = environ[OWN].split()
            return Place(int(rank), int(size), int(rank), int(size), 0, LOCALHOST, int(port), key, "suite")
        if "TORCHELASTIC_RUN_ID" in environ:
            return _torchrun(environ)
        of_step = int(environ.get("SLURM_STEP_NUM_TASKS", 1))
        for name in _OTHERS:  # mpirun may start its own process on each node by srun, and the workers by that
            if int(environ.get(name) or 1) not in (1, of_step):
                raise UserError(
                    f"{name}={environ[name]}: a launcher that is neither torchrun nor srun started several processes; "
                    f"start them with torchrun --nproc-per-node=... -m suite.run ... or srun python -m suite.run ..., "
                    "or on one machine give the command once, and it starts its own"
                )
        if of_step > 1 and "SLURM_PROCID" in environ:
            return _slurm(environ)
        return Place(restarts=_requeued(environ))
    except (KeyError, ValueError, OSError, psutil.Error, subprocess.SubprocessError) as error:
        raise UserError(
            f"the launcher of this worker does not tell its place ({error}): use torchrun or srun"
        ) from None


def _torchrun(environ: Mapping[str, str]) -> Place:
    """https://docs.pytorch.org/docs/stable/elastic/run.html, "Environment Variables"."""
    return Place(
        rank=int(environ["RANK"]),
        world_size=int(environ["WORLD_SIZE"]),
        local_rank=int(environ["LOCAL_RANK"]),
        local_size=int(environ["LOCAL_WORLD_SIZE"]),
        node=int(environ["GROUP_RANK"]),
        host=environ["MASTER_ADDR"],
        port=_port(environ, int(environ["MASTER_PORT"]) + 1),  # torchrun itself listens at MASTER_PORT
        key=environ["TORCHELASTIC_RUN_ID"],
        launcher="torchrun",
        restarts=int(environ.get("TORCHELASTIC_RESTART_COUNT", 0)) + _requeued(environ),
        launched_s=psutil.Process(os.getppid()).create_time(),
    )


def _slurm(environ: Mapping[str, str]) -> Place:
    """https://slurm.schedmd.com/srun.html, "OUTPUT ENVIRONMENT VARIABLES".

    Raises UserError where the first node need not be rank 0's.
    """
    if environ.get("SLURM_DISTRIBUTION") == "arbitrary":
        raise UserError(
            "srun --distribution=arbitrary, or SLURM_HOSTFILE, may start rank 0 on another node than the first, where "
            "the leader belongs: leave it out"
        )
    first = _first_node(environ["SLURM_STEP_NODELIST"])
    job, step, node = int(environ["SLURM_JOB_ID"]), int(environ["SLURM_STEP_ID"]), int(environ["SLURM_NODEID"])
    return Place(
        rank=int(environ["SLURM_PROCID"]),
        world_size=int(environ["SLURM_STEP_NUM_TASKS"]),
        local_rank=int(environ["SLURM_LOCALID"]),
        local_size=_tasks_of_node(environ["SLURM_STEP_TASKS_PER_NODE"], node),
        node=node,
        host=_address_of_node(first),
        port=_port(environ, _SLURM_PORTS[(16 * job + step) % len(_SLURM_PORTS)]),
        key=f"{job}.{step}",
        launcher="srun",
        restarts=_requeued(environ),
    )


def _requeued(environ: Mapping[str, str]) -> int:
    """How often SLURM has started this process's job again."""
    return int(environ.get("SLURM_RESTART_COUNT", 0))


def _first_node(nodes: str) -> str:
    """The first node in SLURM's short form, `gpu[003-010,012],login`, without scontrol, which containers lack."""
    first = re.match(r"(?:[^\[,]|\[[^\]]*\])+", nodes)
    if first is None:
        raise ValueError(f"no node in {nodes!r}")
    return re.sub(r"\[([^\],-]+)[^\]]*\]", r"\1", first[0])


def _port(environ: Mapping[str, str], usual: int) -> int:
    """The port at which the leader listens. Raises UserError for an invalid one."""
    return whole(PORT, environ.get(PORT, str(usual)), _LAST_PORT)


def _address_of_node(name: str) -> str:
    """The name of a node, or the address that SLURM has for it if the name cannot be resolved."""
    with contextlib.suppress(OSError):
        socket.getaddrinfo(name, None)
        return name
    shown = ["scontrol", "--oneliner", "show", "node", name]
    told = subprocess.run(shown, capture_output=True, text=True, check=True, timeout=30).stdout
    return dict(word.split("=", 1) for word in told.split() if "=" in word)["NodeAddr"]


def _tasks_of_node(text: str, node: int) -> int:
    """The number of tasks of a node, from SLURM's short form: `2(x3),1` is two on each of the first three, then one."""
    counts: list[int] = []
    for part in text.split(","):
        tasks, _, times = part.partition("(x")
        counts += [int(tasks)] * int(times.rstrip(")") or 1)
    return counts[node]
