"""Folders of the suite that hold a module for each framework, named as conf/framework/ names it."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from types import ModuleType

from suite import config
from suite.errors import UserError
from suite.harness import lean, quiet


def having(package: str) -> list[str]:
    """The frameworks that `package` has a module of, installed or not."""
    return [each for each in config.names("framework") if find_spec(f"{package}.{each}")]


def load(package: str, framework: str, what: str) -> ModuleType:
    """The module of a framework. Raises UserError for one that `package` has no `what` of, or that is not installed."""
    if framework not in having(package):
        raise UserError(f"framework {framework} has no {what} here; {' and '.join(having(package))} have")
    found = config.framework(framework)
    if find_spec(found.module) is None:
        raise UserError(f"{found.module} is not installed: pip install -c constraints.txt -e '.[{framework}]'")
    quiet.without_accelerator()
    lean.load(found)
    return importlib.import_module(f"{package}.{framework}")
