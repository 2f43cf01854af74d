"""Find and measure the accelerators of this process through their makers' libraries; no framework is imported.

A package adds those of another maker by an entry point of the group `suite.accelerators`: a function like `find()`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import metadata

from suite.errors import UserError
from suite.measure.accelerators import amd, nvidia
from suite.measure.accelerators.devices import Found

GROUP = "suite.accelerators"


def find() -> Found | None:
    """Return the accelerators of the first maker with a visible one, else of the first whose are all hidden.

    None if there are no accelerators. Raises UserError for an entry point that cannot be loaded.
    """
    hidden = None
    for maker in _makers():
        found = maker()
        if found and found.devices:
            return found
        hidden = hidden or found
    return hidden


@cache
def _makers() -> list[Callable[[], Found | None]]:
    others = []
    for point in metadata.entry_points(group=GROUP):
        try:
            others.append(point.load())
        except (ImportError, AttributeError) as error:
            what = f"the entry point {point.name} = {point.value} of {GROUP}"
            raise UserError(f"{what} cannot be loaded: {error}") from error
    return [*others, nvidia.find, amd.find]
