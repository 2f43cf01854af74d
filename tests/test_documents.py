"""The documents say what is so: links lead somewhere, commands exist, messages are the program's own."""

import ast
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name

import pytest

from suite.__main__ import commands
from suite.rcp.__main__ import main as show_points

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "tasks").glob("*/*.md")),
    ROOT / "submissions" / "README.md",
]
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name):
    path = ROOT / name
    links = re.findall(r"\]\(([^)\s]+)\)", path.read_text())
    local = [link.partition("#")[0] for link in links if not re.match(r"[a-z]+:|#", link)]
    assert [link for link in local if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("name", NAMES)
def test_commands_exist(name):
    modules = set(re.findall(r"python -m ((?:suite|tests|tasks)[\w.]*\w)", (ROOT / name).read_text()))
    missing = [module for module in modules - {"suite.X"} if "TASK" not in module and find_spec(module) is None]
    assert missing == []
    scripted = re.findall(r"^ +(?:\$ )?suite ([a-z]+)|`suite ([a-z]+)", (ROOT / name).read_text(), re.MULTILINE)
    assert {a or b for a, b in scripted} <= commands().keys()


@pytest.mark.parametrize("name", NAMES)
def test_functions_exist(name):
    for path in set(re.findall(r"`((?:suite|reference_impls|tasks)\.[\w.]+)`", (ROOT / name).read_text())):
        try:
            resolve_name(path)
        except ModuleNotFoundError:
            assert "X" in path or "TASK" in path, path


def test_readme_is_short():
    assert len((ROOT / "README.md").read_bytes()) < 10_000


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("docs/")])
def test_every_page_is_listed_in_the_readme(name):
    assert f"({name})" in (ROOT / "README.md").read_text()


def test_the_table_of_seeds_is_that_of_the_points(capsys):
    """`python -m suite.rcp` makes it again."""
    show_points([])
    assert capsys.readouterr().out in (ROOT / "docs" / "results.md").read_text()


MESSAGES = re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs" / "troubleshooting.md").read_text(), re.MULTILINE)


@cache
def texts() -> list[list[str]]:
    """The fixed parts of every text in suite/ and reference_impls/, those of one f-string together."""
    found = []
    for path in [*(ROOT / "suite").rglob("*.py"), *(ROOT / "reference_impls").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                found.append([part.value for part in node.values if isinstance(part, ast.Constant)])
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append([node.value])
    return found


@pytest.mark.parametrize("message", MESSAGES)
def test_messages_are_the_programs_own(message):
    """Its longest fixed part stands in a text of suite/, and the others with it."""
    parts = [part.strip() for part in re.split(r"\.\.\.", message) if len(part.strip()) > 2]
    assert parts, "a message of nothing but dots"
    assert any(all(any(part in text for text in fixed) for part in parts) for fixed in texts()), parts
