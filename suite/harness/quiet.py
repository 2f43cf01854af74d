"""Keeps frameworks from complaining about missing drivers on a machine without an accelerator."""

from __future__ import annotations

import os
from pathlib import Path

from suite import config

DEVICES = Path("/dev")
NODES = ("nvidiactl", "dxg", "kfd", "accel")  # NVIDIA, any in WSL, AMD, others


def variables() -> dict[str, str]:
    """The `quiet` variables of every framework in conf/framework/."""
    frameworks = [config.framework(name) for name in config.names("framework")]
    return {name: value for each in frameworks for name, value in each.quiet.items()}


def without_accelerator() -> None:
    """Set those of `variables` that the user has not set; call it before importing a framework.

    With an accelerator none is set, so that everything is shown: it may say why the accelerator is not found.
    """
    if not any((DEVICES / name).exists() for name in NODES):
        for name, value in variables().items():
            os.environ.setdefault(name, value)
