"""pyproject.toml declares what is imported: the suite's own packages, and as extras those of frameworks and tasks."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from suite import config
from suite.harness.implementation import written

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
# What imports the packages of an extra, where it is asked for, beyond the core.
ASKED_FOR = {"slurm": ("suite/run/slurm.py",), "serve": ("suite/serve/scenarios.py", "suite/serve/web.py")}
BY_FRAMEWORK = ("suite/probe/instruments", "suite/bricks/frameworks")  # loaded where their framework is installed
OURS = {"suite", "tasks", "reference_impls"}
FRAMEWORKS = written()  # of the reference; own implementations may use others


def imported(*paths: str) -> set[str]:
    """The distributions of other projects that the files below `paths` import, wherever in a file that stands."""
    of_module = packages_distributions()
    return {
        canonicalize_name(min(of_module[module], key=lambda name: name != module))  # several share `mlflow`
        for path in paths
        for file in ([ROOT / path] if path.endswith(".py") else (ROOT / path).rglob("*.py"))
        for module in modules(file)
        if module not in sys.stdlib_module_names | OURS
    }


def modules(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name.split(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module).split(".")[0]


def declared(*extras: str) -> set[str]:
    of_extras = (EXTRAS.get(canonicalize_name(extra), ()) for extra in extras)  # a task may need no package
    return {canonicalize_name(Requirement(each).name) for each in chain(PROJECT["dependencies"], *of_extras)}


def test_the_core_is_what_the_suite_imports_and_holds_no_package_of_a_task_or_a_framework():
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "suite").rglob("*.py")}
    apart = {path for path in files if path.startswith(BY_FRAMEWORK)}.union(*ASKED_FOR.values())
    assert imported(*files - apart) == declared()


@pytest.mark.parametrize("extra", ASKED_FOR)
def test_what_imports_an_extra_imports_all_of_it(extra):
    assert imported(*ASKED_FOR[extra]) - declared() == {canonicalize_name(each) for each in EXTRAS[extra]}


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_instruments_of_a_framework_import_it_and_the_core(framework):
    files = [path for folder in BY_FRAMEWORK for path in (ROOT / folder).glob(f"{framework}*.py")]
    assert imported(*(str(path.relative_to(ROOT)) for path in files)) <= declared(framework)


@pytest.mark.parametrize("task", config.names("task"))
def test_an_extra_is_what_its_task_imports_beyond_the_core(task):
    found = imported(f"tasks/{task}", f"reference_impls/{task}") - declared(*FRAMEWORKS)
    assert found == declared(task) - declared()


@pytest.mark.parametrize("task", config.names("task"))
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_one_framework_and_one_task_are_enough(task, framework):
    others = tuple(name for name in FRAMEWORKS if name != framework)
    names = [path.name for path in (ROOT / "reference_impls" / task).glob("*.py")]
    files = [f"reference_impls/{task}/{name}" for name in names if not name.startswith(others)]
    assert imported(*files) <= declared(framework, task)


def test_every_extra_is_named_as_pip_before_23_3_finds_it():
    within = {extra for of_one in EXTRAS.values() for each in of_one for extra in Requirement(each).extras}
    assert {*EXTRAS, *within} == {canonicalize_name(name) for name in (*EXTRAS, *within)}


def test_all_is_the_extras_of_every_framework_and_every_task():
    named = {extra for each in EXTRAS["all"] for extra in Requirement(each).extras}
    assert named == EXTRAS.keys() & {*FRAMEWORKS, *map(canonicalize_name, config.names("task"))}
    assert f"{PROJECT['name']}[all,jax]" in EXTRAS["dev"]
