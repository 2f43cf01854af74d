"""The bounds of conf/equivalence.yaml."""

from __future__ import annotations

from functools import cache

import yaml

from suite.config import folder
from suite.config.formats import formats, known
from suite.config.values import Values
from suite.errors import UserError


class Bounds(Values):
    """How far two implementations may be apart in one numeric format."""

    nudge: float
    distance: float
    slack: float
    hopeless: float
    predictions: float
    close: float
    loss: float


def bounds(precision: str) -> Bounds:
    """The bounds of a numeric format. Raises UserError where it has none: nothing else was measured."""
    rate = formats()[known(precision)].rate
    if rate not in _all():
        raise UserError(
            f"precision={precision}: conf/equivalence.yaml has no bounds for it; take one of {', '.join(_all())}"
        )
    return _all()[rate]


@cache
def _all() -> dict[str, Bounds]:
    values = yaml.safe_load((folder.CONF / "equivalence.yaml").read_text())
    return {name: Bounds.model_validate(each) for name, each in values.items()}
