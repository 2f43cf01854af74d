"""Imports of suite/ run one way: down the floors, and never in a circle. Read with `ast`, `TYPE_CHECKING` included."""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OWN = "implementations"  # of tests/: code that does not know where it lies

# From the top down; a folder imports from the floors below its own, and of its own floor where that makes no circle.
# Whatever is not named is a command, on the topmost floor.
FLOORS = (
    {"rules", "mlperf"},
    {"harness"},
    {"record", "measure", "store", "plots"},
    {"config"},
    {"errors"},
)
SEAM = ("suite.harness.implementation", "suite.harness.memory", "suite.errors")


def modules(package: Path) -> dict[str, Path]:
    """Every module below `package` by its dotted name; a package is its `__init__`."""
    paths = package.rglob("*.py")
    names = {path: ".".join(path.relative_to(package.parent).with_suffix("").parts) for path in paths}
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


@cache
def imports(package: Path) -> dict[str, set[str]]:
    """What each module of `package` imports of it, wherever in the file the import stands."""
    known = modules(package)
    found: dict[str, set[str]] = {name: set() for name in known}
    for name, path in known.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found[name] |= {each.name for each in node.names} & known.keys()
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0 or OWN in path.parts, f"{path}:{node.lineno}: a relative import"
                inner = {f"{node.module}.{each.name}" for each in node.names} & known.keys()
                outer = {node.module} & known.keys() if len(inner) < len(node.names) else set()
                found[name] |= inner | outer
    return found


def folder(module: str) -> str:
    """`rules` of `suite.rules.log`; empty for `suite` itself."""
    return module.partition(".")[2].partition(".")[0]


def floor(name: str) -> int:
    return next((at for at, floor in enumerate(FLOORS, 1) if name in floor), 0)


def between_folders() -> set[tuple[str, str]]:
    """Which folder of suite/ imports from which."""
    found = imports(ROOT / "suite")
    return {(folder(a), folder(b)) for a, them in found.items() for b in them if folder(a) != folder(b)}


def test_no_file_takes_part_in_a_circle():
    TopologicalSorter(imports(ROOT / "suite")).prepare()  # raises CycleError, which names the circle


def test_no_folder_takes_part_in_a_circle():
    graph: dict[str, set[str]] = {}
    for a, b in between_folders():
        graph.setdefault(a, set()).add(b)
    TopologicalSorter(graph).prepare()


def test_imports_go_down():
    pairs = [pair for pair in between_folders() if pair[1]]  # `suite` itself holds the version
    assert len(pairs) > 20
    assert [f"suite/{a} is below suite/{b} and imports from it" for a, b in pairs if floor(a) > floor(b)] == []


def test_implementations_know_the_seam_alone():
    """What a reference implementation imports of the suite is what a stranger's may."""
    for path in (ROOT / "reference_impls").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name in SEAM or name.partition(".")[0] != "suite", f"{path}:{node.lineno} imports {name}"


def test_a_circle_and_a_hidden_import_are_found(tmp_path):
    """The reader of imports itself: an import under TYPE_CHECKING, and one inside a function, count."""
    package = tmp_path / "made"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "a.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from made.b import B\n")
    (package / "b.py").write_text("def f():\n    from made import a\n")
    assert imports(package) == {"made": set(), "made.a": {"made.b"}, "made.b": {"made.a"}}


def test_no_helper_is_imported_from_a_test_module():
    found = {(a, b) for a, them in imports(ROOT / "tests").items() for b in them}
    assert [(a, b) for a, b in found if b.rpartition(".")[2].startswith("test_")] == []
