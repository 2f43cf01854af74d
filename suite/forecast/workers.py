"""The time that several workers add to a step: a ring all-reduce of gradients, by the alpha-beta model."""

from __future__ import annotations

from suite import config
from suite.config.models import System
from suite.errors import UserError


def ring(workers: int, nbytes: float, latency_s: float, bytes_per_s: float) -> float:
    """Seconds of a ring all-reduce of `nbytes` over `workers`.

    2 (n - 1) messages, one after the other, each of a latency alpha and of nbytes / n at the link's bandwidth 1 / beta
    (R. Thakur, R. Rabenseifner and W. Gropp 2005, Optimization of Collective Communication Operations in MPICH).
    """
    return 2 * (workers - 1) * (latency_s + nbytes / workers / bytes_per_s)


def communication(system: System, weights: float | None) -> float:
    """Seconds that the workers of the system take to exchange `weights` bytes of gradients once; 0 for one worker.

    Raises UserError if the link between the workers or the size of the model is not known. conf/hw/ does not have the
    link between nodes.
    """
    workers = system.world_size
    if workers == 1:
        return 0.0
    if system.link_gb_per_s is None or system.link_latency_us is None:
        raise UserError(
            f"hw={system.name} has {workers} workers, and what links them is not known: give hw.link_gb_per_s= and "
            "hw.link_latency_us= (python -m suite.doctor workers=N prints them)"
        )
    if system.nodes > 1 and _within_a_node(system):
        raise UserError(
            f"hw={system.name} hw.nodes={system.nodes}: the link of conf/hw/ is that within a node: give "
            "hw.link_gb_per_s= and hw.link_latency_us= of the network between them (python -m suite.doctor workers=N "
            "prints them)"
        )
    if weights is None:
        raise UserError("the size of the model is not known, so what its workers send is not")
    return ring(workers, weights, system.link_latency_us / 1e6, system.link_gb_per_s * 1e9)


def _within_a_node(system: System) -> bool:
    """Whether its bandwidth or latency is still the one that its file has for a single node."""
    if system.name not in config.names("hw"):
        return False
    filed = config.system(system.name)
    same = system.link_gb_per_s == filed.link_gb_per_s or system.link_latency_us == filed.link_latency_us
    return filed.nodes == 1 and same
