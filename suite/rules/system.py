"""Checks of the chapter "Systems": the machine is described, has one name everywhere, and is the system so named."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite import __version__
from suite import config as suite_config
from suite.config.formats import closed, formats
from suite.config.logkeys import CONFIG as LOGGED_CONFIG
from suite.config.models import System
from suite.errors import shown
from suite.measure.machine import ALIKE
from suite.measure.samples import MOST_NODES
from suite.measure.systems import AUTO
from suite.record.evidence import CONFIG, LOG, SYSTEM
from suite.record.parsing import differences, number, same, value_at, whole
from suite.record.system import KEYS, framework_text, kernel_text, memory_text, stack_text
from suite.rules.finding import FILE_AS_WRITTEN, Finding
from suite.rules.reading import RUN, Evidence
from suite.store.packages import DISTRIBUTION

# What the suite detects on any machine; some of the rest only a person knows.
FILLED = (
    "submitter",
    "division",
    "status",
    "system_name",
    "number_of_nodes",
    "host_processor_model_name",
    "host_processor_vcpu_count",
    "host_memory_capacity",
    "accelerators_per_node",
    "framework",
    "operating_system",
)
FILLED_WITH_ACCELERATORS = ("accelerator_model_name", "accelerator_memory_capacity")
# What a submitter may set for a named system.
FREE = {"price_per_hour", "price_per_cpu_hour", "price", "default_scale", "precision", "nodes", "workers"}
COUNTS = {"nodes": 1, "workers": 1, "accelerators_per_node": 0}  # the least of each
FOUND = {"title", "accelerator", "accelerators_per_node", "memory_gb"}  # what `auto` takes from the machine

_VERSION = re.compile(r"\d+(\.\d+)+([a-z.+-]+\d+)*\Z")
_LONGEST = 100  # characters of a version; matching takes quadratic time
_ALIKE = "run on machines that are alike"


@RUN.rule("system.1")
def described(run: Evidence) -> Iterator[Finding]:
    """The description has MLPerf's keys, as text, and those that the suite can detect are filled in."""
    if not run.parsed(SYSTEM):
        return
    description = run.described("description")
    if not isinstance(description, dict):
        yield Finding(SYSTEM, 1, "a description", description, FILE_AS_WRITTEN)
        return
    accelerated = description.get("accelerators_per_node") not in ("", "0", None)
    needed = {*FILLED, *(FILLED_WITH_ACCELERATORS if accelerated else ())}
    for key in KEYS:
        value, line = description.get(key), run.system_line(key)
        if not isinstance(value, str):
            yield Finding(SYSTEM, line, f"{key} as text", value, f"fill in {key}; leave it empty if it is not known")
        elif key in needed and not value.strip():
            yield Finding(SYSTEM, line, f"{key}, filled in", "nothing", f"fill in {key}")


@RUN.rule("system.2")
def named_alike(run: Evidence) -> Iterator[Finding]:
    """Log, configuration and system description name one system; the description names the framework that ran."""
    yield from _framework(run)
    platform, config_line = run.line(keys.SUBMISSION_PLATFORM), run.line(LOGGED_CONFIG)
    if platform is None:
        return
    names: list[tuple[str, int | None, Any]] = []
    if config_line:
        names.append((LOG, config_line.number, config_line.metadata.get("system")))
    if run.parsed(CONFIG):
        names.append((CONFIG, run.config_line("system", "name"), run.configured("system", "name")))
    if isinstance(run.described("description"), dict):
        names.append((SYSTEM, run.system_line("system_name"), run.described("description", "system_name")))
    for file, line, name in names:
        if name != platform.value:
            expected = f"system {platform.value}, as in log line {platform.number}"
            yield Finding(file, line, expected, name, "name one system everywhere")


def _framework(run: Evidence) -> Iterator[Finding]:
    """Where the described framework is not the configured one in its installed version. An empty one is system.1's."""
    name, text = run.configured("framework"), run.described("description", "framework")
    if name not in suite_config.names("framework") or not isinstance(text, str) or not text.strip():
        return
    framework = suite_config.framework(name)
    version = run.described("software", framework.module)
    expected = framework_text(framework, version if isinstance(version, str) else None)
    if text.strip() != expected:
        yield Finding(SYSTEM, run.system_line("framework"), expected, text, "describe the framework that ran")


def free_of(name: str) -> set[str]:
    """The fields of a system that need not be as the suite has them."""
    return FREE | FOUND if name == AUTO else FREE


@RUN.rule("system.3")
def known_system(run: Evidence) -> Iterator[Finding]:
    """The system is one of the suite's, with the figures that the suite gives it, except for those of `free_of`."""
    if not run.parsed(CONFIG):
        return
    system, where = listed(run), run.config_line("system", "name")
    if system is None:
        expected = f"one of {', '.join(suite_config.names('hw'))}"
        mend = "have the suite take its file into conf/hw/, or run as hw=auto without it: docs/adding-a-machine.md"
        yield Finding(CONFIG, where, expected, run.configured("system", "name"), mend)
    else:
        free = free_of(system.name)
        if system.name == AUTO:
            found = "a machine of no known figures"
            yield Finding(CONFIG, where, "a system of conf/hw/", found, "add it to conf/hw/", "note")
        ours = system.model_dump(mode="json", exclude=free)
        configured = {name: value for name, value in run.configured("system").items() if name not in free}
        for path, right, wrong in differences(ours, configured):
            name = ".".join(map(str, path))
            mend = f"leave every figure as conf/hw/{system.name}.yaml has it; add a system of your own there"
            yield Finding(CONFIG, run.config_line("system", *path), f"system.{name}: {right}", wrong, mend)


@RUN.rule("system.4")
def detected(run: Evidence) -> Iterator[Finding]:
    """The description agrees with what was detected, and the accelerators are those of the named system."""
    if not run.parsed(SYSTEM):
        return
    names, cpus = run.accelerators, run.described("detected", "logical_cpus")
    if not whole(cpus):
        line = run.system_line("logical_cpus")
        yield Finding(SYSTEM, line, "logical_cpus, a whole number from 1", cpus, FILE_AS_WRITTEN)
    own, quota = (number(run.described("environment", name)) for name in ("cpus", "cpu_quota"))
    least = min(own, math.ceil(quota or own)) if own is not None else 1
    if (count := whole(cpus)) and count < least:
        expected = f"logical_cpus of at least {least:g}, which the environment has"
        yield Finding(SYSTEM, run.system_line("logical_cpus"), expected, cpus, FILE_AS_WRITTEN)
    memory_gb = number(run.described("detected", "memory_gb"))
    facts = {
        "host_processor_model_name": run.described("detected", "cpu_model"),
        "host_processors_per_node": run.described("detected", "sockets"),
        "host_processor_vcpu_count": cpus,
        "host_memory_capacity": None if memory_gb is None else memory_text(memory_gb),
        "other_software_stack": stack_text(run.described("detected", "python"), run.described("detected", "driver")),
    }
    if run.parsed(CONFIG):  # which says whether the accelerators took part
        used = names if run.configured("system", "accelerator") else []
        facts["number_of_nodes"] = run.configured("system", "nodes")
        facts["accelerators_per_node"] = len(used)
        facts["accelerator_model_name"] = ", ".join(dict.fromkeys(map(str, used)))
        told = run.described("detected", "accelerators") if used else []
        sizes = {number(value_at(each, "memory_gb")) for each in told}
        if None not in sizes:  # older evidence has the accelerators' names alone
            known = sorted(size for size in sizes if size is not None)
            facts["accelerator_memory_capacity"] = ", ".join(map(memory_text, known))
    for name, fact in facts.items():
        text = run.described("description", name)
        if isinstance(text, str) and text.strip() and text.strip() != str(fact).strip():
            yield Finding(SYSTEM, run.system_line(name), f"{name} {fact}, as detected", text, FILE_AS_WRITTEN)
    system_text, kernel = run.described("description", "operating_system"), run.described("detected", "kernel")
    if isinstance(system_text, str) and system_text.strip() and not system_text.endswith(kernel_text(kernel)):
        line = run.system_line("operating_system")
        yield Finding(
            SYSTEM, line, f"an operating_system of kernel {kernel}, as detected", system_text, FILE_AS_WRITTEN
        )
    yield from _other_nodes(run)
    system = listed(run)
    if system is None or system.accelerator is None:
        return
    matching = [name for name in names if isinstance(name, str) and re.search(system.accelerator, name)]
    if not len(matching) == len(names) == system.accelerators_per_node:
        expected = f"{system.accelerators_per_node} accelerators matching {system.accelerator}, for hw={system.name}"
        line = run.system_line("accelerators")
        yield Finding(SYSTEM, line, expected, names or "none", "name the system that the run was made on")


def _other_nodes(run: Evidence) -> Iterator[Finding]:
    """Where a run of several nodes does not describe each, or one differs from the leader's in what must be alike."""
    others, line = run.described("other_nodes"), run.system_line("other_nodes")
    found = others if isinstance(others, list) else []
    if run.parsed(CONFIG) and len(found) != run.nodes - 1:
        expected = f"other_nodes, what was detected on {run.nodes - 1} beside the leader's"
        yield Finding(SYSTEM, line, expected, f"{len(found)} of them", FILE_AS_WRITTEN)
    for name in ALIKE:
        ours = run.described("detected", name)
        told = shown(ours)  # made once: it may be long, and the nodes many
        for index, node in enumerate(found, 1):
            theirs = node.get(name) if isinstance(node, dict) else None
            if not same(ours, theirs):
                yield Finding(SYSTEM, line, f"{name} {told} on node {index}, as on the leader's", theirs, _ALIKE)


@RUN.rule("system.8")
def configured(run: Evidence) -> Iterator[Finding]:
    """Device, precision, version and counts in the configuration are values that the suite could have written there."""
    if not run.parsed(CONFIG):
        return
    accelerated = run.configured("system", "accelerator") is not None
    device, precision = run.configured("device"), run.configured("precision")
    kind = "gpu" if accelerated else "cpu"
    if device != kind:
        yield Finding(CONFIG, run.config_line("device"), f"device {kind}, that of the system", device, FILE_AS_WRITTEN)
    if not isinstance(precision, str) or precision not in formats():
        expected = f"one of {', '.join(formats())}"
        yield Finding(CONFIG, run.config_line("precision"), expected, precision, FILE_AS_WRITTEN)
    for name, least in COUNTS.items():
        value = run.configured("system", name)
        count = whole(value)
        if value is not None and (count is None or not least <= count <= MOST_NODES):
            expected = f"{name}, a whole number from {least} to {MOST_NODES:,}"
            yield Finding(CONFIG, run.config_line("system", name), expected, value, FILE_AS_WRITTEN)
    yield from _version(run)
    unused = run.described("detected", "accelerators")
    if not accelerated and unused:
        mend = "none: such a machine may run hw=cpu; see that the accelerators took no part"
        line = run.system_line("accelerators")
        yield Finding(SYSTEM, line, "a machine without accelerators", f"{unused}, by a run without", mend, "note")


@RUN.rule("model.5")
def format_allowed(run: Evidence) -> Iterator[Finding]:
    """The division allows the numeric format, and log and configuration agree on it. Older logs name none."""
    precision, line = run.configured("precision"), run.line(LOGGED_CONFIG)
    if not isinstance(precision, str) or precision not in formats():
        return  # system.8 reports it
    where = run.config_line("precision")
    if not run.in_open and not formats()[precision].closed:
        allowed = f"in the closed division one of {', '.join(closed())}"
        mend = "train in one of these, or submit to the open division"
        yield Finding(CONFIG, where, allowed, f"{precision}, {formats()[precision].title}", mend)
    if line and line.metadata.get("precision", precision) != precision:
        expected = f"precision {line.metadata['precision']}, as in log line {line.number}"
        yield Finding(CONFIG, where, expected, precision, FILE_AS_WRITTEN)


def _version(run: Evidence) -> Iterator[Finding]:
    """Where the suite's version is malformed; a note where it is not the reviewer's or not the installed one."""
    version, where = run.configured("suite_version"), run.config_line("suite_version")
    if not (isinstance(version, str) and len(version) <= _LONGEST and _VERSION.match(version)):
        yield Finding(CONFIG, where, "suite_version, such as 0.1.0", version, FILE_AS_WRITTEN)
        return
    if version != __version__:
        mend = "none: review it with that version if a rule was changed since"
        yield Finding(CONFIG, where, f"suite_version {__version__}, the reviewer's", version, mend, "note")
    installed = run.described("software", DISTRIBUTION)
    if installed is not None and installed != version:
        mend = "install the version that runs: pip install -e ."
        yield Finding(CONFIG, where, f"suite_version {installed}, as installed", version, mend, "note")


def listed(run: Evidence) -> System | None:
    """The suite's own system of the name that the configuration gives, None if there is none of that name."""
    name = run.configured("system", "name")
    return suite_config.system(name) if name in suite_config.names("hw") else None
