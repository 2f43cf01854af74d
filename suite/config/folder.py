"""The folder conf/: which names it offers, and the plain values of each file."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from suite.errors import unknown

CONF = Path(__file__).resolve().parent.parent.parent / "conf"


def names(group: str) -> list[str]:
    """The names that `conf/<group>/` offers, sorted."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


@cache
def load(group: str, name: str) -> dict[str, Any]:
    """The plain values of `conf/<group>/<name>.yaml`. Raises UserError for a name that is not there."""
    if name not in names(group):
        raise unknown({"hw": "system"}.get(group, group), name, names(group))
    values = yaml.safe_load((CONF / group / f"{name}.yaml").read_text())
    assert isinstance(values, dict), f"conf/{group}/{name}.yaml is not a mapping"
    return values
