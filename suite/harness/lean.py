"""Imports a framework as its code needs it, without packages that would only be taken along, and quietly."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from suite import config
from suite.config.models import Framework

DEVICES = Path("/dev")
NODES = ("nvidiactl", "dxg", "kfd", "accel")  # NVIDIA, any in WSL, AMD, others


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
    """Set the environment variables for code that is about to import the framework.

    On a machine without an accelerator those of `quiet_variables` are set that the user has not. With one everything is
    shown: it may say why the accelerator is not found.
    """
    os.environ |= framework.variables
    if not any((DEVICES / name).exists() for name in NODES):
        for name, value in quiet_variables().items():
            os.environ.setdefault(name, value)


def quiet_variables() -> dict[str, str]:
    """The `quiet` variables of every framework in conf/framework/, by which it does not complain of missing drivers."""
    frameworks = [config.framework(name) for name in config.names("framework")]
    return {name: value for each in frameworks for name, value in each.quiet.items()}
