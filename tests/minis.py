"""Minis that are trained to their target, each once for all tests and all processes that run them."""

import os
import shutil
from pathlib import Path

from filelock import FileLock

from tests.command import run

SEED = 1


def trained(factory, task: str, framework: str = "torch") -> Path:
    """A folder with the `evidence` of a run of `task`'s mini; `factory` is pytest's `tmp_path_factory`."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"mini-{task}-{framework}"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            words = (f"task={task}", "scale=mini", "hw=cpu", f"framework={framework}", f"seed={SEED}")
            making = folder.with_suffix(".part")
            making.mkdir()
            done = run(making, "suite.run", *words, "mlflow=false", "out=evidence")
            assert done.returncode == 0, done.stdout + done.stderr
            shutil.move(making, folder)
    return folder
