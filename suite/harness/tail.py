"""Writes the last lines of a run's log: what is measured once it has stopped."""

from __future__ import annotations

from typing import Any

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import COST, ENERGY, ENVIRONMENT, IMPLEMENTATION_AFTER, WITNESS
from suite.harness.run import Run
from suite.measure import noise
from suite.measure.cost import cost, price_per_hour
from suite.measure.energy import energy
from suite.measure.samples import header, read_samples
from suite.measure.systems import power_ceiling
from suite.record import evidence
from suite.record.mllog import Line, run_stop, since_restart
from suite.store.disk import write_atomically


def write(run: Run) -> Line:
    """Log the environment, energy and cost between run_start and run_stop, changes to the user's own code, and what
    the witness saw of the clock.

    Lines that are logged already are not repeated. Returns the line of run_stop.
    """
    log, system, own, witness = run.log, run.session.plan.system, run.session.own, run.witness
    power = run.folder / evidence.POWER
    if not power.exists():  # the user has deleted a damaged one
        write_atomically(power, f"{header(system.nodes)}\n".encode())
    start, stop = next(line for line in log.lines if line.key == keys.RUN_START), run_stop(log.lines)
    assert stop
    since = since_restart(log.lines)
    if not any(line.key == ENVIRONMENT and line.metadata["when"] == "during" for line in since):
        run.environment("during", noise.judge(read_samples(power), {}, 1.0))
    logged = {line.key for line in since}
    if ENERGY not in logged:
        ceiling = power_ceiling(system, run.machine)
        used = energy(read_samples(power), start.time_ms, stop.time_ms, ceiling, system.nodes, run.machine.library)
        log.event(ENERGY, used.joules, **{k: v for k, v in vars(used).items() if k != "joules"})
    if COST not in logged:
        source: dict[str, Any] = system.price.model_dump() if system.price else {"currency": None}
        price, seconds = price_per_hour(system, run.machine), (stop.time_ms - start.time_ms) / 1000
        log.event(COST, cost(price, seconds), price_per_hour=price, **source)
    if own and IMPLEMENTATION_AFTER not in logged:
        log.event(IMPLEMENTATION_AFTER, own.told.name, changed=own.changed())
    if witness and WITNESS not in logged:
        had = witness.finish()
        log.event(WITNESS, witness.host, **had, problems=witness.problems)
    return stop
