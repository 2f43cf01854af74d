"""The CPU limits that a container or a job scheduler sets: Linux control groups, versions 1 and 2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def cpu_quota(root: Path = Path("/")) -> float | None:
    """The number of CPUs whose time this process may use, the least of its groups; None if not limited."""
    quotas = []
    for folder in _folders(root):
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
    for folder in _folders(root):
        for line in _read(folder / "cpu.stat").splitlines():
            name, _, value = line.partition(" ")
            if name in ("throttled_usec", "throttled_time"):
                found.append(int(value) / (1e3 if name == "throttled_usec" else 1e6))
    return sum(found) if found else None


def _v1_quota(folder: Path) -> str:
    return f"{_read(folder / 'cpu.cfs_quota_us').strip()} {_read(folder / 'cpu.cfs_period_us').strip()}"


def _folders(root: Path) -> Iterator[Path]:
    """The groups of this process that may limit its CPUs, with all groups around them."""
    top = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = top / controllers
        group = base / path.lstrip("/")
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(base))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
