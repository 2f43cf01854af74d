"""Why a plan cannot be run: nowhere at all, or not on this machine. No framework is imported."""

from __future__ import annotations

import os
import time
from pathlib import Path

from suite.config.models import System
from suite.config.plan import Plan
from suite.harness.contestant import OwnImplementation, trainer
from suite.harness.declared import Declared, by_reference
from suite.harness.implementation import Device, unshared, untrained
from suite.harness.workers.place import Place
from suite.measure.machine import Machine
from suite.measure.systems import mismatch
from suite.record.mllog import EARLIEST_MS
from suite.record.summary import format_count
from suite.record.tracking_server import written_here
from suite.run.planned import Planned
from suite.store import code, files
from suite.store.packages import lacking, without_compiler


def anywhere(made: Plan, own: OwnImplementation | None) -> str | None:
    """Why no machine could run the plan: too many workers for the code or a step, or a format it does not train in.

    None if one could. Raises UserError for a framework in which the task is not written.
    """
    return _too_many(made, own) or _untrained(made, own)


def on_machines_of_a_job(made: Plan, own: OwnImplementation | None) -> str | None:
    """The same for a plan made on a login node, which cannot tell the numeric format that the job's machines take."""
    fixed = made.system.precision or made.benchmark.precision
    return _too_many(made, own) or (_untrained(made, own) if fixed else None)


def _too_many(made: Plan, own: OwnImplementation | None) -> str | None:
    asked, said = made.system.world_size, _declared(made, own)
    most, parts = said.accelerators, said.parts(made.benchmark.hyperparameters)
    if asked <= most:
        return unshared(asked, parts, "parts") if parts is not None else None
    what = own.told.name if own else made.framework.title
    mend = "give fewer with hw.nodes= or hw.workers="
    if made.system.accelerators_per_node > 1:
        mend = "choose fewer accelerators with CUDA_VISIBLE_DEVICES=0 and hw=auto"
    return (
        f"hw={made.system.name} trains with {asked} workers; {made.benchmark.task} in {what} with {most} (its "
        f"ACCELERATORS): {mend}"
    )


def _untrained(made: Plan, own: OwnImplementation | None) -> str | None:
    said, who = _declared(made, own), trainer(own, made.framework.name)
    hw = made.system.name if made.benchmark.precision is None else None
    return untrained(who, Device(made.system.device_kind, made.precision), said.precisions, hw)


def _declared(made: Plan, own: OwnImplementation | None) -> Declared:
    """What the code that trains declares. Raises UserError for a framework in which the task is not written."""
    return own.declared if own else by_reference(made.benchmark.task, made.framework)


def here(made: Planned, place: Place) -> list[str]:
    """Why this machine, and the workers that were started on it, cannot run the plan; empty if they can."""
    plan, found = made.plan, made.found
    framework = None if plan.contestant else plan.framework  # what the user's own lacks is found when it is loaded
    reasons = (
        mismatch(plan.system, found, begun=made.resumed is not None),
        _world(plan.system, place),
        _without_tf32(found) if (plan.system.device_kind, plan.precision) == ("gpu", "tf32") else None,
        lacking(plan.benchmark.task, framework),
        without_compiler(framework) if framework and plan.system.device_kind == "gpu" else None,
        among_code(made),
        _unset_clock(),
    )
    return [why for why in reasons if why]


def _world(system: System, place: Place) -> str | None:
    """Why the workers that were started do not match the system; None if they do."""
    nodes, each = system.nodes, system.workers_per_node
    asked = f"hw={system.name} trains with {format_count(system.world_size, 'worker')}"
    on_each = f"{format_count(nodes, 'node')} of {each}"
    if place.launcher is None:
        if nodes == 1:
            return None
        return (
            f"{asked}, {on_each}: start them all, with torchrun --nnodes={nodes} --nproc-per-node={each} "
            f"--rdzv-backend=c10d --rdzv-endpoint=HOST:PORT -m suite.run ... on each node, "
            f"or with srun --nodes={nodes} --ntasks-per-node={each} python -m suite.run ..."
        )
    if (place.world_size, place.local_size) == (system.world_size, each):
        return None
    options = {"torchrun": ("--nnodes", "--nproc-per-node"), "srun": ("--nodes", "--ntasks-per-node")}[place.launcher]
    return (
        f"{asked}, {on_each}; {place.launcher} started {place.world_size}, {place.local_size} of them on this node: "
        f"say {options[0]}={nodes} {options[1]}={each}, or hw.nodes= and "
        f"{'hw=' if system.accelerator else 'hw.workers='} as they are"
    )


def _without_tf32(found: Machine) -> str | None:
    """Why a run in tf32 would in fact be one in fp32; None if it would not."""
    for each in found.accelerators:
        if not _multiplies_tf32(each.architecture):
            return (
                f"precision=tf32: {each.name} ({each.architecture}) multiplies fp32 as it is; tf32 takes sm_80 or "
                "newer, or gfx942 with HIPBLASLT_ALLOW_TF32=1: take precision=fp32"
            )
    return None


def _multiplies_tf32(architecture: str) -> bool:
    """Whether frameworks multiply in tf32 on this architecture; for those of other makers it is assumed."""
    if architecture.startswith("sm_"):
        return int(architecture.removeprefix("sm_")) >= 80
    if architecture.startswith("gfx"):
        return architecture == "gfx942" and os.environ.get("HIPBLASLT_ALLOW_TF32") == "1"
    return True


def among_code(made: Planned, logs: Path | None = None) -> str | None:
    """Why what the run writes, with the `logs` of its job if it is one, would change its code (implementation.3)."""
    if made.own is None:
        return None
    written = [(made.plan.out, ", or give another out=")]
    if made.options.mlflow:
        written += [(path, ", or give mlflow=false") for path in written_here()]
    data = files.root(made.options.data_dir)
    if files.faults(made.plan.benchmark.dataset, data, "size"):
        written.append((data, ", or give another data_dir="))
    if logs:
        written.append((logs, ""))
    for path, mend in written:
        if code.holds(made.own.path, path.resolve()):
            return (
                f"{path} would be written into implementation={made.own.path}, whose files may not change: start it "
                f"from another folder{mend}"
            )
    return None


def _unset_clock() -> str | None:
    """Why no review would accept this machine's time, as when the clock has not been set yet; None if one would."""
    now = time.time()
    if now * 1000 >= EARLIEST_MS:
        return None
    return (
        f"this machine's clock says {time.strftime('%Y-%m-%d', time.gmtime(now))}, before the suite was written: set it"
    )
