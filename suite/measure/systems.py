"""The system that `hw=` names, on the machine at hand: whether they match, its precision and its power."""

from __future__ import annotations

import re
from collections import Counter

from suite import config
from suite.config.models import Benchmark, Precision, Price, System
from suite.errors import UserError
from suite.measure.machine import Machine

AUTO, CPU = "auto", "cpu"


def resolve(system: System, machine: Machine) -> System:
    """The system to run as: `auto` becomes the named system that this machine is, or `auto` with what was detected.

    A price set by hand loses the source that the system's file gives. Whether this machine is the system is checked by
    `mismatch`.
    """
    return _own_price(_detected(system, machine) if system.name == AUTO and system.accelerator is None else system)


def mismatch(system: System, machine: Machine, begun: bool = False) -> str | None:
    """Why this machine is not `system`, and what to type instead, or to do if the run was `begun`. None if it is."""
    if _fits(system, machine):
        return None
    asked, found = system.accelerators_per_node, machine.accelerators
    names = ", ".join(f"{count} x {name}" for name, count in Counter(each.name for each in found).items()) or "none"
    hidden = (
        f" (and CUDA_VISIBLE_DEVICES or its like hides {machine.hidden_accelerators})"
        if machine.hidden_accelerators
        else ""
    )
    fewer = f"choose {asked} of them with CUDA_VISIBLE_DEVICES, or " if _matching(system, machine) >= asked else ""
    instead = "go on with the run on a machine like that which it was begun on"
    if not begun:
        fitting = _named(machine)
        instead = f"type hw={fitting.name if fitting else CPU} or hw={AUTO}"
    return (
        f"hw={system.name} asks for {asked} accelerator{'s' if asked > 1 else ''} matching {system.accelerator!r}; "
        f"this machine has {names}{hidden}: {fewer}{instead}"
    )


def system_here(name: str, machine: Machine) -> System:
    """Return the named system as `resolve` does. Raises UserError if it is unknown, or is not `machine`."""
    system = resolve(config.system(name), machine)
    if why := mismatch(system, machine):
        raise UserError(why)
    return system


def precision_of(system: System, machine: Machine, benchmark: Benchmark | None = None) -> Precision:
    """The training precision: the benchmark's own, else the system's, else bf16 where it is native, else fp16 on GPUs
    and fp32 on CPUs.
    """
    if benchmark and benchmark.precision:
        return benchmark.precision
    if system.precision:
        return system.precision
    if system.device_kind == "cpu":
        return "bf16" if machine.cpu_bf16 else "fp32"
    return "bf16" if all(each.bf16 for each in machine.accelerators) else "fp16"


def power_ceiling(system: System, machine: Machine) -> float | None:
    """The most power in watts that the processors of one node of the system can draw; None if not known."""
    if system.power_ceiling_w is not None:
        return system.power_ceiling_w
    each = system.power_ceiling_w_per_cpu
    return each * machine.logical_cpus if each is not None else None


def _matching(system: System, machine: Machine) -> int:
    return sum(re.search(system.accelerator or "", each.name) is not None for each in machine.accelerators)


def _fits(system: System, machine: Machine) -> bool:
    asked = system.accelerators_per_node
    return system.accelerator is None or _matching(system, machine) == len(machine.accelerators) == asked


def _named(machine: Machine) -> System | None:
    """The system of `conf/hw/` that this machine is; None for accelerators that no file describes."""
    if not machine.accelerators:
        return config.system(CPU)
    systems = (config.system(name) for name in config.names("hw"))
    return next((each for each in systems if each.accelerator and _fits(each, machine)), None)


def _detected(auto: System, machine: Machine) -> System:
    names = sorted({each.name for each in machine.accelerators})
    found = _named(machine) or auto.model_copy(
        update={
            "title": f"{len(machine.accelerators)} x {' and '.join(names)}",
            "accelerator": f"^({'|'.join(re.escape(name) for name in names)})$",
            "accelerators_per_node": len(machine.accelerators),
            "memory_gb": min(each.memory_gb for each in machine.accelerators),
        }
    )
    plain = config.system(AUTO)
    overridden = {name for name in System.model_fields if getattr(auto, name) != getattr(plain, name)}
    values = {name: getattr(auto if name in overridden else found, name) for name in System.model_fields}
    return config.checked(System, values, f"hw={found.name}")


def _own_price(system: System) -> System:
    listed = config.system(system.name)
    figures = (system.price_per_hour, system.price_per_cpu_hour)
    told, usual = (each.price and each.price.model_dump(exclude={"currency"}) for each in (system, listed))
    if figures == (listed.price_per_hour, listed.price_per_cpu_hour) or told != usual:
        return system
    currency = system.price.currency if system.price else "USD"
    price = Price(provider="set by hand", instance="", region="", date="", source="hw option", currency=currency)
    return system.model_copy(update={"price": price})
