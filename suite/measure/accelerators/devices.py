"""What the library of every maker of accelerators is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Accelerator:
    """An accelerator as its maker's library names it, and whether it computes in bf16 natively.

    The name of one that is split says how: ` MIG 1g.5gb`, ` CPX`. `architecture` is what kernels are for, as sm_90.
    """

    name: str
    memory_gb: float
    architecture: str
    bf16: bool


class Device(Protocol):
    """An accelerator that this process may use. What its library does not tell is None, or empty."""

    def describe(self) -> Accelerator:
        """What it is."""

    def joules(self) -> float | None:
        """Energy since some time in the past."""

    def utilisation(self) -> float | None:
        """The fraction of time, of late, in which it computed."""

    def processes(self) -> set[int]:
        """The numbers of the processes that compute on it."""

    def slowdowns(self) -> set[str]:
        """What slows it down now, in a word or two each; its power cap and idling do not count."""

    def throttled_ms(self) -> float | None:
        """For how long heat has slowed it down, since some time in the past."""


@dataclass(frozen=True)
class Found:
    """A maker's accelerators on this machine.

    `devices` are those that this process may use, in the order in which frameworks count them; environment variables
    hide `hidden` others. `library` is a word for what they are measured with, `driver` has the versions of driver and
    platform.
    """

    devices: Sequence[Device]
    hidden: int
    library: str
    driver: str


def chosen_indices(uuids: Sequence[str], setting: str | None) -> list[int]:
    """What CUDA makes of CUDA_VISIBLE_DEVICES: indices or starts of UUIDs, up to the first that is none or repeated."""
    if setting is None:
        return list(range(len(uuids)))
    chosen: list[int] = []
    for word in (part.strip() for part in setting.split(",")):
        found = [i for i, uuid in enumerate(uuids) if word == str(i) or (word and uuid.startswith(word))]
        if len(found) != 1 or found[0] in chosen:
            break
        chosen += found
    return chosen
