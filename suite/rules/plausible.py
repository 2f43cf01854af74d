"""Checks of what a machine can do: how much it computes in a run's time, and how much power it draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import ENERGY, TRACKED
from suite.measure.energy import ESTIMATED, energy
from suite.measure.samples import COUNTERS, Sample
from suite.record.evidence import CONFIG, LOG, POWER, SYSTEM
from suite.record.mllog import samples_of
from suite.record.parsing import number, whole
from suite.rules.finding import Finding
from suite.rules.reading import RUN, Evidence
from suite.rules.system import listed

CPU_PEAK = 4e12  # operations a second of one logical CPU: Intel AMX, 1024 of bf16 a cycle (Intel 64 SDM), at 4 GHz
# Arithmetic is free (model.1): 4 times fewer products by Winograd's F(4x4, 3x3) (Lavin and Gray 2015), 8 bits for 16.
SAVED = 8

# Watts of mean power. The largest on the market draw less than half: B300 1,400 W, EPYC 9965 500 W.
ACCELERATOR_W = 3000.0
SOCKET_W = {"cpu_j": 1500.0, "dram_j": 1000.0}
MOST_SOCKETS = 8  # assumed where the number is not known
OVER_CEILING = 2.0  # how many times the system's power ceiling accelerators may draw
LEAST_W = 0.1  # of any counter, idle or not
LEAST_MS = 5000  # of measured time: in less, a rarely refreshed counter may not change

_AS_WRITTEN = "submit the evidence as the suite wrote it"


@RUN.rule("quality.7")
def time_enough(run: Evidence) -> Iterator[Finding]:
    """A run takes at least the time that its machine needs for the training. A run that logs no loss gets a note."""
    start, stop = run.timeline.run_start, run.timeline.run_stop
    if start is None or stop is None:
        return
    tracked = run.lines_of.get(TRACKED, [])
    losses = [line.value.get("loss") for line in tracked if isinstance(line.value, dict)]
    silent = (tracked or run.timeline.evaluations) and not any(loss is not None for loss in losses)
    if silent and stop.metadata.get("reason") != "diverged":
        mend = "let train_until return the loss, so that a reader sees it fall"
        yield Finding(LOG, (tracked[0] if tracked else stop).number, "a loss in some line", "none in any", mend, "note")
    seconds, samples = (stop.time_ms - start.time_ms) / 1000, samples_of(stop) or 0
    if seconds <= 0:
        expected = f"a time after {keys.RUN_START}"
        yield Finding(LOG, stop.number, expected, f"{seconds:g} s from {keys.RUN_START}", _AS_WRITTEN)
        return
    closed = run.benchmark if run.benchmark and not run.in_open else None  # the open division's model may be another
    flops, peak = closed.train_flops_per_sample if closed else None, _peak(run)
    if flops and peak and samples * flops / (SAVED * peak) > seconds:
        least = samples * flops / (SAVED * peak)
        expected = f"at least {least:.3g} s for {samples} samples, at {SAVED} times the peak of {peak:.3g} FLOP/s"
        yield Finding(LOG, stop.number, expected, f"{seconds:g} s", _AS_WRITTEN)


@RUN.rule("measurement.7")
def possible_power(run: Evidence) -> Iterator[Finding]:
    """Each energy counter is of hardware that the run used, and shows a power that such hardware can draw."""
    line, start, stop = run.last(ENERGY), run.timeline.run_start, run.timeline.run_stop
    if not (line and start and stop and run.samples and run.intact(POWER, CONFIG, SYSTEM)):
        return
    mean_w, coverage = (number(line.metadata.get(name)) for name in ("mean_w", "coverage"))
    estimated_ms = (
        (coverage or 0.0) * (stop.time_ms - start.time_ms) if line.metadata.get("source") == ESTIMATED else 0.0
    )
    if mean_w is not None and mean_w < LEAST_W and estimated_ms >= LEAST_MS:
        expected = f"at least {LEAST_W:g} W of what trained, in the mean"
        yield Finding(POWER, None, expected, f"{mean_w:.4g} W", _AS_WRITTEN)
    accelerators = _accelerators(run)
    for name in COUNTERS:
        counted = [sample for sample in run.samples if getattr(sample, name) is not None]
        if not counted:
            continue
        if name == "accelerator_j" and not accelerators:
            found = f"{name} from {counted[0].time_ms} on"
            yield Finding(POWER, None, "no energy of accelerators, for the run used none", found, _AS_WRITTEN)
            continue
        used = energy(_alone(run.samples, name), start.time_ms, stop.time_ms, None, run.nodes)
        most = _most_watts(run, name, accelerators) * run.nodes
        if used.mean_w is None:
            continue
        if used.mean_w > most:
            expected = f"at most {most:g} W of {name} in the mean"
            yield Finding(POWER, None, expected, f"{used.mean_w:.4g} W", _AS_WRITTEN)
        elif used.mean_w < LEAST_W and used.coverage * (stop.time_ms - start.time_ms) >= LEAST_MS:
            expected = f"at least {LEAST_W:g} W of {name} in the mean"
            yield Finding(POWER, None, expected, f"{used.mean_w:.4g} W", _AS_WRITTEN)


def _alone(samples: Sequence[Sample], counter: str) -> list[Sample]:
    """The samples with this counter only."""
    others: dict[str, Any] = dict.fromkeys(name for name in COUNTERS if name != counter)
    return [sample._replace(**others) for sample in samples]


def _accelerators(run: Evidence) -> int:
    """How many accelerators of each node took part."""
    return len(run.accelerators) if run.configured("system", "accelerator") else 0


def _most_watts(run: Evidence, counter: str, accelerators: int) -> float:
    system = listed(run)
    if counter != "accelerator_j":
        return SOCKET_W[counter] * (whole(run.described("detected", "sockets")) or MOST_SOCKETS)
    ceiling = system.power_ceiling_w if system else None
    return ACCELERATOR_W * accelerators if ceiling is None else OVER_CEILING * ceiling


def _peak(run: Evidence) -> float | None:
    """The machine's peak operations per second in its fastest arithmetic; None if that is not known."""
    system = listed(run)
    if system is None:
        return None
    if system.accelerator is None:
        cpus = whole(run.described("detected", "logical_cpus"))
        return CPU_PEAK * cpus * run.nodes if cpus and not _accelerators(run) else None
    rates = [tflops for rate, tflops in system.peak_tflops.items() if rate != "fp8"]  # which SAVED allows for
    return max(rates) * 1e12 * system.accelerators_per_node * run.nodes if rates else None
