"""The limits of CPUs and memory that a container or a job scheduler sets: Linux control groups, versions 1 and 2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def cpu_quota(root: Path = Path("/")) -> float | None:
    """The number of CPUs whose time this process may use, the least of its groups; None if not limited."""
    quotas = []
    for folder in _folders(root, "cpu"):
        for given in (_read(folder / "cpu.max"), _v1_quota(folder)):
            quota, period = [*given.split(), "", ""][:2]
            if quota.isdigit() and period.isdigit() and int(quota) and int(period):
                quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def throttled_ms(root: Path = Path("/")) -> float | None:
    """How long, since their start, the groups of this process were kept from running by quotas; None if not known.

    Each has a quota and a counter of its own, which hold nothing of the groups within it.
    """
    found = []
    for folder in _folders(root, "cpu"):
        for line in _read(folder / "cpu.stat").splitlines():
            name, _, value = line.partition(" ")
            if name in ("throttled_usec", "throttled_time"):
                found.append(int(value) / (1e3 if name == "throttled_usec" else 1e6))
    return sum(found) if found else None


def memory_left(root: Path = Path("/")) -> int | None:
    """Bytes that this process may still take, the least of its groups; None if not limited.

    What a group keeps of files that nobody reads any more counts as left: Linux lets it go first.
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
    """The groups of this process in which a controller may limit it, with all groups around them."""
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
