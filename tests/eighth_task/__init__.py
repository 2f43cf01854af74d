"""An eighth task, an own framework and an own machine, added without touching `suite/`; the harness is tested on them.

`python -m tests.eighth_task task=parity ...` is `python -m suite.run` with these added.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import reference_impls
import tasks
from suite.config import folder

if TYPE_CHECKING:
    import pytest

HERE = Path(__file__).parent
NUMPY = HERE / "reference_impls/parity/numpy.py"
PROJECT_CONF = folder.CONF


def install() -> None:
    """Overlay this folder's conf/, tasks/ and reference_impls/ on the project's."""
    folder.CONF = merged()
    for package in (tasks, reference_impls):
        package.__path__.append(str(HERE / package.__name__))


def lend(patch: pytest.MonkeyPatch) -> None:
    """Do so until `patch` is undone."""
    patch.setattr(folder, "CONF", folder.CONF)
    for package in (tasks, reference_impls):
        patch.setattr(package, "__path__", [*package.__path__])
    install()


@cache
def merged() -> Path:
    """Both conf/ as one, for this process."""
    made = Path(tempfile.mkdtemp(prefix="conf-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    for source in (PROJECT_CONF, HERE / "conf"):
        shutil.copytree(source, made, dirs_exist_ok=True)
    return made
