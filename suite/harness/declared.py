"""What an implementation says of itself in plain values, read from its file: an import would import its framework."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from suite.config.formats import formats
from suite.config.models import Framework
from suite.errors import BrokenContract
from suite.harness.implementation import ImplementationModule, source


@dataclass(frozen=True)
class Declared:
    """How many accelerators it trains on, and in which numeric formats, None where it does not say that.

    With `own_draws` it draws order and augmentation by random numbers of its own.
    """

    accelerators: int
    precisions: tuple[str, ...] | None
    own_draws: bool = False


def by_reference(task: str, framework: Framework) -> Declared:
    """What the reference of `task` says. Raises UserError for a framework in which it is not written."""
    return declared(ast.parse(source(task, framework).read_text()), f"reference_impls.{task}.{framework.name}")


def declared(tree: ast.Module, name: str) -> Declared:
    """What the module `name` says. Raises BrokenContract where that is missing, or not plain."""
    match _assigned(tree, "ACCELERATORS"):
        case ast.Constant(int(accelerators)):
            return Declared(accelerators, _precisions(tree, name), _own_draws(tree, name))
    raise BrokenContract(f"{name} has no ACCELERATORS, or none that is a plain number", ImplementationModule)


def _precisions(tree: ast.Module, name: str) -> tuple[str, ...] | None:
    match _assigned(tree, "PRECISIONS"):
        case None:
            return None
        case ast.Tuple(elts) if elts:
            named = [each.value if isinstance(each, ast.Constant) else None for each in elts]
            precisions = tuple(each for each in named if isinstance(each, str) and each in formats())
            if len(precisions) == len(named):
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


def _assigned(tree: ast.Module, name: str) -> ast.expr | None:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(bound)], value=value) if bound == name:
                return value
            case ast.AnnAssign(target=ast.Name(bound), value=value) if bound == name:
                return value
    return None
