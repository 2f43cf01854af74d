"""What becomes of a run when one of its workers dies, hangs, or was never as it has to be."""

import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from suite.harness.workers.channel import free_port
from suite.harness.workers.place import PORT
from tests.command import eighth
from tests.parity_runs import lines
from tests.worlds import (
    ADDRESSES,
    NAMESPACES,
    PLAN,
    PROJECT,
    SHARED,
    SLOWLY,
    STARTS,
    agents,
    cut,
    environment,
    hosts,
    own,
    run,
    small_disk,
    torchrun,
    two_hosts,
    two_nodes,
    why_no_namespaces,
    why_no_small_disk,
    world,
)

HERE = socket.gethostname()
IMPLEMENTATION = f"implementation={PROJECT / SHARED}"
GO_ON = f"; go on with resume=out {IMPLEMENTATION} mlflow=false framework=torch"
pytestmark = pytest.mark.slow


@pytest.fixture
def made(tmp_path):
    with world(tmp_path) as made:
        yield made


def goes_on(folder):
    """The run in `out` is gone on with, by one worker, to its target, and passes its review."""
    done = eighth(folder, "run", "resume=out", IMPLEMENTATION, "hw.workers=1", "mlflow=false")
    assert done.returncode == 0, done.stderr
    assert "verdict   pass" in done.stdout


LEADER, OTHER = (0, f"rank 0 on {HERE}, which leads"), (1, f"rank 1 on {HERE}: its proc")
SUITE, TORCHRUN = STARTS


@pytest.mark.parametrize(
    ("start", "rank", "says"),
    [
        (TORCHRUN, *LEADER),
        (SUITE, *OTHER),
        pytest.param(TORCHRUN, *OTHER, marks=pytest.mark.soak),
        pytest.param(SUITE, *LEADER, marks=pytest.mark.soak),
    ],
)
def test_a_killed_worker_ends_all(made, start, rank, says):
    STARTS[start](made, *PLAN, *SLOWLY, "out=out")
    made.wait_for("eval_stop")
    made.worker(rank).send_signal(signal.SIGKILL)
    made.ended()
    assert [line for line in made.errors if says in line and line.endswith(GO_ON)], made.said
    assert len(made.errors) == 1, made.said
    assert "Traceback" not in made.said.partition("elastic/multiprocessing")[0]  # torchrun's own comes after its word
    if start == "the suite" and rank == 1:
        goes_on(made.folder)
        restart = next(line for line in lines(made.folder / "out") if line.key == "suite_restart")
        assert (restart.metadata["changed"], restart.metadata["workers"]) == (["workers"], 1)
        done = eighth(made.folder, "run", "resume=out", IMPLEMENTATION, "hw.nodes=2")
        assert "hw.nodes=2 comes too late" in done.stderr


def test_a_stopped_worker_is_waited_for(made):
    own(made, *PLAN, *SLOWLY, "out=out")
    made.wait_for("eval_stop")
    worker = made.worker(1)
    worker.suspend()
    time.sleep(5)
    worker.resume()
    made.ended(300)
    assert made.codes == [0], made.said
    assert "suite_restart" not in [line.key for line in lines(made.folder / "out")]


@pytest.mark.parametrize("nodes", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_torchrun_starts_again_and_the_run_goes_on(made, nodes):
    words, once = (*PLAN, *SLOWLY, "out=out"), "--max-restarts=1"
    if nodes == 1:
        made.start(torchrun(run(*words, "hw.workers=2"), "--nproc-per-node=2", once))
    else:
        agents(made, *words, options=[once])
    made.wait_for("eval_stop")  # the state after 200 samples, the first occasion, is kept by then
    made.worker(1).kill()
    made.ended(300)
    assert made.codes == [0] * nodes, made.said
    assert "verdict   pass" in made.said
    restart = next(line for line in lines(made.folder / "out") if line.key == "suite_restart")
    assert restart.metadata["lost_ms"] > 0
    assert restart.metadata["samples_count"] >= 200


@pytest.mark.soak
def test_torchrun_leaves_a_run_that_has_ended_as_it_is(made):
    """A run that missed its target has exit code 3, which torchrun takes for a failure."""
    never = (*PLAN, "division=open", "target=1", "budget_samples=1000", "hw.workers=2", "out=out")
    made.start(torchrun(run(*never), "--nproc-per-node=2", "--max-restarts=1"))
    assert made.codes == [1]
    assert made.said.count("verdict") == 2, made.said
    assert not made.errors
    logged = [line.key for line in lines(made.folder / "out")]
    assert logged.count("run_stop") == 1
    assert "suite_restart" not in logged


@pytest.mark.skipif(why_no_namespaces() is not None, reason=str(why_no_namespaces()))
def test_a_cut_network_ends_both_sides(made):
    with two_hosts():
        hosts(made, *PLAN, *SLOWLY[:1], "hyperparameters.milliseconds_per_step=500", "out=out")
        made.wait_for("eval_stop")
        cut()
        made.ended()
    says = [line for line in made.errors if f"rank 1 on {HERE}: nothing was heard of it for" in line]
    assert says, made.said


@pytest.mark.skipif(why_no_small_disk() is not None, reason=str(why_no_small_disk()))
def test_a_full_disk_ends_all(made):
    out = made.folder / "out"
    out.mkdir()
    with small_disk(out):
        own(made, *PLAN, *SLOWLY, "out=out")
        made.wait_for("eval_stop")
        subprocess.run(["dd", "if=/dev/zero", f"of={out / 'else'}"], check=False, capture_output=True)
        made.ended()
        assert made.codes == [2], made.said
        assert made.errors == [f"rank 0 on {HERE}: out: No space left on device; mend that, then{GO_ON[1:]}"]
        (out / "else").unlink()
        goes_on(made.folder)


def test_a_port_in_use_is_one_line(made):
    with socket.create_server(("", 0)) as taken:
        port = str(taken.getsockname()[1])
        made.start(torchrun(run(*PLAN, "hw.workers=2", "out=out"), "--nproc-per-node=2"), environment(**{PORT: port}))
        made.wait_for_error()
        made.ended()
    assert any(f"cannot listen at 127.0.0.1:{port}" in line and PORT in line for line in made.errors), made.said
    assert not (made.folder / "out").exists()


SOON = """
from suite.harness.workers import following
following.CONNECT_S = 3.0
from suite.errors import command
from suite.run.__main__ import main
command(main)
"""


@pytest.mark.skipif(why_no_namespaces() is not None, reason=str(why_no_namespaces()))
def test_a_leader_that_cannot_be_reached_is_one_line(made):
    """Addresses of a network that leads nowhere; a worker whose place the environment tells, as torchrun does."""
    told = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": "1"}
    told |= {"MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29411", "TORCHELASTIC_RUN_ID": "w"}
    with two_hosts():
        subprocess.run(["ip", "-n", NAMESPACES[0], "addr", "flush", "dev", "va"], check=True)
        words = run(*PLAN, "hw.nodes=2")[3:]
        made.start(["ip", "netns", "exec", NAMESPACES[1], sys.executable, "-c", SOON, *words], environment(**told))
        made.ended()
    assert made.codes == [2]
    (line,) = made.errors
    assert f"rank 1 on {HERE} cannot reach the leader at {ADDRESSES[0]}:29412 within 3 s" in line


def test_other_code_is_told(made, tmp_path):
    other = tmp_path / "other"
    for each in ("suite", "tests", "tasks", "reference_impls", "conf"):
        shutil.copytree(PROJECT / each, other / each, ignore=shutil.ignore_patterns("__pycache__"))
    for each in ("pyproject.toml", "constraints.txt", "rules.md"):
        shutil.copy(PROJECT / each, other)
    (other / "tasks/translation/__init__.py").write_text("# other\n")
    port = free_port()
    for project in (PROJECT, other):
        made.start(torchrun(run(*PLAN, "hw.nodes=2", "out=out"), *two_nodes(port)), environment(project))
    made.wait_for_error()
    made.ended()
    assert any("has other code of the suite than the leader" in line for line in made.errors), made.said
    assert not (made.folder / "out").exists()


def test_a_world_that_does_not_fit_is_one_line(made):
    agents(made, *PLAN, "hw.workers=2")
    made.wait_for_error()
    made.ended()
    says = "hw=cpu trains with 4 workers, 2 nodes of 2; torchrun started 2, 1 of them on this node"
    assert len([line for line in made.errors if line.startswith(says)]) == 1, made.said


def test_an_exception_of_a_worker_is_told_once(made):
    broken = (
        (PROJECT / SHARED)
        .read_text()
        .replace(
            "        size = self.hyper",
            "        assert not self.device.rank or samples < 600, 'no more'\n        size = self.hyper",
        )
    )
    (made.folder / "broken.py").write_text(broken)
    own(made, *PLAN, *SLOWLY, "out=out", implementation=made.folder / "broken.py")
    made.ended(120)
    told = (
        f"rank 1 on {HERE}: AssertionError: no more; go on with resume=out implementation={made.folder / 'broken.py'} "
        "mlflow=false framework=torch"
    )
    assert made.errors == [told], made.said
    assert made.said.count("Traceback (most recent call last)") == 1
