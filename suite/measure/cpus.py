"""The CPUs that this process may use: those it is bound to, within its control group's quota."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from suite.measure import cgroup

ONLINE = Path("/sys/devices/system/cpu/online")


def bound(environ: Mapping[str, str] = os.environ) -> set[int]:
    """The indices of the logical CPUs that this process, and the workers that srun binds beside it, may run on.

    SLURM tells each worker the masks of all workers of its step on the node (srun's "OUTPUT ENVIRONMENT VARIABLES").
    """
    if not hasattr(os, "sched_getaffinity"):
        return set(range(os.cpu_count() or 1))
    own = os.sched_getaffinity(0)
    if environ.get("SLURM_CPU_BIND_TYPE") != "mask_cpu:":
        return own
    try:
        masks = [int(mask.partition("*")[0], 16) for mask in environ.get("SLURM_CPU_BIND_LIST", "").split(",")]
    except ValueError:  # no list, as in a job's script, or one in an unknown format
        return own
    tasks = [{index for index in range(mask.bit_length()) if mask >> index & 1} for mask in masks]
    return own.union(*tasks) if own in tasks else own  # else it was rebound since, for example by taskset


_AFFINITY = bound()
_OWN = bound({})


def own_cpus() -> int:
    """The number of logical CPUs that this process itself could run on when it started."""
    return len(_OWN)


def usable_indices() -> list[int]:
    """The indices of the logical CPUs that the run's workers on this node could use when this process started."""
    return sorted(_AFFINITY)


def usable_cpus() -> int:
    """The number of logical CPUs that this process may use, limited by its control group's quota (rounded up)."""
    count = len(usable_indices())
    quota = cgroup.cpu_quota()
    return count if quota is None else max(1, min(count, math.ceil(quota)))


def listed_indices(count: int) -> Sequence[int]:
    """The indices of the `count` logical CPUs whose times the system lists: Linux leaves out those switched off.

    They count from 0 without a gap where it does not tell, or tells of another number than it lists, as in a container.
    """
    try:
        parts = [part.partition("-") for part in ONLINE.read_text().split(",")]
        found = [index for first, _, last in parts for index in range(int(first), int(last or first) + 1)]
    except (OSError, ValueError):
        found = []
    return found if len(found) == count else range(count)
