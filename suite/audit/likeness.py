"""Whether the auditor's machine should give the same bits as a run's: the same processors, software and threads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from suite import config
from suite.audit.replaying import Means
from suite.audit.subject import Run
from suite.config.logkeys import RESTART
from suite.errors import shown
from suite.harness import lean
from suite.measure.machine import Machine
from suite.record.environment import CACHES, DEVICES, environment
from suite.record.parsing import same
from suite.rules.implementation import contestant_of

# Packages that compute for a framework; beside one version of it several versions of them can be installed.
_LIBRARIES = re.compile(r"(nvidia-(?!ml-py)|triton|jax|keras|rocm|intel-|libtpu)")

# What decides bits, of what a restart found changed.
_MOVED = re.compile(
    r"workers|detected\.(cpu_model|logical_cpus|cpu_bf16|accelerators)|software\..+|environment\.(threads|variables\..+)"
)


def unlike(run: Run, means: Means, machine: Machine, software: Mapping[str, str]) -> tuple[str, ...]:
    """How `machine`, with these package versions, differs from the run's in what decides bits; () if it does not."""
    framework, kind, precision, _ = run.configuration
    told = run.evidence.described
    module = config.framework(framework).module if framework in config.names("framework") else framework
    pairs: dict[str, tuple[Any, Any]] = {
        "framework": (framework, means.framework or framework),
        "precision": (precision, means.precision or precision),
        "device": (kind, means.kind),
        "workers": (run.evidence.world_size, 1),
        "processor": (told("detected", "cpu_model"), machine.cpu_model),
        "logical CPUs": (told("detected", "logical_cpus"), machine.logical_cpus),
        "native bf16": (told("detected", "cpu_bf16"), machine.cpu_bf16),
        "accelerators": (run.evidence.accelerators, [each.name for each in machine.accelerators]),
        **{name: (told("software", name), software.get(name)) for name in (module, "numpy")},
    }
    installed, own = told("software"), contestant_of(run.evidence)
    imported = own.imports if own else {}
    both = software.keys() & installed.keys() if isinstance(installed, dict) else ()
    for name in sorted(both):
        if _LIBRARIES.match(name) or name.replace("-", "_") in imported:
            pairs[name] = (installed[name], software[name])
    if isinstance(theirs := told("environment", "variables"), dict):
        ours = environment()
        pairs["threads"] = (told("environment", "threads"), ours["threads"])
        names = sorted({*theirs, *ours["variables"]}.difference(lean.quiet_variables()))
        pairs |= {name: (theirs.get(name), ours["variables"].get(name)) for name in names if _decides(name)}
    differ = [f"{name} {claimed}, here {found}" for name, (claimed, found) in pairs.items() if not same(claimed, found)]
    return tuple(map(shown, [*differ, *_moved(run)]))


def _decides(variable: str) -> bool:
    return not (DEVICES.fullmatch(variable) or CACHES.fullmatch(variable))


def _moved(run: Run) -> list[str]:
    """Where a restart found another machine than the run describes, so that parts of it were trained on each."""
    told = [line.metadata.get("changed") for line in run.evidence.lines_of.get(RESTART, [])]
    places = [str(place) for each in told if isinstance(each, list) for place in each]
    decide = [place for place in places if _MOVED.fullmatch(place) and _decides(place.rpartition(".")[2])]
    return [f"changed at a restart: {', '.join(dict.fromkeys(decide))}"] if decide else []
