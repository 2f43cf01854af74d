"""Imports a framework without packages that its import would load if installed, and that no reference uses."""

from __future__ import annotations

import importlib
import os
import sys

from suite.config.models import Framework


def load(framework: Framework) -> None:
    """Import the framework's module with the packages of `without` hidden; afterwards they can be imported as usual.

    Raises ImportError.
    """
    os.environ |= framework.variables
    hidden = [name for name in framework.without if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: importing it fails
    try:
        importlib.import_module(framework.module)
    finally:
        for name in hidden:
            del sys.modules[name]
