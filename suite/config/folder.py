"""The folder conf/: which names it offers, and the plain values of each file."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from suite.errors import UserError, unknown

CONF = Path(__file__).resolve().parent.parent.parent / "conf"


def names(group: str) -> list[str]:
    """The names that `conf/<group>/` offers, sorted."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


@cache
def load(group: str, name: str) -> dict[str, Any]:
    """The plain values of `conf/<group>/<name>.yaml`. Raises UserError for a name that is not there, or no YAML."""
    if name not in names(group):
        raise unknown({"hw": "system"}.get(group, group), name, names(group))
    file = f"conf/{group}/{name}.yaml"
    try:
        values = yaml.safe_load((CONF / group / f"{name}.yaml").read_text())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{file}, line {line}: {error.problem}.") from None
    if not isinstance(values, dict):
        raise UserError(f"{file} holds {values!r:.40}; expected names and their values.")
    return values
