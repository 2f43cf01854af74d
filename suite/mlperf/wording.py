"""A condition of the rule files in plain words, split into the clauses that must all hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise

from suite.errors import shown

_MOMENTS = {
    f"{what}_{past}": f"{what}_{end}"
    for what in ("init", "run")
    for past, end in (("started", "start"), ("stopped", "stop"))
}
_MOMENTS |= {"accuracy_printed": "the eval_accuracy of the evaluation before", "model_saved": "the checkpoint"}
_INSIDE = {"in_epoch": "an epoch", "in_block": "a block", "in_eval": "an evaluation"}
_RELATIONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "equal to",
    ast.NotEq: "other than",
    ast.Lt: "below",
    ast.LtE: "at most",
    ast.Gt: "above",
    ast.GtE: "at least",
    ast.In: "one of",
    ast.NotIn: "none of",
    ast.Is: "equal to",
    ast.IsNot: "other than",
}
_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "to the power of",
    ast.Mod: "modulo",
}
_ROUNDING = 1e-6  # the most by which a condition lets values differ that should be equal
_CALLS = {
    "ceil": "{} rounded up",
    "floor": "{} rounded down",
    "log2": "log2 of ({})",
    "abs": "the size of ({})",
    "len": "the length of {}",
    "type": "the type of {}",
}


@dataclass(frozen=True)
class Clause:
    """A part of a condition that must hold.

    `asked` says what it asks, worded to follow the key: `with value at least 0.759`, `after run_start`. `contrary` says
    what is the case if it does not hold, if that follows. `decided_by` are the values that it depends on, with their
    names. `span` is the start of a time span and its greatest length; `items` are two lists that must have the same
    items.
    """

    condition: ast.expr
    asked: str
    contrary: str | None = None
    decided_by: tuple[tuple[str, ast.expr], ...] = ()
    span: tuple[ast.expr, ast.expr] | None = None
    items: tuple[ast.expr, ast.expr] | None = None


def clauses(condition: ast.expr) -> Iterator[Clause]:
    """The clauses of a condition over s, ll and v."""
    match condition:
        case ast.BoolOp(ast.And(), parts):
            yield from chain.from_iterable(map(clauses, parts))
        case ast.Compare(left, [_, _, *_] as relations, others):
            for relation, (a, b) in zip(relations, pairwise([left, *others]), strict=True):
                yield from clauses(ast.Compare(a, [relation], [b]))
        case ast.Compare(
            ast.Constant() | ast.BinOp() as left, [ast.Lt() | ast.LtE() as relation], [ast.Subscript() as of]
        ):
            turned = ast.Gt() if isinstance(relation, ast.Lt) else ast.GtE()
            yield from clauses(ast.Compare(of, [turned], [left]))
        case ast.Compare(
            ast.Call(ast.Name("abs"), [ast.BinOp(a, ast.Sub(), b)]), [ast.Lt()], [ast.Constant(float(most))]
        ) if most <= _ROUNDING:
            same = ast.Compare(a, [ast.Eq()], [b])
            yield Clause(condition, _phrase(same), None, tuple(_values(same)))
        case ast.Compare(ast.BinOp(ast.Attribute(_, "timestamp"), ast.Sub(), since), [ast.Lt()], [most]):
            yield Clause(condition, f"after {_noun(since).removeprefix('first_')}", span=(since, most))
        case ast.Compare(ast.Call(ast.Name("sorted"), [a]), [ast.Eq()], [ast.Call(ast.Name("sorted"), [b])]):
            yield Clause(condition, f"with {_noun(a)} {_noun(b)}", items=(a, b))
        case _:
            flag = _flag(condition)
            contrary = _state(flag[0], not flag[1]) if flag else None
            yield Clause(condition, _phrase(condition), contrary, tuple(_values(condition)))


def _flag(node: ast.expr) -> tuple[str, bool] | None:
    """The name of a value that is only true or false, and which of the two is asked; None for any other condition."""
    match node:
        case ast.UnaryOp(ast.Not(), operand) if found := _flag(operand):
            return found[0], not found[1]
        case ast.Compare(left, [ast.Eq()], [ast.Constant(bool(wanted))]) if found := _flag(left):
            return found[0], found[1] == wanted
        case ast.Subscript(ast.Name("s"), ast.Constant(str(name))) if name in _MOMENTS or name in _INSIDE:
            return name, True
    return None


def _state(name: str, holds: bool) -> str:
    """Such a value in words: `after run_start`, `outside an epoch`."""
    if name in _INSIDE:
        return f"{'inside' if holds else 'outside'} {_INSIDE[name]}"
    return f"{'after' if holds else 'before'} {_MOMENTS[name]}"


def _phrase(node: ast.expr) -> str:
    if flag := _flag(node):
        return _state(*flag)
    match node:
        case ast.BoolOp(operation, parts):
            return (" and " if isinstance(operation, ast.And) else " or ").join(map(_phrase, parts))
        case ast.BinOp(a, ast.BitOr(), b) if (one := _held(a)) and (other := _held(b)) and one[1] == other[1]:
            return f"with {one[0]} or {other[0]} in its {one[1]}"
        case ast.IfExp(test, body, otherwise):
            last = "" if isinstance(otherwise, ast.Constant) else f", else {_phrase(otherwise)}"
            return f"{_phrase(body)}, where there is {_phrase(test).removeprefix('with ')}{last}"
        case ast.Call(ast.Name("is_integer" | "isinstance"), [of, *_]):
            return f"with {_noun(of)} a whole number"
        case ast.Compare(ast.Call(ast.Name("type"), [of]), _, [ast.Name("bool")]):
            return f"with {_noun(of)} true or false"
        case ast.Compare(left, [relation], [right]):
            if (container := _held(node)) is not None:
                return f"with {container[0]} in its {container[1]}"
            return f"with {_noun(left)} {_RELATIONS[type(relation)]} {_noun(right)}"
    return f"with {_noun(node)}"


def _held(node: ast.expr) -> tuple[str, str] | None:
    """The name that a line, its metadata or its value must have, and which of these; None for any other condition."""
    match node:
        case ast.Compare(ast.Constant(name), [ast.In()], [ast.Subscript(ast.Name("v"), ast.Constant(str(container)))]):
            return str(name), container
        case ast.Compare(ast.Constant(name), [ast.In()], [ast.Name("v")]):
            return str(name), "line"
    return None


def _noun(node: ast.expr) -> str:
    match node:
        case ast.Constant(bool(value)):
            return "true" if value else "false"
        case ast.Constant(float(value)):
            return f"{value:g}"
        case ast.Constant(value):
            return "empty" if value == "" else shown(value)
        case ast.List(items):
            return ", ".join(map(_noun, items))
        case ast.Subscript(ast.Subscript(ast.Name("v"), ast.Constant("value")), ast.Constant(int(at))):
            return f"entry {at + 1} of value"
        case ast.Subscript(_, ast.Constant(str(name))):
            return name
        case ast.Subscript(value, _):
            return f"an entry of {_noun(value)}"
        case ast.Call(ast.Attribute(ast.Name("s"), "get"), [ast.Constant(name), *_]):
            return str(name)
        case ast.Call(ast.Name("float"), _):
            return "infinity"
        case ast.Call(ast.Name(name) | ast.Attribute(_, name), [of, *_]):
            return _CALLS.get(name, "{}").format(_noun(of))
        case ast.BinOp(a, operation, b):
            return " ".join((_inner(a), _SIGNS.get(type(operation), "and"), _inner(b)))
    return "what the rule computes"


def _inner(node: ast.expr) -> str:
    compound = isinstance(node, ast.BinOp) or (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
    return f"({_noun(node)})" if compound else _noun(node)


def _values(condition: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The values, by name, that are logged or remembered, and those computed from them for a comparison."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(condition):
        if isinstance(node, ast.Compare):
            found |= {_noun(side): side for side in (node.left, *node.comparators) if isinstance(side, ast.BinOp)}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "is_integer":
            found |= {_noun(of): of for of in node.args if not isinstance(of, ast.Subscript)}
    leaves = {_noun(node): node for node in _leaves(condition)}
    yield from sorted({**leaves, **found}.items(), key=lambda named: named[0] != "value")


def _leaves(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Subscript(ast.Subscript(ast.Name("v"), _), _) | ast.Subscript(ast.Name("v" | "s"), _):
            yield node
        case ast.Call(ast.Attribute(ast.Name("s"), "get")):
            yield node
        case _:
            yield from chain.from_iterable(map(_leaves, ast.iter_child_nodes(node)))
