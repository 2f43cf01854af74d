"""An eighth task, an own framework and an own machine, added without touching `suite/`; the harness is tested on them.

`python -m tests.eighth_task task=parity ...` is `python -m suite.run` with these added.
"""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import reference_impls
import tasks
from suite.config import folder

HERE = Path(__file__).parent
NUMPY = HERE / "reference_impls/parity/numpy.py"
PROJECT_CONF = folder.CONF


def install() -> None:
    """Overlay this folder's conf/, tasks/ and reference_impls/ on the project's."""
    folder.CONF = merged()
    for package in (tasks, reference_impls):
        package.__path__.append(str(HERE / package.__name__))


@cache
def merged() -> Path:
    """Both conf/ as one, for this process."""
    made = Path(tempfile.mkdtemp(prefix="conf-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    for source in (PROJECT_CONF, HERE / "conf"):
        shutil.copytree(source, made, dirs_exist_ok=True)
    return made
