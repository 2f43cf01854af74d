"""Packages of the suite that hold one module for each framework, named as in conf/framework/."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from types import ModuleType

from suite import config
from suite.errors import UserError
from suite.harness import lean
from suite.store import packages


def having(package: str) -> list[str]:
    """The frameworks for which `package` has a module, installed or not."""
    return [each for each in config.names("framework") if find_spec(f"{package}.{each}")]


def load(package: str, framework: str, what: str) -> ModuleType:
    """Import the module of a framework. Raises UserError if `package` has no `what` for it, or it is not installed."""
    if framework not in having(package):
        raise UserError(f"framework {framework} has no {what} here; {' and '.join(having(package))} have")
    found = config.framework(framework)
    if find_spec(found.module) is None:
        raise UserError(f"{found.module} is not installed: {packages.install(None, found)}")
    lean.load(found)
    return importlib.import_module(f"{package}.{framework}")
