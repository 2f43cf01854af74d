"""The folder conf/: which names it offers, and the plain values of each file."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from suite.errors import UserError, one_of

ROOT = Path(__file__).resolve().parent.parent.parent
CONF = ROOT / "conf"


def names(group: str) -> list[str]:
    """The names that `conf/<group>/` offers, sorted."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, except that it refuses a key given twice in one mapping and reads 3e-3 as a number."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        keys: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in keys:
                raise yaml.MarkedYAMLError(problem=f"{key.value} is given twice", problem_mark=key.start_mark)
            keys.add(str(key.value))
        return node


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+\Z"), [*"-+.0123456789"]
)


@cache
def load(group: str, name: str) -> dict[str, Any]:
    """The plain values of `conf/<group>/<name>.yaml`. Raises UserError as `table` does, and for an unknown name."""
    one_of({"hw": "system"}.get(group, group), name, names(group))
    return table(CONF / group / f"{name}.yaml")


def table(path: Path) -> dict[str, Any]:
    """The plain values, by name, of a file of conf/. Raises UserError if it holds no mapping, and as `values` does."""
    found = values(path)
    if not isinstance(found, dict):
        raise UserError(f"{_shown(path)} holds {found!r:.40}; expected names and their values.")
    return found


def values(path: Path) -> Any:
    """The plain values of a file of conf/. Raises UserError if it is not YAML, and for a key that it gives twice."""
    try:
        return yaml.load(path.read_text("utf-8"), _Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{_shown(path)}, line {line}: {error.problem}.") from None
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{_shown(path)} cannot be read, as YAML in UTF-8: {error}.") from None


def value(text: str) -> Any:
    """What `text` is as a value in a file of conf/. Raises yaml.YAMLError if it is none."""
    return yaml.load(text, _Loader)


def _shown(path: Path) -> str:
    return os.path.relpath(path, CONF.parent)
