"""What the machine counts of a step: CPU time, page faults, switches, energy; hardware counters, or why there are none.

Counters of the process cover all its threads, whatever they do; hardware counters cover its own code only. Energy is
that of the whole machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from suite.probe import counters, measuring, perf
from suite.probe.counters import Meter, Reading
from suite.probe.perf import Counted
from suite.probe.record import Cell, Row
from suite.probe.subject import Subject
from suite.probe.workload import Workload

COLUMNS = {"unit": "", "a step": "", "from": "", "to": "", "a sample": "", "why": ""}
USER, SYSTEM = "CPU time, user", "CPU time, system"


class Measurement:
    """See `levels.Measurement`."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.meter = subject, Meter(subject.device)
        self.workload: Workload = subject.build()
        self.steps = measuring.steps_after_warm_up(self.workload, subject.seconds / 2, subject.seconds)
        self.readings: list[tuple[Reading, Reading]] = []
        self.hardware: list[Counted] = []
        self.plain: list[float] = []

    def repeat(self) -> None:
        """Plain steps, then steps between two readings."""
        self.plain.append(measuring.block(self.workload, self.steps))
        self.workload.ready(self.steps)
        self.hardware.append(perf.counted(self._read_steps))

    def found(self) -> Cell:
        """See `levels.Measurement`."""
        rows = []
        for name, unit in self.meter.units.items():
            counts = [counters.between(before, after, name) for before, after in self.readings]
            rows.append(self._row(name, unit, counts, self.meter.missing.get(name, "it ran backwards")))
        for name in perf.EVENTS:
            counts = [each.values.get(name) for each in self.hardware]
            rows.append(self._row(name, "", counts, self.hardware[-1].missing.get(name, "")))
        spent = [after.seconds - before.seconds for before, after in self.readings]
        busy, system = zip(*map(_busy, self.readings), strict=True)
        figures = {
            "step": measuring.mean([1e3 * each / self.steps for each in spent], "ms"),
            "busy CPUs": measuring.mean([each / whole for each, whole in zip(busy, spent, strict=True)], ""),
            "in the kernel": measuring.mean(
                [100 * of / whole for of, whole in zip(system, busy, strict=True) if whole], "%"
            ),
            "overhead": measuring.mean([a / b for a, b in zip(spent, self.plain, strict=True)], "x"),
        }
        return Cell(conditions=self.subject.conditions, figures=figures, columns=COLUMNS, rows=rows)

    def _read_steps(self) -> None:
        before = self.meter.read()
        self.workload.run(self.steps)
        self.readings.append((before, self.meter.read()))

    def _row(self, name: str, unit: str, counts: Sequence[float | None], missing: str) -> Row:
        """A row with what was counted, or with the reason if it never was."""
        mean = measuring.mean([each / self.steps for each in counts if each is not None], unit)
        values: dict[str, float | str | None] = {
            "unit": unit,
            "a step": mean.value,
            "from": None if mean.low is None else max(mean.low, 0.0),  # nothing is counted down
            "to": mean.high,
            "a sample": None if mean.value is None else mean.value / self.workload.samples,
            "why": "" if mean.value is not None else f"unavailable: {missing}",
        }
        return Row(name=name, values=values)


def _busy(readings: tuple[Reading, Reading]) -> tuple[float, float]:
    """CPU seconds between two readings, and how many of them were spent in the operating system's kernel."""
    user, system = (counters.between(*readings, name) or 0.0 for name in (USER, SYSTEM))
    return user + system, system


measurement = Measurement
