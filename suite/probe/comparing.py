"""Compare two probes: the figures of like cells, as ratios, and what else differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import hypot

from suite.errors import UserError
from suite.probe.record import Cell, Figure, Probe

LOW, HIGH = "from", "to"  # columns


@dataclass(frozen=True)
class Compared:
    """A figure of two like cells; `ratio` is b / a, or None if either is unknown, a is not above 0 or b is below."""

    cell: str
    figure: str
    a: Figure
    b: Figure

    @property
    def ratio(self) -> float | None:
        """b / a."""
        if self.a.value is None or self.b.value is None or self.a.value <= 0 or self.b.value < 0:
            return None
        return self.b.value / self.a.value

    @property
    def says(self) -> str:
        """Say whether the values lie further apart than the 95 % interval of their difference.

        Half of that interval is the root of the sum of squares of the two half-intervals that face each other.
        """
        a, b = self.a, self.b
        if a.value is None or b.value is None:
            return "not known of both"
        if a.low is None or a.high is None or b.low is None or b.high is None:
            return "the same" if a.value == b.value else "no intervals"
        if b.value - a.value > hypot(a.high - a.value, b.value - b.low):
            return "B is higher"
        return "B is lower" if a.value - b.value > hypot(a.value - a.low, b.high - b.value) else "noise"


def compare(a: Probe, b: Probe) -> list[Compared]:
    """Pair the figures of cells under the same conditions, and what was measured of their rows.

    Two probes of one cell each are paired anyway. Raises UserError for different levels, and if no cells are alike.
    """
    if a.level != b.level:
        raise UserError(f"nothing to compare: A is a probe at level {a.level}, B at level {b.level}")
    pairs = list(_pairs(a, b))
    if not pairs:
        raise UserError("nothing to compare: no cell of A has the conditions of one of B")
    return [
        Compared(name, figure, a[figure], b[figure])
        for name, one, other in pairs
        for a, b in ((one.figures, other.figures), (measured(one), measured(other)))
        for figure in a
        if figure in b
    ]


def measured(cell: Cell) -> dict[str, Figure]:
    """What was measured of each row, if it has an interval: the column before `from`, keyed by row and column name."""
    names = list(cell.columns)
    if LOW not in names[1:]:
        return {}
    column = names[names.index(LOW) - 1]
    return {
        f"{row.name}, {column}": Figure(
            value=row.number(column),
            unit=cell.columns[column],
            low=row.number(LOW),
            high=row.number(HIGH),
        )
        for row in cell.rows
    }


def beside(cells: Sequence[Cell]) -> list[tuple[str, list[Figure | None]]]:
    """The rows that several cells measured: the name, and the figure of each cell, in the first cell's order."""
    found = [measured(cell) for cell in cells]
    names = dict.fromkeys(name for each in found for name in each)
    rows = [(name, [each.get(name) for each in found]) for name in names]
    return [(name, figures) for name, figures in rows if sum(each is not None for each in figures) > 1]


def left_out(a: Probe, b: Probe) -> list[str]:
    """The cells that could not be measured, with the reason, and those that only one of the probes holds."""
    pairs, said = list(_pairs(a, b)), list[str]()
    for name, side, paired in (
        ("A", a, {one.conditions for _, one, _ in pairs}),
        ("B", b, {other.conditions for _, _, other in pairs}),
    ):
        for cell in side.cells:
            if cell.error:
                said.append(f"{name} could not measure {cell.conditions.described}: {cell.error}")
            elif cell.conditions not in paired:
                said.append(f"only {name} holds {cell.conditions.described}")
    return said


def differences(a: Probe, b: Probe) -> list[tuple[str, str, str]]:
    """The settings, machine and software that differ, and what disturbed either probe: name, value in A, value in B."""
    found = []
    sides = [_flat(each.model_dump(mode="json", exclude={"cells", "date", "noisy", "format"})) for each in (a, b)]
    if len(a.cells) == len(b.cells) == 1:
        sides = [
            {**side, **_flat(each.cells[0].conditions.model_dump())} for side, each in zip(sides, (a, b), strict=True)
        ]
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        one, other = (side.get(name, "nothing") for side in sides)
        if one != other:
            found.append((name, one, other))
    if a.noisy or b.noisy:
        found.append(("noisy", "; ".join(a.noisy) or "no", "; ".join(b.noisy) or "no"))
    return found


def _pairs(a: Probe, b: Probe) -> Iterator[tuple[str, Cell, Cell]]:
    if len(a.cells) == len(b.cells) == 1:
        names = dict.fromkeys(each.cells[0].conditions.described for each in (a, b))
        yield " / ".join(names), a.cells[0], b.cells[0]
        return
    others = {each.conditions: each for each in b.cells}
    for cell in a.cells:
        if (other := others.get(cell.conditions)) is not None:
            yield cell.conditions.described, cell, other


def _flat(values: Mapping[str, object], above: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{above}{name}.")
        else:
            found[f"{above}{name}"] = str(value)
    return found
