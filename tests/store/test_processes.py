"""The processes of a pool end with the command that began them, whatever ends it, and silently."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.command import PROJECT, start
from tests.waiting import FOREVER_S

PROGRAM = """
import time
from suite.errors import command
from suite.harness.interrupt import interruptible
from suite.store.processes import Pool

def main(argv):
    with interruptible(), Pool(2, METHOD) as pool:
        working = [pool.submit(time.sleep, seconds) for seconds in (0.2, 0.2, *[600] * 9)]
        working[1].result()
        print("at work", flush=True)
        for each in working:
            each.result()

if __name__ == "__main__":
    command(main)
"""


def interrupt(command: psutil.Process) -> None:
    """Do what Ctrl-C does in a terminal."""
    os.killpg(command.pid, signal.SIGINT)


@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        (psutil.Process.kill, -signal.SIGKILL, ""),
        (psutil.Process.terminate, 143, ""),
        (interrupt, 130, ""),
        (lambda command: command.children()[-1].kill(), 1, "BrokenProcessPool"),
    ],
    ids=["killed", "terminated", "interrupted", "process-killed"],
)
def test_no_process_outlives_its_command(
    method: str, end: Callable[[psutil.Process], None], code: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.replace("METHOD", repr(method)))
    with start(tmp_path, "program", start_new_session=True) as command:
        assert command.stdout
        assert command.stdout.readline() == "at work\n"
        processes = psutil.Process(command.pid).children(recursive=True)
        end(psutil.Process(command.pid))
        _, errors = command.communicate(timeout=FOREVER_S)
    assert (command.returncode, "Stopped" in errors, "Traceback" in errors) == (code, False, bool(said))
    assert said in errors
    assert psutil.wait_procs(processes, timeout=FOREVER_S)[1] == []
    assert len(processes) >= 2


def test_every_pool_is_such_a_one() -> None:
    own = PROJECT / "suite/store/processes.py"
    sources = [path for folder in ("suite", "tasks", "reference_impls") for path in (PROJECT / folder).rglob("*.py")]
    assert [path for path in sources if "ProcessPoolExecutor" in path.read_text()] == [own]
