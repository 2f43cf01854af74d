"""The numeric formats that a run may train in, as `conf/formats.yaml` names them."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import yaml

from suite.config import folder
from suite.errors import unknown


class Format(NamedTuple):
    """A numeric format. `rate` names the peak rate that its products run at, None where conf/hw/ has none."""

    title: str
    closed: bool
    rate: str | None


@cache
def formats() -> dict[str, Format]:
    """The formats by name."""
    values = yaml.safe_load((folder.CONF / "formats.yaml").read_text())
    return {name: Format(**each) for name, each in values.items()}


def closed() -> list[str]:
    """The names of those that the closed division allows."""
    return [name for name, each in formats().items() if each.closed]


def known(name: str) -> str:
    """`name`. Raises UserError where no format has it."""
    if name not in formats():
        raise unknown("precision", name, formats())
    return name
