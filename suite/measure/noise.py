"""The environment gate: was the machine quiet before the run, and while it lasted?"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from suite.measure import accelerators, cgroup
from suite.measure.accelerators.devices import Device
from suite.measure.cpus import usable_cpus, usable_indices
from suite.measure.load import MAX_OTHERS, Load, LoadMeter, ours
from suite.measure.machine import Machine
from suite.measure.samples import MAX_INTERVAL_MS, Sample

WINDOW_S = 0.5  # before the run; short because it delays the start, long enough for the kernel's 10 ms ticks
MAX_STEAL = 0.02  # of the CPUs' time: a hypervisor that takes more has sold the CPUs to somebody else as well
MAX_THROTTLED = 0.01  # of the run's time: below it, slowing down cannot change a result by more than its spread
CPU_FOLDER = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Environment:
    """A verdict with its reasons, and the JSON values it rests on. The other fields are for later verdicts."""

    reasons: tuple[str, ...]
    figures: dict[str, Any]
    throttled_ms: Mapping[str, float] = field(default_factory=dict)
    at_s: float = 0.0
    workers: Sequence[int] = ()

    @property
    def noisy(self) -> bool:
        """Whether anything disturbed, or may disturb, the run."""
        return bool(self.reasons)


def before(machine: Machine, workers: Sequence[int] = ()) -> Environment:
    """Watch the machine for WINDOW_S while this process, and the other `workers` of its run, are idle."""
    meter, throttled = LoadMeter(workers), throttled_ms(machine)
    time.sleep(WINDOW_S)
    load, now = meter.read(), throttled_ms(machine)
    reasons = (*load_reasons(load.others, load.steal), *_throttle_reasons(_since(throttled, now), WINDOW_S))
    figures = {"window_s": WINDOW_S, "others": load.others, "steal": load.steal}
    found = Environment(reasons, figures, now, time.monotonic(), workers)
    return _with_accelerators(found, machine, workers)


def during(machine: Machine, quiet: Environment, samples: Sequence[Sample]) -> Environment:
    """The verdict on the time since `quiet`, the result of `before`, from the run's samples."""
    found = judge(samples, _since(quiet.throttled_ms, throttled_ms(machine)), time.monotonic() - quiet.at_s)
    return _with_accelerators(found, machine, quiet.workers)


def meanwhile(machine: Machine, quiet: Environment, load: Load) -> Environment:
    """The verdict on the time since `quiet`, the result of `before`, from the load over all of it."""
    seconds = time.monotonic() - quiet.at_s
    found = _judged(load.others, load.steal, _since(quiet.throttled_ms, throttled_ms(machine)), seconds)
    return _with_accelerators(found, machine, quiet.workers)


def watched(machine: Machine, workers: Sequence[int] = ()) -> Callable[[], list[str]]:
    """Watch the machine as `before` does; return a function that lists what disturbed it, then and since."""
    quiet, meter = before(machine, workers), LoadMeter(workers)
    return lambda: list(dict.fromkeys((*quiet.reasons, *meanwhile(machine, quiet, meter.read()).reasons)))


def judge(samples: Sequence[Sample], throttled: Mapping[str, float], seconds: float) -> Environment:
    """The verdict on `samples`, and on the milliseconds of `seconds` for which each part in `throttled` was throttled.

    The figures are those of the leader's node; a single noisy node makes the run noisy.
    """
    of: dict[int, list[Sample]] = {0: []}
    for sample in samples:
        of.setdefault(sample.node, []).append(sample)
    leader = _of_node(of.pop(0), throttled, seconds)
    return together(leader, {node: _of_node(own, {}, seconds).reasons for node, own in of.items()})


def together(leader: Environment, others: Mapping[int, Sequence[str]]) -> Environment:
    """The leader's verdict, with the reasons of other nodes added, each after its node's number."""
    reasons = [f"node {node}: {reason}" for node, found in sorted(others.items()) for reason in found]
    return replace(leader, reasons=(*leader.reasons, *reasons))


def _of_node(samples: Sequence[Sample], throttled: Mapping[str, float], seconds: float) -> Environment:
    return _judged(_mean(samples, "others"), _mean(samples, "steal"), throttled, seconds)


def _judged(others: float | None, steal: float | None, throttled: Mapping[str, float], seconds: float) -> Environment:
    reasons = [*load_reasons(others, steal), *_throttle_reasons(throttled, seconds)]
    figures = {"others": others, "steal": steal, "throttled_ms": {name: round(ms) for name, ms in throttled.items()}}
    return Environment(tuple(reasons), figures)


def _with_accelerators(found: Environment, machine: Machine, workers: Sequence[int]) -> Environment:
    """Add to a verdict which other processes compute on each accelerator now, and what slows it down."""
    devices, known = _devices(machine), ours(workers).keys()
    strangers = [_strangers(each, known) for each in devices]
    reasons = [*found.reasons, *slowdown_reasons([each.slowdowns() for each in devices])]
    for index, count in enumerate(strangers):
        if count:
            reasons.append(f"{count} other process{'es' if count > 1 else ''} on accelerator {index}")
    others = None if None in strangers else sum(filter(None, strangers))
    figures = {**found.figures, "other_accelerator_processes": others} if devices else found.figures
    return replace(found, reasons=tuple(reasons), figures=figures)


def _strangers(device: Device, known: Collection[int]) -> int | None:
    """How many processes but those that are `known` compute on the accelerator; None if its library does not tell.

    Those of another container are not counted: they cannot be told from ours.
    """
    found = device.processes()
    return None if found is None else sum(map(psutil.pid_exists, found.difference(known)))


def slowdown_reasons(slowdowns: Sequence[Collection[str]]) -> list[str]:
    """A sentence for each accelerator that is slowed down, with the causes."""
    return [
        f"accelerator {index} is slowed down ({', '.join(sorted(causes))})"
        for index, causes in enumerate(slowdowns)
        if causes
    ]


def throttled_ms(machine: Machine) -> dict[str, float]:
    """Milliseconds so far for which each part was throttled; parts without such a counter are left out."""
    found: dict[str, float] = {}
    if (quota := cgroup.throttled_ms()) is not None:
        found["the CPU quota"] = quota / usable_cpus()  # the kernel adds up all CPUs, several of which may have waited
    files = (CPU_FOLDER / f"cpu{each}/thermal_throttle/core_throttle_total_time_ms" for each in usable_indices())
    if counters := [path for path in files if path.is_file()]:
        found["the CPU"] = sum(int(path.read_text()) for path in counters) / len(counters)
    for index, device in enumerate(_devices(machine)):
        if (accelerator := device.throttled_ms()) is not None:
            found[f"accelerator {index}"] = accelerator
    return found


def _devices(machine: Machine) -> Sequence[Device]:
    found = accelerators.find() if machine.accelerators else None
    return found.devices if found else []


def load_reasons(others: float | None, steal: float | None) -> list[str]:
    """What in the load on the CPUs disturbs a run, in words; None is a share that is not known."""
    reasons = []
    if others is not None and others > MAX_OTHERS:
        reasons.append(f"other processes took {others:.1%} of the CPUs")
    if steal is not None and steal > MAX_STEAL:
        reasons.append(f"the hypervisor stole {steal:.1%} of the CPUs' time")
    return reasons


def _throttle_reasons(throttled: Mapping[str, float], seconds: float) -> list[str]:
    shares = {name: min(ms / 1000 / seconds, 1.0) for name, ms in throttled.items()}
    return [
        f"{name} was throttled for {share:.1%} of the time" for name, share in shares.items() if share > MAX_THROTTLED
    ]


def _since(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    return {name: ms - before[name] for name, ms in now.items() if name in before}


def _mean(samples: Sequence[Sample], name: str) -> float | None:
    """The time-weighted mean of a column; pauses do not count."""
    weighted = total = 0.0
    for first, last in pairwise(samples):
        elapsed, value = last.time_ms - first.time_ms, getattr(last, name)
        if value is not None and elapsed <= MAX_INTERVAL_MS:
            weighted, total = weighted + value * elapsed, total + elapsed
    return weighted / total if total else None
