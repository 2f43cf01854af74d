"""The interface that the module of every maker of accelerators implements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

LIBRARY = re.compile(r"(?!(rapl|estimated)\Z)[a-z0-9_]{1,20}", re.ASCII)  # not one of the other sources of an energy


@dataclass(frozen=True)
class Accelerator:
    """An accelerator as its maker's library describes it; `bf16` tells whether it computes in bf16 natively.

    The name of a part ends in its kind: ` MIG 1g.5gb`, ` CPX`. `architecture` is what kernels are built for, as sm_90.
    """

    name: str
    memory_gb: float
    architecture: str
    bf16: bool


class Device(Protocol):
    """An accelerator that this process may use. What its library does not report is None, or empty."""

    def describe(self) -> Accelerator:
        """Return its description."""

    def joules(self) -> float | None:
        """Energy in joules since an unspecified time in the past."""

    def utilisation(self) -> float | None:
        """The fraction of recent time in which it computed."""

    def processes(self) -> set[int] | None:
        """The ids of the processes that compute on it."""

    def slowdowns(self) -> set[str]:
        """The causes that slow it down now, in a word or two each; its power cap and idling do not count."""

    def throttled_ms(self) -> float | None:
        """Milliseconds for which heat has slowed it down, since an unspecified time in the past."""


@dataclass(frozen=True)
class Found:
    """A maker's accelerators on this machine.

    `devices` are those that this process may use, in the order in which frameworks count them; `hidden` counts those
    that environment variables hide. `library` names what measures them, in small letters, digits and underscores;
    `driver` has driver and platform versions.
    """

    devices: Sequence[Device]
    hidden: int
    library: str
    driver: str


def chosen_indices(uuids: Sequence[str], setting: str | None) -> list[int]:
    """Resolve CUDA_VISIBLE_DEVICES as CUDA does: indices or UUID prefixes, up to the first unknown or repeated one."""
    if setting is None:
        return list(range(len(uuids)))
    chosen: list[int] = []
    for word in (part.strip() for part in setting.split(",")):
        found = [i for i, uuid in enumerate(uuids) if word == str(i) or (word and uuid.startswith(word))]
        if len(found) != 1 or found[0] in chosen:
            break
        chosen += found
    return chosen
