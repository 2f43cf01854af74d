"""A submission's system descriptions: the 33 fields that MLCommons' system_desc_checker asks for since round 1.0."""

from __future__ import annotations

import json
from typing import Any

from suite.errors import shown, shown_path
from suite.mlperf.packages import Group
from suite.record.system import KEYS
from suite.rules.claims import SPELLED
from suite.rules.finding import Finding, Severity
from suite.store.disk import UnsafeFile, read_safely

MAX_BYTES = 1 << 20
UNCHECKED = ("mlperf-0.5", "mlperf-0.6", "mlperf-0.7")


def description(group: Group) -> dict[str, Any]:
    """The description of the group's system; empty if there is none that can be read."""
    try:
        return _read(group)
    except (OSError, ValueError):
        return {}


def place(group: Group) -> str:
    """Where the description should lie, as findings name it; empty if that is outside what is reviewed."""
    return shown_path(str(group.description.relative_to(group.root))) if group.description else ""


def _read(group: Group) -> dict[str, Any]:
    """Read the description. Raises OSError, or ValueError for anything but a JSON object in a plain file."""
    if group.description is None:
        raise FileNotFoundError
    try:
        described = json.loads(read_safely(group.description, MAX_BYTES))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(described, dict):
        raise ValueError("not an object")
    return described


def findings(group: Group, ruleset: str) -> list[Finding]:
    """What is wrong with the description of the group's system, if it lies in what is reviewed.

    The checker knows four spellings of the status; submissions use fourteen, so any other one is only a note.
    """
    if group.description is None:
        return []
    severity: Severity = "note" if ruleset in UNCHECKED else "fail"
    file = place(group)

    def finding(expected: str, found: str, mend: str, how: Severity, line: int | None = None) -> Finding:
        return Finding(file, line, expected, shown(found), mend, how, rule=f"{ruleset}/system")

    try:
        described = _read(group)
    except json.JSONDecodeError as error:
        return [finding("one JSON object", error.msg, "describe the system in JSON", severity, error.lineno)]
    except FileNotFoundError:
        return [finding("a description of the system", "none", "submit it", severity)]
    except UnsafeFile as error:
        return [finding("a plain file of moderate size", str(error), "submit the file itself", "error")]
    except (OSError, ValueError) as error:
        return [finding("one JSON object", str(error), "describe the system in JSON", severity)]
    made = [finding(f"the field {key}", "none", f"add {key}", severity) for key in KEYS if key not in described]
    if ruleset not in UNCHECKED and "status" in described and described["status"] not in SPELLED.values():
        expected = f"a status of {'; '.join(SPELLED.values())}"
        made.append(finding(expected, shown(described["status"]), "spell the status so", "note"))
    return made
