"""The numeric formats that a run may train in, as `conf/formats.yaml` names them."""

from __future__ import annotations

from functools import cache

from suite.config import folder
from suite.config.values import Values, checked
from suite.errors import one_of


class Format(Values):
    """A numeric format. `rate` names the peak rate that its products run at, None where conf/hw/ has none."""

    title: str
    closed: bool
    rate: str | None


@cache
def formats() -> dict[str, Format]:
    """The formats by name. Raises UserError for a file that does not hold formats."""
    values = folder.table(folder.CONF / "formats.yaml")
    return {name: checked(Format, each, f"conf/formats.yaml: {name}") for name, each in values.items()}


def closed() -> list[str]:
    """The names of the formats that the closed division allows."""
    return [name for name, each in formats().items() if each.closed]


def known(name: str) -> str:
    """Return `name`. Raises UserError if no format has that name."""
    return one_of("precision", name, formats())
