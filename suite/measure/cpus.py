"""The CPUs that this process may use: those it is bound to, and of their time its control group's quota."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

from suite.measure import cgroup


def bound(environ: Mapping[str, str] = os.environ) -> set[int]:
    """The indices of the logical CPUs that this process may run on, and the workers that srun binds beside it.

    SLURM tells each what all of its step on the node are bound to (srun's "OUTPUT ENVIRONMENT VARIABLES").
    """
    if not hasattr(os, "sched_getaffinity"):
        return set(range(os.cpu_count() or 1))
    own = os.sched_getaffinity(0)
    if environ.get("SLURM_CPU_BIND_TYPE") != "mask_cpu:":
        return own
    try:
        masks = [int(mask.partition("*")[0], 16) for mask in environ.get("SLURM_CPU_BIND_LIST", "").split(",")]
    except ValueError:  # no list, as of a job's script, or none that is known
        return own
    tasks = [{index for index in range(mask.bit_length()) if mask >> index & 1} for mask in masks]
    return own.union(*tasks) if own in tasks else own  # else it was bound anew since, as by taskset


_AFFINITY = bound()
_OWN = bound({})


def own_cpus() -> int:
    """The number of logical CPUs that this process alone may run on, as it began."""
    return len(_OWN)


def usable_indices() -> list[int]:
    """The indices of the logical CPUs that the run's workers here may use, as this process began."""
    return sorted(_AFFINITY)


def usable_cpus() -> int:
    """The number of logical CPUs that this process may use, its control group's quota rounded up."""
    count = len(usable_indices())
    quota = cgroup.cpu_quota()
    return count if quota is None else max(1, min(count, math.ceil(quota)))
