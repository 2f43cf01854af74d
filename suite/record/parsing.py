"""Parse untrusted JSON and YAML into plain values: no duplicate keys, NaN, aliases or tags; bounded depth."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn, TypeGuard

import yaml

from suite.errors import shown

MAX_DEPTH = 50
TOLERANCE = 1e-6  # relative, between a figure and the same figure derived again
FEW, DENSE = 1024, 6  # values that any text may hold, and bytes for each further one; the suite's files have 8 or more
_MAX_INT = 2**63
_SHA256 = re.compile("[0-9a-f]{64}")

_TEXT = "tag:yaml.org,2002:str"
_JSON_SCALAR = re.compile(r"null|~||true|false|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_ODD_BREAKS = re.compile("[\x85\u2028\u2029\ufeff]")  # which end a line in YAML 1.1, and none in 1.2

KeyPath = tuple[str | int, ...]


class MalformedError(ValueError):
    """Text that does not follow its format; `line` counts from 1, None if no line can be named."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


def decoded(content: bytes) -> str:
    """`content` as UTF-8. Raises MalformedError."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise MalformedError("not UTF-8", content.count(b"\n", 0, error.start) + 1) from error


def check_count(content: bytes, most: int | None = None) -> None:
    """Raise MalformedError for JSON or YAML of more than `most` values, counted before parsing: each takes memory.

    By default `most` is FEW and one per DENSE bytes, which only a text of tiny values, such as empty lists, exceeds.
    """
    most = FEW + len(content) // DENSE if most is None else most
    if sum(map(content.count, (b"[", b"{", b",", b":", b"\n"))) > most:
        raise MalformedError(f"more than {most} values")


def json_value(text: str) -> Any:
    """The value of a JSON text. Raises MalformedError."""
    try:
        value = json.loads(text, parse_constant=_not_finite, object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError as error:
        raise MalformedError(f"not JSON: {error.msg}", error.lineno) from error
    except MalformedError:
        raise
    except ValueError as error:  # an integer of thousands of digits
        raise MalformedError("not JSON: a number is too long") from error
    except RecursionError as error:
        raise MalformedError("not JSON: nested too deeply") from error
    check_plain(value)
    return value


def json_object(content: bytes) -> dict[str, Any]:
    """The object in a JSON file's content. Raises MalformedError."""
    check_count(content)
    value = json_value(decoded(content))
    if not isinstance(value, dict):
        raise MalformedError("not a JSON object", 1)
    return value


def _not_finite(name: str) -> NoReturn:
    raise MalformedError(f"{name} is not a JSON value")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise MalformedError("a key appears twice in one object")
    return values


def yaml_mapping(content: bytes) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """The mapping in a YAML file's content, and the line of each value by its path. Raises MalformedError."""
    check_count(content)
    text = decoded(content)
    if odd := _ODD_BREAKS.search(text):
        raise MalformedError("a character that ends a line for some readers only", text.count("\n", 0, odd.start()) + 1)
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        lines = _lines(node)
        values = loader.construct_document(node) if node else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise MalformedError(f"not YAML: {error.problem or error.context}", mark.line + 1 if mark else None) from error
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, MalformedError):
            raise
        raise MalformedError(f"not YAML: {type(error).__name__}") from error
    if not isinstance(values, dict):
        raise MalformedError("not a mapping", 1)
    check_plain(values)
    return values, lines


class _Loader(yaml.SafeLoader):
    """A YAML loader that accepts only what a plain dump of JSON's values holds.

    It refuses aliases, anchors, tags, directives, and whatever YAML 1.1 reads as more than text although JSON does
    not: yes, 010, 0x1f, 1_000, 1:30, 2026-01-01, <<. What only YAML 1.2 reads as a number, such as 1e5, is text, as in
    a dump.
    """

    def compose_document(self) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if event.version or event.tags:
            raise MalformedError("not plain YAML: a directive", event.start_mark.line + 1)
        return super().compose_document()

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or event.anchor or getattr(event, "tag", None):
            raise MalformedError("not plain YAML: an alias, an anchor or a tag", event.start_mark.line + 1)
        node = super().compose_node(parent, index)
        if isinstance(node, yaml.ScalarNode) and node.tag != _TEXT and not _JSON_SCALAR.fullmatch(node.value):
            said = f"not plain YAML: {shown(node.value)} is more than text to some readers; quote it"
            raise MalformedError(said, node.start_mark.line + 1)
        return node


def _lines(root: yaml.Node | None) -> dict[KeyPath, int]:
    lines: dict[KeyPath, int] = {}
    stack: list[tuple[KeyPath, yaml.Node | None]] = [((), root)]
    while stack:
        path, node = stack.pop()
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            if len(set(keys)) < len(node.value):
                raise MalformedError("a key appears twice in one mapping, or is not text", node.start_mark.line + 1)
            for key, value in node.value:
                lines[*path, key.value] = key.start_mark.line + 1
                stack.append(((*path, key.value), value))
        elif isinstance(node, yaml.SequenceNode):
            for at, value in enumerate(node.value):
                lines[*path, at] = value.start_mark.line + 1
                stack.append(((*path, at), value))
    return lines


def check_plain(value: Any) -> None:
    """Raise MalformedError unless `value` has only JSON's types, finite numbers, 64-bit integers and bounded depth."""
    stack = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise MalformedError(f"nested more than {MAX_DEPTH} deep")
        if isinstance(item, dict):
            if not all(isinstance(key, str) for key in item):
                raise MalformedError("a key is not text")
            stack.extend((inner, depth + 1) for inner in item.values())
        elif isinstance(item, list):
            stack.extend((inner, depth + 1) for inner in item)
        elif isinstance(item, float) and not math.isfinite(item):
            raise MalformedError("a number is not finite")
        elif isinstance(item, int) and abs(item) >= _MAX_INT:
            raise MalformedError("an integer is beyond 64 bits")
        elif not isinstance(item, str | int | float | None):
            raise MalformedError(f"a {type(item).__name__} is not plain text, a number, true, false or null")


def number(value: Any) -> float | None:
    """`value` if it is a number (true and false are not), else None."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def text(value: Any) -> str | None:
    """`value` as short plain text if it is text, else None."""
    return shown(value) if isinstance(value, str) else None


def whole(value: Any) -> int | None:
    """`value` if it is an integer of at least 0, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def value_at(value: Any, *path: str) -> Any:
    """The value at `path` in nested mappings, None if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def is_sha256(value: Any) -> TypeGuard[str]:
    """Whether `value` is a string of 64 lowercase hexadecimal digits."""
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None


def same(a: Any, b: Any) -> bool:
    """Whether two plain values are equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def close(a: Any, b: Any) -> bool:
    """Whether two values are numbers that differ by no more than rounding."""
    a, b = number(a), number(b)
    return a is not None and b is not None and math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-12)


def differences(expected: Any, found: Any, path: KeyPath = ()) -> list[tuple[KeyPath, Any, Any]]:
    """Where `found` departs from `expected`: path, expected and found value; a missing value shows as `nothing`."""
    if not (isinstance(expected, dict) and isinstance(found, dict)):
        return [] if same(expected, found) else [(path, expected, found)]
    result: list[tuple[KeyPath, Any, Any]] = []
    for key in {**expected, **found}:
        result += differences(expected.get(key, "nothing"), found.get(key, "nothing"), (*path, key))
    return result


def without_none(value: Any) -> Any:
    """A plain value without those entries of its mappings, at any depth, that are None."""
    if isinstance(value, dict):
        return {key: without_none(each) for key, each in value.items() if each is not None}
    return [without_none(each) for each in value] if isinstance(value, list) else value
