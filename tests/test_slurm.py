"""Runs by a real SLURM with two nodes, which are this machine: by srun, and submitted from a login node."""

import re
import signal
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests import slurm
from tests.command import eighth
from tests.parity_runs import lines
from tests.waiting import FOREVER_S, until
from tests.worlds import PLAN, SLOWLY, environment, run, world

pytestmark = [pytest.mark.slow, pytest.mark.skipif(slurm.why_not() is not None, reason=str(slurm.why_not()))]
SRUN = ("srun", "--nodes=2", "--ntasks-per-node=1")
TRANSLATION = (  # to its first evaluation
    "task=translation", "scale=mini", "hw=cpu", "hw.nodes=2", "mlflow=false", "seed=1", "division=open",
    "target=0", "evaluation.first=1000", "evaluation.every=1000",
)  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with slurm.cluster(tmp_path_factory.mktemp("slurm")) as environ:
        yield environment() | {"SLURM_CONF": environ["SLURM_CONF"]}


@pytest.fixture
def made(tmp_path, cluster):
    with world(tmp_path) as made:
        yield made
    subprocess.run(["scancel", "--user=root"], env=cluster, check=True)


def jobs(cluster):
    done = subprocess.run(
        ["squeue", "--noheader", "--format=%i"], env=cluster, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_srun_trains_on_two_nodes_to_the_target(made, cluster):
    made.start([*SRUN, sys.executable, "-m", "suite.run", *TRANSLATION, "out=out"], cluster)
    made.ended(900)
    assert made.codes == [0], made.said
    stop = next(line for line in lines(made.folder / "out") if line.key == "run_stop")
    assert stop.metadata["reason"] == "target"
    assert (made.folder / "out/manifest.json").exists()


def test_scancel_seals_the_run_and_resume_goes_on(made, cluster):
    made.start([*SRUN, *run(*PLAN, *SLOWLY, "hw.nodes=2", "out=out")], cluster)
    made.wait_for("eval_stop")
    subprocess.run(["scancel", *jobs(cluster)], env=cluster, check=True)
    made.ended()
    stop = next(line for line in lines(made.folder / "out") if line.key == "run_stop")
    assert stop.metadata["reason"] == "interrupt", made.said
    assert (made.folder / "out/manifest.json").exists()
    made.start([*SRUN, *run("resume=out", "mlflow=false")], cluster)
    made.ended(300)
    assert made.codes[-1] == 0, made.said
    assert "verdict   pass" in made.said


def test_a_killed_task_ends_the_step(made, cluster):
    made.start([*SRUN, *run(*PLAN, *SLOWLY, "hw.nodes=2", "out=out")], cluster)
    made.wait_for("eval_stop")
    made.worker(1).kill()
    made.ended()
    assert [line for line in made.errors if re.search(r"rank 1 on \S+: its process has ended; go on with", line)]


def test_a_world_that_does_not_fit_is_one_line(made, cluster):
    made.start([*SRUN, *run(*PLAN, "hw.nodes=2", "hw.workers=2", "out=out")], cluster)
    made.ended()
    says = "hw=cpu trains with 4 workers, 2 nodes of 2; srun started 2, 1 of them on this node: say --nodes=2"
    assert [line[: len(says)] for line in made.errors] == [says]


launcher = pytest.mark.skipif(find_spec("submitit") is None, reason="submitit is not installed")
LAUNCH = ("-m", "hydra/launcher=slurm", *PLAN, "hw.nodes=2")


@launcher
def test_the_launcher_submits_follows_and_leaves_the_evidence(made, cluster):
    made.start(run(*LAUNCH, "slurm.partition=main", "out=out"), cluster)
    made.ended(300)
    assert made.codes == [0], made.said
    assert re.search(r"^job \d+ +RUNNING$", made.said, re.MULTILINE)
    assert re.search(r"^job \d+ +COMPLETED$", made.said, re.MULTILINE)
    assert "verdict   pass" in made.said
    assert eighth(made.folder, "review", "out").returncode == 0


@launcher
def test_ctrl_c_leaves_the_job_and_says_how_to_end_it(made, cluster):
    made.start(run(*LAUNCH, *SLOWLY, "out=out"), cluster)
    made.wait_for("eval_stop")
    made.started[0].send_signal(signal.SIGINT)
    assert made.started[0].wait(FOREVER_S) == 130
    (job,) = jobs(cluster)
    assert re.search(
        rf"job {job} goes on\. To see it: tail -F runs/slurm/{job}_\*_log\.out; to end it: scancel {job}$",
        made.said,
        re.M,
    )
    subprocess.run(["scancel", job], env=cluster, check=True)
    until(lambda: not jobs(cluster))
    assert (made.folder / "out/manifest.json").exists()


@launcher
def test_what_slurm_does_not_take_is_one_line(made, cluster):
    made.start(run(*LAUNCH, "out=out", "slurm.partition=gpu"), cluster)
    made.ended()
    assert made.codes == [2]
    says = "SLURM does not take the job: sbatch: error: "
    assert [line[: len(says)] for line in made.errors] == [says], made.said
