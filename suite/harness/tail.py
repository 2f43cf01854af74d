"""What is measured of a run once it has stopped: the last lines of its log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import COST, ENERGY, IMPLEMENTATION_AFTER, WITNESS
from suite.config.models import System
from suite.harness.contestant import OwnImplementation
from suite.measure.cost import cost, price_per_hour
from suite.measure.energy import energy
from suite.measure.machine import Machine
from suite.measure.samples import read_samples
from suite.measure.systems import power_ceiling
from suite.record.mllog import Line, Log, run_stop, since_restart

if TYPE_CHECKING:
    from suite.record.witness import Witness


def write_log(
    log: Log, system: System, machine: Machine, power: Path, own: OwnImplementation | None, witness: Witness | None
) -> Line:
    """Log energy and cost between run_start and run_stop, what became of one's `own` code, and who saw the clock.

    What is logged already stays. `power` holds the samples. Returns the line of run_stop.
    """
    start, stop = next(line for line in log.lines if line.key == keys.RUN_START), run_stop(log.lines)
    assert stop
    logged = {line.key for line in since_restart(log.lines)}
    if ENERGY not in logged:
        ceiling = power_ceiling(system, machine)
        used = energy(read_samples(power), start.time_ms, stop.time_ms, ceiling, system.nodes, machine.library)
        log.event(ENERGY, used.joules, **{k: v for k, v in vars(used).items() if k != "joules"})
    if COST not in logged:
        source: dict[str, Any] = system.price.model_dump() if system.price else {"currency": None}
        price, seconds = price_per_hour(system, machine), (stop.time_ms - start.time_ms) / 1000
        log.event(COST, cost(price, seconds), price_per_hour=price, **source)
    if own and IMPLEMENTATION_AFTER not in logged:
        log.event(IMPLEMENTATION_AFTER, own.told.name, changed=own.changed())
    if witness and WITNESS not in logged:
        had = witness.finish()
        log.event(WITNESS, witness.host, **had, problems=witness.problems)
    return stop
