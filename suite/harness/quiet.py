"""Keeps frameworks from complaining, on a machine without an accelerator, that they find no driver of one."""

from __future__ import annotations

import os
from pathlib import Path

from suite import config

DEVICES = Path("/dev")
NODES = ("nvidiactl", "dxg", "kfd", "accel")  # of NVIDIA, of any in WSL, of AMD, of others


def variables() -> dict[str, str]:
    """The variables of `quiet` in conf/framework/, of every framework."""
    frameworks = [config.framework(name) for name in config.names("framework")]
    return {name: value for each in frameworks for name, value in each.quiet.items()}


def without_accelerator() -> None:
    """Set `variables` where the user has not; to be called before a framework is imported.

    With an accelerator all is shown: it may say why that is not found.
    """
    if not any((DEVICES / name).exists() for name in NODES):
        for name, value in variables().items():
            os.environ.setdefault(name, value)
