"""What an implementation declares in plain values, read from its source: importing it would import its framework."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlperf_logging.mllog.constants import GLOBAL_BATCH_SIZE

from suite.config.formats import formats
from suite.config.models import Framework
from suite.errors import BrokenContract
from suite.harness.implementation import ImplementationModule, source


@dataclass(frozen=True)
class Declared:
    """How many accelerators an implementation can train on, and in which numeric formats, None if not declared.

    With `own_draws` it draws order and augmentation from its own random numbers. `shared_by` names hyperparameters
    that say how many samples stay on one worker, None if it does not declare how a step is shared out.
    """

    accelerators: int
    precisions: tuple[str, ...] | None
    own_draws: bool = False
    shared_by: tuple[str, ...] | None = None

    def parts(self, hyperparameters: Mapping[str, Any]) -> int | None:
        """Into how many parts a step with these hyperparameters can be split among workers; None if not known."""
        if self.shared_by is None or GLOBAL_BATCH_SIZE not in hyperparameters:
            return None
        least = next((hyperparameters[name] for name in self.shared_by if name in hyperparameters), 1)
        sized = isinstance(least, int) and least > 0  # else `build` refuses it
        return hyperparameters[GLOBAL_BATCH_SIZE] // least if sized else None


def by_reference(task: str, framework: Framework) -> Declared:
    """What the reference of `task` declares. Raises UserError for a framework in which it is not written."""
    return declared(ast.parse(source(task, framework).read_text()), f"reference_impls.{task}.{framework.name}")


def declared(tree: ast.Module, name: str) -> Declared:
    """What the module `name` declares. Raises BrokenContract if a declaration is missing or not a plain value."""
    said = _said(tree)
    accelerators, own_draws = said.get("ACCELERATORS"), said.get("OWN_DRAWS", False)
    precisions, shared_by = said.get("PRECISIONS"), said.get("SHARED_BY")
    if type(accelerators) is not int or accelerators < 0:
        wrong = "no ACCELERATORS, or none that is a plain number"
    elif "PRECISIONS" in said and not (precisions and _texts(precisions) and set(precisions) <= formats().keys()):
        wrong = f"PRECISIONS that are no tuple of names of conf/formats.yaml: {', '.join(formats())}"
    elif not isinstance(own_draws, bool):
        wrong = "OWN_DRAWS that are neither True nor False"
    elif "SHARED_BY" in said and not _texts(shared_by):
        wrong = "SHARED_BY that is no tuple of names of hyperparameters"
    else:
        return Declared(accelerators, precisions, own_draws, shared_by)
    raise BrokenContract(f"{name} has {wrong}", ImplementationModule)


def _texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(each, str) for each in value)


def _said(tree: ast.Module) -> dict[str, Any]:
    """The first value that the module assigns to each name; the expression itself if it is not a plain value."""
    found: dict[str, Any] = {}
    for node in tree.body:
        match node:
            case (
                ast.Assign([ast.Name(name)], ast.expr() as value)
                | ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value)
            ):
                found.setdefault(name, _plain(value))
    return found


def _plain(value: ast.expr) -> Any:
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return value
