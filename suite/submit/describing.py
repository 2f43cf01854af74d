"""MLPerf's system description: what was detected, and what only a person knows, read from their file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from suite.errors import UserError, one_of
from suite.record.parsing import MalformedError, yaml_mapping
from suite.record.system import KEYS, STORAGE
from suite.rules.claims import MAX_DESCRIPTION, SPELLED
from suite.store.disk import UnsafeFile, read_safely
from suite.submit.collecting import Collected

DECLARED = ("submitter", "division", "status", "system_name")  # by the command
OPTIONAL = ("hw_notes", "sw_notes")
SAYS_NOTHING = ("", "unknown", "not known", "null", "tbd", "todo", "?", "-")  # "N/A" is an answer: some have no network

Description = dict[str, str]


def told(path: Path | None, systems: Iterable[str], others: Iterable[str] = ()) -> dict[str, Description]:
    """What the YAML file says of each of `systems`: `key: text` holds for all, `system: {key: text}` for one.

    The file may also name `others`, which are ignored. Raises UserError for a file that is not such YAML.
    """
    made: dict[str, Description] = {name: {} for name in systems}
    if path is None:
        return made
    try:
        values, _ = yaml_mapping(read_safely(path, MAX_DESCRIPTION))
    except (MalformedError, UnsafeFile) as error:
        raise UserError(f"description={path}: {error}") from error
    except OSError as error:
        raise UserError(f"cannot read description={path}: {error.strerror}") from error
    of_one = {name: value for name, value in values.items() if isinstance(value, dict)}
    for name in of_one:
        one_of(f"system of description={path}", name, {*made, *others})
    for name in made:
        for key, value in ({**values, **of_one.get(name, {})}).items():
            if key not in of_one:
                made[name][key] = _told(path, key, value)
    return made


def _told(path: Path, key: str, value: Any) -> str:
    allowed = [name for name in KEYS if name not in DECLARED]
    one_of(f"field of description={path}", key, allowed)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UserError(f"description={path}: {key} is {value!r:.60}, not a text")
    return str(value).strip()


def describe(result: Collected, org: str, division: str, category: str, told: Mapping[str, str]) -> Description:
    """The 33 texts. What was detected stands; a person fills in the rest. Raises UserError where they contradict it."""
    made = {key: result.description.get(key, "").strip() for key in KEYS}
    made |= {"submitter": org, "division": division, "status": SPELLED[category], "system_name": result.system}
    for key, text in told.items():
        if made[key] and made[key] != text:
            raise UserError(f"the description says {key}: {text}; detected was {made[key]}: say it in hw_notes")
        made[key] = text
    return made


def joined(
    stored: Mapping[str, str], made: Mapping[str, str], told: Mapping[str, str], where: str, mend: str
) -> Description:
    """The `stored` description, its empty fields filled in from the one that was `made` now.

    Raises UserError if a filled field other than the storage would change; `told`, `where` and `mend` are for its text.
    """
    for key in KEYS:
        before, after = stored.get(key, ""), made[key]
        if before and after and before != after and key != STORAGE:
            other = "" if key in told else "give another machine a name of its own, system=NAME; "
            raise UserError(
                f"{where} says {key}: {before}; this result says {after}: {other}nothing is overwritten; {mend}"
            )
    return {key: stored.get(key, "") or made[key] for key in KEYS}


def empty(description: Mapping[str, str]) -> list[str]:
    """The fields that a person has yet to fill in. Words such as "unknown" do not count."""
    without = description.get("accelerators_per_node", "") in ("", "0")
    blank = [key for key in KEYS if description.get(key, "").strip().lower() in SAYS_NOTHING]
    return [key for key in blank if key not in OPTIONAL and not (without and key.startswith("accelerator_"))]
