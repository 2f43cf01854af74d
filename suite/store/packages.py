"""The packages and compilers that a task and a framework need beyond the suite's own, and which of them are missing.

The packages are those of the extras in pyproject.toml named after the task and the framework, read from the metadata of
the installed distribution. A task without such an extra needs none. If the suite is not installed, none are known.
Extras are written with hyphens: pip before 23.3 finds no others.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sysconfig
from collections.abc import Iterator, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from suite.config.models import Framework
from suite.errors import UserError
from suite.store.authors import place

DISTRIBUTION = "time-to-accuracy"  # what the suite is installed as


def missing(task: str, framework: Framework | None = None) -> list[str]:
    """The names of the missing packages of `task` and, if given, of `framework`."""
    extras = [framework.extra, task] if framework and framework.extra else [task]
    found = [name for extra in extras for name in _needed(DISTRIBUTION, extra) if not _is_installed(name)]
    if framework and not find_spec(framework.module) and framework.module not in found:
        found.insert(0, framework.module)
    return list(dict.fromkeys(found))


def versions(task: str) -> dict[str, str | None]:
    """The installed version of each package of `task`, by its name in lower case; None if it is not installed."""
    return {name.lower(): _version(name) for name in _needed(DISTRIBUTION, task)}


def install(task: str | None, framework: Framework | None = None) -> str:
    """The command that installs the packages of `task` and of `framework`, where given."""
    own = task if task and any(_requirements(DISTRIBUTION, task)) else None
    return with_extras(framework.extra if framework else None, own)


def lacking(task: str, framework: Framework | None) -> str | None:
    """The missing packages and the command that installs them, in one line; None if none is missing."""
    names = missing(task, framework)
    what = f"{task} in {framework.title}" if framework else task
    return f"{what} needs {listed(names)}: {install(task, framework)}" if names else None


def require(task: str, framework: Framework | None = None) -> None:
    """Raise UserError with what is `lacking`, if anything is."""
    if problem := lacking(task, framework):
        raise UserError(problem)


def imported(name: str, task: str, framework: Framework | None = None) -> ModuleType:
    """Import the suite's own module of this name. Raises UserError if it needs a package that is missing, or exits.

    `require` does not know packages that were added to an extra after the suite was installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not error.name or error.name.partition(".")[0] in ("suite", "tasks", "reference_impls"):
            raise
        raise UserError(
            f"{task} needs {error.name}, and pyproject.toml may have changed since the suite was installed: "
            f"{with_extras(framework.extra if framework else None, task)} once more"
        ) from None
    except SystemExit as error:
        raise UserError(f"{name} called sys.exit({error.code!r:.60}) at {place(error)} when it was imported") from error


def without_compiler(framework: Framework) -> str | None:
    """Why the framework cannot compile for an accelerator here, and what mends it, in one line; None if it can."""
    if not framework.c_compiler:
        return None
    named = os.environ.get("CC")
    if not any(map(shutil.which, [named] if named else ["gcc", "clang"])):
        looked = f"CC={named} is none" if named else "there is neither gcc nor clang"
        return f"{framework.title} compiles for accelerators with a C compiler, and {looked}: apt-get install gcc"
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        version = sysconfig.get_python_version()
        what = f"{framework.title} compiles for accelerators with Python's headers, and {headers} has no Python.h"
        return f"{what}: apt-get install python{version}-dev, or take another Python"
    return None


def listed(names: Sequence[str]) -> str:
    """The names in a sentence: `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def with_extras(*extras: str | None) -> str:
    """The command that installs the suite with these extras of pyproject.toml; None stands for no extra."""
    return f"pip install -c constraints.txt -e '.[{','.join(canonicalize_name(each) for each in extras if each)}]'"


def _needed(distribution: str, extra: str) -> Iterator[str]:
    """The names of the packages that an extra of an installed distribution requires, those of their extras included."""
    for each in _requirements(distribution, extra):
        yield each.name
        for further in sorted(each.extras):
            yield from _needed(each.name, further)


def _requirements(distribution: str, extra: str) -> Iterator[Requirement]:
    """The requirements that an extra of an installed distribution has on this machine."""
    try:
        declared = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:
        return
    for each in map(Requirement, declared):
        if each.marker and each.marker.evaluate({"extra": extra}) and not each.marker.evaluate({"extra": ""}):
            yield each


def _is_installed(name: str) -> bool:
    """Whether there is such a distribution, or a module of its name from another one, such as `tensorflow-cpu`."""
    return _version(name) is not None or find_spec(name.replace("-", "_")) is not None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
