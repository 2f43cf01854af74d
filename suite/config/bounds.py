"""How far apart two implementations may be, as `conf/equivalence.yaml` says."""

from __future__ import annotations

from functools import cache

from suite.config import folder
from suite.config.formats import formats
from suite.config.values import Values, checked


class Bounds(Values):
    """How far apart two implementations may be in one numeric format."""

    nudge: float
    distance: float
    slack: float
    hopeless: float
    predictions: float
    close: float
    loss: float


def bounds(precision: str) -> Bounds | None:
    """The bounds of a numeric format; None if they were not measured, or the format is not known."""
    found = formats().get(precision)
    return _all().get(found.rate or "") if found else None


def unmeasured(precision: str) -> str:
    """The message for a format without bounds."""
    return f"bounds not measured for {precision}"


@cache
def _all() -> dict[str, Bounds]:
    values = folder.table(folder.CONF / "equivalence.yaml")
    return {name: checked(Bounds, each, f"conf/equivalence.yaml: {name}") for name, each in values.items()}
