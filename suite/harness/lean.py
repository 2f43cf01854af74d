"""Imports a framework as its code needs it, without packages that would only be taken along, and quietly."""

from __future__ import annotations

import importlib
import os
import sys

from suite.config.models import Framework
from suite.harness import quiet


def load(framework: Framework) -> None:
    """Import the framework's module with the packages of `without` hidden; afterwards they can be imported as usual.

    Raises ImportError.
    """
    prepare(framework)
    hidden = [name for name in framework.without if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: importing it fails
    try:
        importlib.import_module(framework.module)
    finally:
        for name in hidden:
            del sys.modules[name]


def prepare(framework: Framework) -> None:
    """Set the environment variables for code that is about to import the framework."""
    quiet.without_accelerator()
    os.environ |= framework.variables
