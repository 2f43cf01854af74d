"""Forward and backward of each layer, its operations, parameters and intensity, memory- or compute-bound; their sum.

A layer's figures are its own: what it calls another layer for counts as that one's. A layer is bound by compute if its
operations for each byte that its operators read and write reach those that a matrix product takes while a copy moves a
byte, else by memory. Product and copy are the fastest of those timed in turn with the steps.
"""

from __future__ import annotations

from suite.probe import measuring
from suite.probe.record import Cell, Figure, Row
from suite.probe.tracing import OUTSIDE, Call, Sum, sums
from suite.probe.watching import Tracing

TIMES = ("forward", "backward", "other")
COLUMNS = {
    **dict.fromkeys(TIMES, "ms"),
    "share": "%",
    "GFLOP": "a step",
    "MB": "a step",
    "FLOP/B": "",
    "parameters": "",
    "bound": "by",
}


class Measurement(Tracing):
    """See `levels.Measurement`."""

    def found(self) -> Cell:
        """See `levels.Measurement`."""
        steps, calls = self.steps, self.calls
        both = sums(calls, _layer)
        columns = {name: sums((call for call in calls if _column(call) == name), _layer) for name in TIMES}
        whole = sum(each.seconds for each in both.values())
        parameters = self.traces[-1].parameters
        rows = []
        for name, each in both.items():
            values: dict[str, float | str | None] = {
                **{time: 1e3 * of.get(name, Sum()).seconds / steps for time, of in columns.items()},
                "share": 100 * each.seconds / whole,
                "GFLOP": None if each.flops is None else each.flops / steps / 1e9,
                "MB": None if each.bytes is None else each.bytes / steps / 1e6,
                "FLOP/B": None if each.flops is None or not each.bytes else each.flops / each.bytes,
                "parameters": parameters.get(str(name)),
                "bound": self._bound(each),
            }
            rows.append(Row(name=str(name), values=values))
        figures = {
            **self.watching.figures(),
            "sum": measuring.mean([1e3 * each for each in self.spent()], "ms"),
            "sum of whole": measuring.mean(self.shares(), "%"),
            "layers": Figure(value=len(both) - (OUTSIDE in both), unit=""),
            **self.roof.figures(),
        }
        return Cell(conditions=self.subject.conditions, figures=figures, columns=COLUMNS, rows=rows, notes=self.notes)

    def _bound(self, each: Sum) -> str | None:
        if each.flops is None or not each.bytes:
            return None
        return "compute" if each.flops / each.bytes >= self.roof.balance else "memory"


def _column(call: Call) -> str:
    return call.phase if call.phase in TIMES else "other"


def _layer(call: Call) -> str:
    return call.layer or OUTSIDE


measurement = Measurement
