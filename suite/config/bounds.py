"""How far two implementations may be apart, as `conf/equivalence.yaml` has it."""

from __future__ import annotations

from functools import cache

from suite.config import folder
from suite.config.formats import formats
from suite.config.values import Values, checked


class Bounds(Values):
    """How far two implementations may be apart in one numeric format."""

    nudge: float
    distance: float
    slack: float
    hopeless: float
    predictions: float
    close: float
    loss: float


def bounds(precision: str) -> Bounds | None:
    """The bounds of a numeric format; None where they were not measured, as of a format that is not known."""
    found = formats().get(precision)
    return _all().get(found.rate or "") if found else None


def unmeasured(precision: str) -> str:
    """What is said of a format without bounds."""
    return f"bounds not measured for {precision}"


@cache
def _all() -> dict[str, Bounds]:
    values = folder.table(folder.CONF / "equivalence.yaml")
    return {name: checked(Bounds, each, f"conf/equivalence.yaml: {name}") for name, each in values.items()}
