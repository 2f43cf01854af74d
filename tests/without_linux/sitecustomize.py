"""Python on Linux with what macOS has none of taken away; on PYTHONPATH each process begins with it.

psutil alone still sees /proc, without which it would not be.
"""

import os
import sys
import time
from typing import NamedTuple

import psutil

GONE = {
    os: ("sched_getaffinity", "sched_setaffinity", "posix_fadvise", "posix_fallocate", "fork", "pidfd_open"),
    time: ("CLOCK_BOOTTIME",),
    psutil: ("cpu_freq",),
    psutil.Process: ("cpu_affinity", "io_counters", "memory_maps"),
}
LINUX = ("/proc", "/sys/", "/dev/shm", "/etc/os-release", "/usr/lib/os-release")


class CPUTimes(NamedTuple):
    user: float
    nice: float
    system: float
    idle: float


def only_linux_has(path: object) -> bool:
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path).startswith(LINUX):
        return False
    frame = sys._getframe(1)
    while frame and f"{os.sep}psutil{os.sep}" not in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is None


def watch(event: str, arguments: tuple) -> None:
    if event in ("open", "os.scandir", "os.listdir") and only_linux_has(arguments[0]):
        raise FileNotFoundError(2, "only Linux has it", arguments[0])


def stat(path, *words, true=os.stat, **options):
    if only_linux_has(path):
        raise FileNotFoundError(2, "only Linux has it", path)
    return true(path, *words, **options)


def cpu_times(percpu=False, true=psutil.cpu_times):
    return [CPUTimes(*each[:4]) for each in true(percpu=True)] if percpu else CPUTimes(*true()[:4])


def net_if_stats(true=psutil.net_if_stats):
    found = true()
    return {**found, "gif0": next(iter(found.values()))}  # a tunnel, which has no address of any kind


for owner, names in GONE.items():
    for name in names:
        delattr(owner, name)
os.stat, psutil.cpu_times, psutil.net_if_stats = stat, cpu_times, net_if_stats
sys.addaudithook(watch)
