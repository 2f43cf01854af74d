"""The content of system.json: MLPerf's system description, what was detected, software, git revision, environment.

Names of people, hosts and folders stay out of it.
"""

from __future__ import annotations

import platform
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import psutil
from mlperf_logging.mllog import constants as keys

from suite import config
from suite.config.contestant import Contestant
from suite.config.folder import ROOT
from suite.config.models import Framework, System
from suite.measure.machine import Machine
from suite.measure.processor import caches
from suite.record import git
from suite.record.environment import environment

DIVISIONS = (keys.CLOSED, keys.OPEN)
# The status in a log, by the category of the system.
STATUSES = {"available": keys.ONPREM, "cloud": keys.CLOUD, "preview": "preview", "research": keys.RESEARCH}

# MLPerf Training's keys, in its order (mlcommons/policies, submission_rules: system description).
KEYS = (
    "submitter",
    "division",
    "status",
    "system_name",
    "number_of_nodes",
    "host_processors_per_node",
    "host_processor_model_name",
    "host_processor_core_count",
    "host_processor_vcpu_count",
    "host_processor_frequency",
    "host_processor_caches",
    "host_processor_interconnect",
    "host_memory_capacity",
    "host_memory_configuration",
    "host_storage_type",
    "host_storage_capacity",
    "host_networking",
    "host_networking_topology",
    "accelerators_per_node",
    "accelerator_model_name",
    "accelerator_host_interconnect",
    "accelerator_frequency",
    "accelerator_on-chip_memories",
    "accelerator_memory_configuration",
    "accelerator_memory_capacity",
    "accelerator_interconnect",
    "accelerator_interconnect_topology",
    "cooling",
    "hw_notes",
    "framework",
    "other_software_stack",
    "operating_system",
    "sw_notes",
)
STORAGE = "host_storage_capacity"  # varies on one machine where file systems share their space, as ZFS's do


def describe(
    system: System,
    machine: Machine,
    framework: Framework,
    declared: Mapping[str, str],
    contestant: Contestant | None = None,
) -> dict[str, Any]:
    """The content of system.json; `declared` has submitter, division and status. What only a person knows is empty.

    `contestant` is the implementation that trains, None for the reference.
    """
    software, python = versions(), platform.python_version()
    known = {
        **declared,
        "system_name": system.name,
        "number_of_nodes": system.nodes,
        **_host(machine),
        **(_accelerators(machine) if system.accelerator else {"accelerators_per_node": 0}),
        "framework": framework_text(framework, software.get(framework.module)),
        "other_software_stack": stack_text(python, machine.driver),
        "operating_system": _operating_system(),
    }
    return {
        "description": {key: "" if known.get(key) is None else str(known[key]) for key in KEYS},
        "detected": {
            **asdict(machine),
            "architecture": platform.machine(),
            "kernel": platform.release(),
            "python": python,
        },
        "software": software,
        "git": git.state(),
        "implementation": contestant.model_dump() if contestant else None,
        "environment": environment(),
    }


def framework_text(framework: Framework, version: str | None) -> str:
    """How a description names a framework, in the version that is installed."""
    return f"{framework.title} {version or ''}".strip()


def memory_text(gigabytes: float) -> str:
    """How a description gives the memory."""
    return f"{gigabytes:g} GB"


def stack_text(python: str, driver: str | None) -> str:
    """How a description gives what lies between framework and operating system."""
    return f"Python {python}" + (f", {driver}" if driver else "")


def kernel_text(release: str) -> str:
    """How a description's text of the operating system ends."""
    return f", kernel {release}"


def versions() -> dict[str, str]:
    """The version of every installed package, by name, and of a framework that another package brings, by its module.

    If a package is installed twice, its version is that of the first, which Python imports.
    """
    found: dict[str, str] = {}
    for each in metadata.distributions():
        found.setdefault((each.metadata["Name"] or "").lower(), each.version)
    modules = {config.framework(name).module for name in config.names("framework")} - found.keys()
    if there := [module for module in modules if find_spec(module)]:
        distributions = metadata.packages_distributions()  # takes 0.2 s: it reads the list of files of each package
        brought = {module: min(distributions[module]).lower() for module in there if module in distributions}
        found |= {module: found[name] for module, name in brought.items()}
    return {name: found[name] for name in sorted(found) if name}


def _host(machine: Machine) -> dict[str, Any]:
    cores, sockets = psutil.cpu_count(logical=False), machine.sockets
    try:
        frequency = psutil.cpu_freq()
    except (AttributeError, OSError, RuntimeError):  # psutil has no such function, or none that works, on some of ARM
        frequency = None
    return {
        "host_processors_per_node": sockets,
        "host_processor_model_name": machine.cpu_model,
        "host_processor_core_count": cores // sockets if cores and sockets else None,
        "host_processor_vcpu_count": machine.logical_cpus,
        "host_processor_frequency": f"{frequency.max:.0f} MHz" if frequency and frequency.max else None,
        "host_processor_caches": ", ".join(f"L{level} {kind} {size}" for level, kind, size in caches()),
        "host_memory_capacity": memory_text(machine.memory_gb),
        STORAGE: f"{shutil.disk_usage(ROOT).total / 1e9:.0f} GB",
    }


def _accelerators(machine: Machine) -> dict[str, Any]:
    memory = {each.memory_gb for each in machine.accelerators}
    return {
        "accelerators_per_node": len(machine.accelerators),
        "accelerator_model_name": ", ".join(Counter(each.name for each in machine.accelerators)),
        "accelerator_memory_capacity": ", ".join(map(memory_text, sorted(memory))),
    }


def _operating_system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = platform.system()
    return name + kernel_text(platform.release())
