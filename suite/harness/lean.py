"""Imports a framework without the packages that it would take along where they are installed, and no reference uses."""

from __future__ import annotations

import importlib
import os
import sys

from suite.config.models import Framework


def load(framework: Framework) -> None:
    """Import the framework's module; what it goes `without` can be imported as ever afterwards.

    Raises ImportError.
    """
    os.environ |= framework.variables
    hidden = [name for name in framework.without if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: an import says that it is not there
    try:
        importlib.import_module(framework.module)
    finally:
        for name in hidden:
            del sys.modules[name]
