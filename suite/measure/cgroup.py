"""The limits of CPUs and memory that a container or a job scheduler sets: Linux control groups, versions 1 and 2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def cpu_quota(root: Path = Path("/")) -> float | None:
    """The CPU quota of this process in CPUs, the smallest of its groups; None if there is none."""
    quotas = []
    for folder in _folders(root, "cpu"):
        for given in (_read(folder / "cpu.max"), _v1_quota(folder)):
            quota, period = [*given.split(), "", ""][:2]
            if quota.isdigit() and period.isdigit() and int(quota) and int(period):
                quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def throttled_ms(root: Path = Path("/")) -> float | None:
    """Milliseconds for which quotas have throttled the groups of this process so far; None if not known.

    This is a sum over the groups: each has its own quota and counter, which do not include the groups within it.
    """
    found = []
    for folder in _folders(root, "cpu"):
        for line in _read(folder / "cpu.stat").splitlines():
            name, _, value = line.partition(" ")
            if name in ("throttled_usec", "throttled_time"):
                found.append(int(value) / (1e3 if name == "throttled_usec" else 1e6))
    return sum(found) if found else None


def memory_left(root: Path = Path("/")) -> int | None:
    """Bytes of memory that this process may still take, the smallest of its groups; None if not limited.

    A group's inactive file cache counts as free, because Linux reclaims it first.
    """
    left = []
    for folder in _folders(root, "memory"):
        for most, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            limit, taken = (_read(folder / name).strip() for name in (most, used))
            if limit.isdigit() and taken.isdigit():
                kept = dict(line.split() for line in _read(folder / "memory.stat").splitlines())
                left.append(int(limit) - int(taken) + int(kept.get("inactive_file", 0)))
    return min(left, default=None)


def _v1_quota(folder: Path) -> str:
    return f"{_read(folder / 'cpu.cfs_quota_us').strip()} {_read(folder / 'cpu.cfs_period_us').strip()}"


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's groups under a controller, each followed by those of its ancestors."""
    top = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base = top / controllers
        group = base / path.lstrip("/")
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(base))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
