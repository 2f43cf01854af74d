"""Time, calls, operations and bytes of each operator and its shapes; what is left of a step between them.

Operators are those that PyTorch's dispatcher calls and those of TensorFlow's graphs, before XLA joins any.
"""

from __future__ import annotations

from suite.probe import measuring
from suite.probe.record import Cell, Row
from suite.probe.tracing import sums
from suite.probe.watching import Tracing

COLUMNS = {"calls": "a step", "time": "ms a step", "share": "%", "GFLOP": "a step", "MB": "a step", "GFLOP/s": ""}


class Measurement(Tracing):
    """See `levels.Measurement`."""

    def found(self) -> Cell:
        """See `levels.Measurement`."""
        steps, calls = self.steps, self.calls
        whole = sum(call.seconds for call in calls)
        rows = []
        for name, each in sums(calls, lambda call: f"{call.operator} {call.shapes}".rstrip()).items():
            values: dict[str, float | str | None] = {
                "calls": each.calls / steps,
                "time": 1e3 * each.seconds / steps,
                "share": 100 * each.seconds / whole,
                "GFLOP": None if not each.flops else each.flops / steps / 1e9,
                "MB": None if each.bytes is None else each.bytes / steps / 1e6,
                "GFLOP/s": None if not each.flops or not each.seconds else each.flops / each.seconds / 1e9,
            }
            rows.append(Row(name=str(name), values=values))
        figures = {
            **self.watching.figures(),
            "operators": measuring.mean([1e3 * each for each in self.spent()], "ms"),
            "host gaps": measuring.mean([100 - each for each in self.shares()], "%"),
            "calls/step": measuring.mean([len(each.calls) / each.steps for each in self.traces], ""),
            **self.roof.figures(),
        }
        return Cell(conditions=self.subject.conditions, figures=figures, columns=COLUMNS, rows=rows, notes=self.notes)


measurement = Measurement
