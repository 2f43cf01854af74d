"""Find and measure the accelerators of this process through their makers' libraries; no framework is imported.

A package adds those of another maker by an entry point of the group `suite.accelerators`: a function like `find()`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import metadata

from suite.errors import UserError, shown
from suite.measure.accelerators import amd, nvidia
from suite.measure.accelerators.devices import LIBRARY, Found

GROUP = "suite.accelerators"


def find() -> Found | None:
    """Return the accelerators of the first maker with a visible one, else of the first whose are all hidden.

    None if there are no accelerators. Raises UserError for an entry point that cannot be loaded, or whose library has
    a name that no review would take for one.
    """
    hidden = None
    for maker in _makers():
        found = maker()
        if found and not LIBRARY.fullmatch(found.library):
            raise UserError(
                f"library {shown(found.library)} of an entry point of {GROUP} is no name of at most 20 small letters, "
                "digits and underscores, other than rapl and estimated"
            )
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
        except Exception as error:  # a maker's package may raise anything, as where its driver is missing
            what = f"the entry point {point.name} = {point.value} of {GROUP}"
            raise UserError(f"{what} cannot be loaded: {error}") from error
    return [*others, nvidia.find, amd.find]
