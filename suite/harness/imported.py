"""Finds what code imports by parsing it: the packages, their versions, and so the framework it is written in."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from suite import config
from suite.config.models import Framework
from suite.errors import UserError, one_of

OURS = ("suite", "tasks", "reference_impls", "__main__")
_ALWAYS = "numpy"  # every implementation uses it, so it says least


def imports(trees: Mapping[str, ast.Module]) -> dict[str, str | None]:
    """The version of each package that the files import, anywhere in a file; None for one that is not installed.

    What a reference module imports counts if a file imports that module. The standard library, the suite and the files
    themselves do not count.
    """
    tops = {name.partition("/")[0].removesuffix(".py") for name in trees}
    frameworks, found = modules(), dict[str, set[str]]()
    pending, seen = list(_imported(trees.values())), set[str]()
    while pending:
        name = pending.pop()
        top = name.partition(".")[0]
        if top == "reference_impls" and name not in seen:
            seen.add(name)
            pending += _of_reference(name)
        elif top not in sys.stdlib_module_names and top not in OURS and (top in frameworks or top not in tops):
            found.setdefault(top, set()).add(name)
    distributions = metadata.packages_distributions()
    return {top: _version(top, names, distributions.get(top, ())) for top, names in sorted(found.items())}


def refuse_strays(found: Mapping[str, str | None], name: str, where: str) -> None:
    """Raise UserError, which begins with `where`, for imports from no installed package: nobody could tell what ran.

    The same holds if the code called `name` imports `name`: what is installed may not be what is kept.
    """
    if name in found and name not in modules():
        raise UserError(
            f"{where} imports {name}, its own name: its files import each other relatively (from .model import x) or "
            "by their names (import model); where another package is meant, rename it"
        )
    for top, version in found.items():
        if version is None and (spec := find_spec(top)):
            at = spec.origin or ", ".join(spec.submodule_search_locations or ())
            mend = "put it into the folder, or install it"
            raise UserError(f"{where} imports {top}, of no installed package ({at}): {mend}")


def framework_of(found: Mapping[str, str | None], given: str | None, where: str) -> Framework:
    """The framework that code is written in: the `given` one, else the one of conf/framework that it imports.

    Raises UserError, which begins with `where`, if it imports none or several, or not the `given` one.
    """
    known = {name: config.framework(name) for name in config.names("framework")}
    if given is not None:
        one_of("framework", given, known)
        if known[given].module not in found:
            said = ", ".join(found) or "no package"
            raise UserError(
                f"{where} does not import {known[given].module}, as framework={given} says; it imports {said}"
            )
        return known[given]
    fits = [each for each in known.values() if each.module in found and each.module != _ALWAYS]
    others = [name for name, version in found.items() if name != _ALWAYS and version]
    if len(fits) == 1:
        return fits[0]
    if not fits and not others and _ALWAYS in known:
        return known[_ALWAYS]
    if not fits:
        raise UserError(
            f"{where} imports {', '.join(others)}, and none of {', '.join(known)}: framework=numpy says that it trains "
            "in numpy; another framework is a file conf/framework/NAME.yaml"
        )
    names = " and ".join(each.name for each in fits)
    raise UserError(f"{where} imports {names}: say in which it trains, framework={fits[0].name}")


def modules() -> set[str]:
    """The modules of the frameworks in conf/framework."""
    return {config.framework(name).module for name in config.names("framework")}


def _imported(trees: Iterable[ast.Module]) -> Iterator[str]:
    """The modules that absolute imports name; for `from a import b` also `a.b`, which may be one."""
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (each.name for each in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                yield from (node.module, *(f"{node.module}.{each.name}" for each in node.names))


def _of_reference(name: str) -> list[str]:
    """What a reference module imports, found without importing it; nothing if there is no such module."""
    spec = find_spec("reference_impls")
    for root in (spec and spec.submodule_search_locations) or ():
        module = Path(root, *name.split(".")[1:])
        for file in (module.with_suffix(".py"), module / "__init__.py"):
            if file.is_file():
                return list(_imported([ast.parse(file.read_text())]))
    return []


def _version(top: str, names: Iterable[str], distributions: Iterable[str]) -> str | None:
    """The version of the distribution that provides a package; None if there is none.

    Of several, the one that holds the longest of the imported names counts; of equals, the one named like the package.
    """
    several = sorted(set(distributions), key=lambda each: (each.lower() != top, each))
    if len(several) > 1:
        several.sort(key=lambda each: _depth(names, each), reverse=True)
    return metadata.version(several[0]) if several else None


def _depth(names: Iterable[str], distribution: str) -> int:
    """The number of parts of the longest of these names for which the distribution holds a module, else 0."""
    files = [f"{file}".partition(".")[0] + "/" for file in metadata.files(distribution) or ()]
    held = (name.split(".") for name in names if any(file.startswith(name.replace(".", "/") + "/") for file in files))
    return max(map(len, held), default=0)
