"""Why a plan cannot be run: nowhere at all, or not on this machine. No framework is imported."""

from __future__ import annotations

import time

from suite.config.plan import Plan
from suite.harness.contestant import OwnImplementation
from suite.harness.implementation import accelerators
from suite.measure.machine import Machine, mismatch
from suite.record.mllog import EARLIEST_MS
from suite.store.packages import lacking


def anywhere(made: Plan, own: OwnImplementation | None) -> str | None:
    """Why no machine could run the plan: its system has more accelerators than the implementation trains on.

    Raises UserError for a framework in which the task is not written.
    """
    most = own.accelerators if own else accelerators(made.benchmark.task, made.framework)
    asked = made.system.accelerators_per_node * made.system.nodes
    if asked <= most:
        return None
    what = own.told.name if own else made.framework.title
    return (
        f"hw={made.system.name} has {asked} accelerators; {made.benchmark.task} in {what} "
        f"trains on {most}: choose one with CUDA_VISIBLE_DEVICES=0 and hw=auto"
    )


def here(made: Plan, found: Machine) -> list[str]:
    """Why this machine cannot run the plan; empty if it can."""
    framework = None if made.contestant else made.framework  # what an own one lacks is found when it is loaded
    reasons = (mismatch(made.system, found), lacking(made.benchmark.task, framework), _unset_clock())
    return [why for why in reasons if why]


def _unset_clock() -> str | None:
    """Why no review would take the time for that of a run, as on a machine that has not asked for the time yet."""
    now = time.time()
    if now * 1000 >= EARLIEST_MS:
        return None
    return (
        f"this machine's clock says {time.strftime('%Y-%m-%d', time.gmtime(now))}, before the suite was written: set it"
    )
