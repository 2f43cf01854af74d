"""What an implementation says of itself in plain values, read from its file: an import would import its framework."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlperf_logging.mllog.constants import GLOBAL_BATCH_SIZE

from suite.config.formats import formats
from suite.config.models import Framework
from suite.errors import BrokenContract
from suite.harness.implementation import ImplementationModule, source


@dataclass(frozen=True)
class Declared:
    """How many accelerators it trains on, and in which numeric formats, None where it does not say that.

    With `own_draws` it draws order and augmentation by random numbers of its own. `shared_by` names hyperparameters
    that hold how many samples stay on one worker, None where it does not say how a step is shared out.
    """

    accelerators: int
    precisions: tuple[str, ...] | None
    own_draws: bool = False
    shared_by: tuple[str, ...] | None = None

    def parts(self, hyperparameters: Mapping[str, Any]) -> int | None:
        """In how many parts workers can share a step of a recipe; None where that is not known."""
        if self.shared_by is None or GLOBAL_BATCH_SIZE not in hyperparameters:
            return None
        least = next((hyperparameters[name] for name in self.shared_by if name in hyperparameters), 1)
        sized = isinstance(least, int) and least > 0  # else `build` refuses it
        return hyperparameters[GLOBAL_BATCH_SIZE] // least if sized else None


def by_reference(task: str, framework: Framework) -> Declared:
    """What the reference of `task` says. Raises UserError for a framework in which it is not written."""
    return declared(ast.parse(source(task, framework).read_text()), f"reference_impls.{task}.{framework.name}")


def declared(tree: ast.Module, name: str) -> Declared:
    """What the module `name` says. Raises BrokenContract where that is missing, or not plain."""
    match _assigned(tree, "ACCELERATORS"):
        case ast.Constant(int(accelerators)):
            return Declared(accelerators, _precisions(tree, name), _own_draws(tree, name), _shared_by(tree, name))
    raise BrokenContract(f"{name} has no ACCELERATORS, or none that is a plain number", ImplementationModule)


def _precisions(tree: ast.Module, name: str) -> tuple[str, ...] | None:
    match _assigned(tree, "PRECISIONS"):
        case None:
            return None
        case ast.Tuple(elts) if elts and (precisions := _texts(elts)) and set(precisions) <= formats().keys():
            return precisions
    raise BrokenContract(
        f"{name} has PRECISIONS that are no tuple of names of conf/formats.yaml: {', '.join(formats())}",
        ImplementationModule,
    )


def _own_draws(tree: ast.Module, name: str) -> bool:
    match _assigned(tree, "OWN_DRAWS"):
        case None:
            return False
        case ast.Constant(bool(own)):
            return own
    raise BrokenContract(f"{name} has OWN_DRAWS that are neither True nor False", ImplementationModule)


def _shared_by(tree: ast.Module, name: str) -> tuple[str, ...] | None:
    match _assigned(tree, "SHARED_BY"):
        case None:
            return None
        case ast.Tuple(elts) if (names := _texts(elts)) is not None:
            return names
    raise BrokenContract(f"{name} has SHARED_BY that is no tuple of names of hyperparameters", ImplementationModule)


def _texts(elements: Sequence[ast.expr]) -> tuple[str, ...] | None:
    texts = [each.value for each in elements if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return tuple(texts) if len(texts) == len(elements) else None


def _assigned(tree: ast.Module, name: str) -> ast.expr | None:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(bound)], value=value) if bound == name:
                return value
            case ast.AnnAssign(target=ast.Name(bound), value=value) if bound == name:
                return value
    return None
