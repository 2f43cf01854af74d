"""A ruleset's YAML files, compiled once to functions.

The strings in the files are Python: conditions over `s` (what the file remembers), `ll` (the line) and `v` (the line's
value and metadata), and statements that change `s`. Only the pinned files of the wheel come here (`rulefiles`); what a
submission holds is an argument of these functions and is never compiled. Operators by which a stranger's value could
ask for boundless memory or time (`%`, `*`, `**` on text and lists) take numbers only; the official checker accepts
other operands, but none of its conditions holds with them.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import yaml

from suite.mlperf import rulefiles

Function = Callable[..., Any]

_PARTS = {"NAME", "REQ", "CHECK", "POST", "FIRST_CHECK", "ATLEAST_ONE_CHECK"}
_Loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


@dataclass(frozen=True, slots=True)
class Test:
    """A condition: its text, and the function of (s, ll, v) that it compiles to."""

    text: str
    holds: Function


@dataclass(frozen=True, slots=True)
class KeyRule:
    """What a rule file asks of the lines of one key.

    `required` says how often the key must occur. `checks` apply to each line, `first` to the first one; `some` must
    hold for at least one line. `post` is a function of (s, ll, v, enqueue_config).
    """

    required: str | None
    checks: tuple[Test, ...]
    post: Function | None
    first: tuple[Test, ...]
    some: Test | None


@dataclass(frozen=True, slots=True)
class RuleFile:
    """One file: `begin` is a function of (s, loglines); `end` are conditions over s alone."""

    name: str
    begin: Function | None
    keys: dict[str, KeyRule]
    end: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class Ruleset:
    """The files of a ruleset by name, and the keys that any of them has rules for."""

    name: str
    files: dict[str, RuleFile]
    keys: frozenset[str]

    @property
    def entrance(self) -> str:
        """The file that every log is checked against first; it names the others."""
        return f"{rulefiles.folder(self.name)}/common.yaml"


@cache
def compiled(ruleset: str) -> Ruleset:
    """The ruleset of that name (`rulefiles.rulesets`).

    Raises UserError if the wheel's files are not the pinned ones.
    """
    files = {name: _rule_file(name, content) for name, content in rulefiles.contents(ruleset).items()}
    return Ruleset(ruleset, files, frozenset(key for file in files.values() for key in file.keys))


def _rule_file(name: str, content: bytes) -> RuleFile:
    records = yaml.load(content, Loader=_Loader) or []
    begin: Function | None = None
    end: tuple[Test, ...] = ()
    keys: dict[str, KeyRule] = {}
    for record in records:
        kind, parts = next(iter(record.items()))
        if kind == "BEGIN":
            begin = _statements(parts["CODE"], name, "s", "loglines")
        elif kind == "END":
            assert parts.keys() == {"CHECK"}
            end = _tests(parts["CHECK"], name)
        else:
            assert parts.keys() <= _PARTS
            some = parts.get("ATLEAST_ONE_CHECK")
            keys[parts["NAME"]] = KeyRule(
                required=parts.get("REQ"),
                checks=_tests(parts.get("CHECK", []), name),
                post=_statements(parts["POST"], name, "s", "ll", "v", "enqueue_config") if "POST" in parts else None,
                first=_tests(parts.get("FIRST_CHECK", []), name),
                some=None if some is None else _tests(some, name)[0],
            )
    return RuleFile(name, begin, keys, end)


def _tests(texts: str | list[str], name: str) -> tuple[Test, ...]:
    return tuple(
        Test(text, _function(name, ("s", "ll", "v"), [ast.Return(ast.parse(text.strip(), mode="eval").body)]))
        for text in ([texts] if isinstance(texts, str) else texts)
    )


@cache
def function_of(part: ast.expr) -> Function:
    """Compile a part of a condition to a function of (s, ll, v)."""
    return _function("condition", ("s", "ll", "v"), [ast.Return(deepcopy(part))])


def _statements(text: str, name: str, *arguments: str) -> Function:
    return _function(name, arguments, ast.parse(text.strip()).body)


def _function(name: str, arguments: tuple[str, ...], body: list[ast.stmt]) -> Function:
    """Compile `body` to a function of `arguments`.

    The files use no lambda or comprehension; in one, the official checker's eval would not see `ll` and `v`.
    """
    module = ast.parse(f"def rule({', '.join(arguments)}): pass")
    definition = module.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.body = [_Bounded().visit(statement) for statement in body]
    namespace: dict[str, Any] = dict(_NAMES)
    exec(compile(ast.fix_missing_locations(module), name, "exec"), namespace)
    function: Function = namespace["rule"]
    return function


class _Bounded(ast.NodeTransformer):
    """Replaces the operators that can blow up by functions that take numbers only."""

    OPERATORS: ClassVar = {ast.Mod: "_mod", ast.Mult: "_mul", ast.Pow: "_pow"}

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        name = self.OPERATORS.get(type(node.op))
        if name is None:
            return node
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), [node.left, node.right], []), node)


def _of_numbers(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def bounded(a: Any, b: Any) -> Any:
        if not (isinstance(a, int | float) and isinstance(b, int | float)):
            raise TypeError("not a number")
        return function(a, b)

    return bounded


def _is_integer(value: float) -> bool:
    """Whether a number is an integer, as the official checker defines it."""
    return abs(round(value) - value) < 0.00001


def _silent(*_: object) -> None:
    """Replace print, with which one file reports a time."""


_NAMES = {
    "math": math,
    "is_integer": _is_integer,
    "print": _silent,
    "_mod": _of_numbers(operator.mod),
    "_mul": _of_numbers(operator.mul),
    "_pow": _of_numbers(operator.pow),
}
