"""What a run would take, for `dry_run=true`: its plan, memory and forecast, and what stands in its way."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from suite.forecast import memory, roughly
from suite.forecast.memory import Footprint
from suite.run import printing
from suite.run.planned import Planned

UNRUNNABLE = "no machine could run it"


def show(to: Console, made: Planned, nowhere: str | None, here: Sequence[str], elsewhere: bool) -> None:
    """Print this, with the reasons why no machine (`nowhere`) or not this one (`here`) could run the plan.

    `elsewhere` says that the plan is for the machines of a job.
    """
    plan, data_dir = made.plan, made.options.data_dir
    needed = _memory(made, nowhere)
    told = {**made.unseen(), "memory": needed.line(plan.system), **_forecast(made, nowhere)}
    printing.plan(to, plan, made.found, data_dir, told, elsewhere)
    printing.obstacles(to, nowhere, here, needed.problem(plan.system))


def _memory(made: Planned, nowhere: str | None) -> Footprint:
    """The accelerator memory that a worker of the plan needs."""
    plan = made.plan
    if plan.contestant:
        return Footprint(None, "the implementation is not the suite's")
    if nowhere:
        return Footprint(None, UNRUNNABLE)
    return memory.needed(plan.benchmark, plan.system, plan.framework, plan.precision, made.options.data_dir)


def _forecast(made: Planned, nowhere: str | None) -> dict[str, str]:
    """What a run of the plan is expected to take, without a probe; nothing for an implementation of one's own."""
    plan = made.plan
    if plan.contestant:
        return {}
    if nowhere:
        return {"forecast": f"none: {UNRUNNABLE}"}
    return {"forecast": roughly.line(plan.benchmark, plan.system, made.found, plan.precision, plan.framework.name)}
