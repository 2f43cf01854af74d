"""The processes of a pool end with the one that began them, also where it was killed."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import FOREVER_S

POOL = """
import multiprocessing, time
from concurrent.futures import ProcessPoolExecutor
from suite.store.processes import end_with_parent

if __name__ == "__main__":
    with ProcessPoolExecutor(2, multiprocessing.get_context(METHOD), end_with_parent) as pool:
        list(pool.map(abs, range(2)))
        print("at work", flush=True)
        time.sleep(600)
"""


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_killed_command_leaves_no_process(method, tmp_path):
    program = Path(tmp_path / "pool.py")
    program.write_text(POOL.replace("METHOD", repr(method)))
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout.readline() == "at work\n"
        children = psutil.Process(parent.pid).children(recursive=True)
        parent.kill()
    assert children
    _, alive = psutil.wait_procs(children, timeout=FOREVER_S)
    assert alive == []
