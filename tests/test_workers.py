"""Several workers under the harness: one of numpy that need not talk, so that what the leader does is what is seen."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import psutil
import pytest

from suite.harness.workers import dismissing, place
from tests.command import ENVIRONMENT, eighth, run, start
from tests.waiting import FOREVER_S, until

ALIKE = Path(__file__).parent / "implementations/alike"
DIGITS = ("task=image_classification", "scale=mini", "hw=cpu", "mlflow=false", "division=open", "seed=1", "out=made")
CADENCE = ("evaluation.first=2000", "evaluation.every=2000", "budget_samples=6000")
ENDED = 3  # the exit code at the end of the budget: nearest means do not reach the target


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(ALIKE, tmp_path / "alike")
    return tmp_path


def trained(folder, workers, *words, fault=None):
    """A command's exit code and output; the folder `made` has its evidence."""
    patched = {**ENVIRONMENT, **({"FAULT": fault} if fault else {})}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.command.ENVIRONMENT", patched)
        asked = ("implementation=alike", f"hw.workers={workers}", *(words or (*DIGITS, *CADENCE)))
        return run(folder, "suite.run", *asked)


def logged(folder, key):
    lines = [json.loads(line.partition(" ")[2]) for line in (folder / "made/log.txt").read_text().splitlines()]
    return [line for line in lines if line["key"] == key]


def states(folder):
    """The samples and the sum of the state at each evaluation; one that was made again after a restart is the same."""
    evaluations = [line["metadata"] for line in logged(folder, "eval_accuracy")]
    return {(each["samples_count"], each["state_sha256"]) for each in evaluations}


def nobody_is_left(folder):
    here = [each for each in psutil.process_iter(["environ", "cwd"]) if each.info["cwd"] == str(folder)]
    return not [each for each in here if "SUITE_WORKER" in (each.info["environ"] or {})]


def test_several_workers_make_the_run_of_one(folder):
    one = trained(folder, 1)
    assert one.returncode == ENDED, one.stdout + one.stderr
    alone = [line["metadata"] for line in logged(folder, "eval_accuracy")]
    (folder / "made").rename(folder / "one")
    done = trained(folder, 3)
    assert done.returncode == ENDED, done.stdout + done.stderr
    shared = [line["metadata"] for line in logged(folder, "eval_accuracy")]
    for name in ("predictions_sha256", "state_sha256", "samples_count"):
        assert [each[name] for each in shared] == [each[name] for each in alone]
    losses = [line["value"]["loss"] for line in logged(folder, "tracked_stats")]
    assert losses
    assert set(losses) == {1.0}  # the mean of the ranks
    review = json.loads(run(folder, "suite.review", "made", "--json").stdout)
    assert [each for each in review["findings"] if each["severity"] == "fail"] == []
    assert nobody_is_left(folder)


OTHER_DATA = """
from suite.harness.workers import following

whole = following.prepared


def prepared(*given):
    made = whole(*given)
    return {**made, "train_labels": made["train_labels"][::-1]}


following.prepared = prepared
"""


def test_a_worker_with_other_data_ends_the_run_before_it_begins(folder):
    """Of an array without a declared sum; the others are verified against theirs by each worker."""
    with (folder / "alike/__init__.py").open("a") as code:
        code.write(OTHER_DATA)
    done = trained(folder, 2, *DIGITS, *CADENCE, "dataset.arrays.train_labels=null")
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert re.fullmatch("error: rank 1 on .*: train_labels of .* is not the leader's, by its sum: .*", line)
    assert not (folder / "made").exists()


HOLDS_ITSELF = """
import gc, weakref
from suite.harness import memory

gc.disable()
memory.GROWN = -float("inf")  # as on a GPU, always
whole, built = build, []


def build(*given):
    assert not any(each() for each in built), "two at once"
    made = whole(*given)
    made.itself = made
    built.append(weakref.ref(made))
    return made
"""


def test_no_worker_holds_the_implementations_of_two_runs(folder):
    with (folder / "alike/__init__.py").open("a") as code:
        code.write(HOLDS_ITSELF)
    words = [word for word in DIGITS if not word.startswith("seed=")]
    done = trained(folder, 2, *words, "runs=2", "evaluation.first=100", "evaluation.every=100", "budget_samples=100")
    assert done.returncode == ENDED, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("1:another state", "rank 1 on .* has another state"),
        ("2:miscounts", r"rank 2 on .*: train_until\(1\) of implementation_alike stopped at 101 samples"),
        ("1:exits", r"rank 1 on .*: train_until of implementation_alike called sys.exit\(None\) at alike/__init__.py:"),
        (
            "1:no JSON",
            r"rank 1 on .*: prediction 0 \(from 0\) that predict returned is a numpy.int64, .* in order\.; go",
        ),
        ("1:raises", "rank 1 on .*: RuntimeError: out of memory"),
        ("2:dies", "rank 2 on .*: its process has ended"),
    ],
)
def test_a_worker_that_fails_ends_the_run_in_one_line_that_names_it(folder, fault, told):
    done = trained(folder, 3 if fault.startswith("2") else 2, fault=fault)
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = [each for each in done.stderr.splitlines() if each.startswith("error: ")]
    assert re.search(told, line)
    assert line.endswith(f"go on with resume=made implementation={folder / 'alike'} mlflow=false")
    assert nobody_is_left(folder)


DIES_AS_THE_RUN_IS_SEALED = """
import gc, os, signal, time
from suite.harness.workers import leading
from suite.record import evidence

whole, leading.GRACE_S = evidence.seal, 0.0


def seal(*given):
    (followers,) = (each for each in gc.get_objects() if isinstance(each, leading.Followers))
    os.kill(followers.processes(0)[0], signal.SIGKILL)
    time.sleep(1)
    whole(*given)


evidence.seal = seal
"""


def test_a_worker_that_dies_once_the_run_has_ended_is_no_failure(folder):
    with (folder / "alike/__init__.py").open("a") as code:
        code.write(DIES_AS_THE_RUN_IS_SEALED)
    done = trained(folder, 2)
    assert done.returncode == ENDED, done.stdout + done.stderr
    assert done.stderr == ""


def test_a_leader_that_exits_ends_the_run_in_one_line(folder):
    done = trained(folder, 2, fault="0:exits")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "error: train_until of implementation_alike called sys.exit(None) at alike/__init__.py:" in done.stderr
    assert done.stderr.endswith("Mend that, and begin a new run\n")
    assert nobody_is_left(folder)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The states that a run of one worker had at its evaluations."""
    folder = tmp_path_factory.mktemp("undisturbed")
    shutil.copytree(ALIKE, folder / "alike")
    assert trained(folder, 1).returncode == ENDED
    return states(folder)


@pytest.mark.parametrize(
    ("began", "goes_on"),
    [(2, 3), pytest.param(2, 1, marks=pytest.mark.soak), pytest.param(1, 2, marks=pytest.mark.soak)],
)
def test_a_run_that_lost_a_worker_goes_on_with_another_number_as_if_it_had_not(folder, undisturbed, began, goes_on):
    assert trained(folder, began, fault=f"{began - 1}:dies").returncode in (1, 9)
    again = trained(folder, goes_on, "resume=made", "mlflow=false")
    assert again.returncode == ENDED, again.stdout + again.stderr
    (restart,) = logged(folder, "suite_restart")
    assert (restart["value"], restart["metadata"]["workers"]) == (1, goes_on)
    assert states(folder) == undisturbed
    review = json.loads(run(folder, "suite.review", "made", "--json").stdout)
    assert [each for each in review["findings"] if each["severity"] == "fail"] == []


def test_ctrl_c_while_workers_start_is_no_traceback(folder, monkeypatch):
    monkeypatch.setitem(ENVIRONMENT, "FAULT", "1:waits")
    words = ("implementation=alike", "hw.workers=2", *DIGITS)
    process = start(folder, "suite.run", *words, start_new_session=True)
    until(lambda: not nobody_is_left(folder))
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, said = process.communicate(timeout=FOREVER_S)
    assert (process.returncode, said) == (130, "")
    assert nobody_is_left(folder)


def test_workers_of_several_commands_are_one_line_each(folder):
    words = [word for word in DIGITS if word.partition("=")[0] not in ("seed", "out", "hw.workers")]
    done = eighth(folder, "run", "-m", "implementation=alike", *words, "hw.workers=2", "seed=1,2")
    assert done.returncode == 2
    said = "error: -m makes 2 commands, and the 2 workers that this one starts are of one: "
    assert [line.startswith(said) for line in done.stderr.splitlines()] == [True, True]


def test_workers_that_a_system_cannot_have_are_one_line(folder):
    for words, told in (
        (
            ("hw.workers=5",),
            "trains with 5 workers; image_classification in alike with 4 (its ACCELERATORS): give fewer with hw.nodes=",
        ),
        (("hw.workers=0",), "hw.workers"),
        (("hw=v100x8", "hw.workers=2"), "hw=v100x8 has one worker for each accelerator"),
        (("hw.nodes=2",), "torchrun --nnodes=2 --nproc-per-node=1"),
    ):
        others = [word for word in DIGITS if word.partition("=")[0] not in dict(each.split("=") for each in words)]
        done = eighth(folder, "run", "implementation=alike", *others, *words)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert told in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [(), ("dry_run=true",)])
def test_workers_of_a_launcher_are_let_go_at_a_data_folder_that_is_none(folder, monkeypatch, words):
    let_go = []
    monkeypatch.setattr(place, "find", lambda: place.Place(world_size=2, local_size=2, launcher="srun"))
    monkeypatch.setattr(dismissing, "dismiss", lambda *given: let_go.append(given))
    (folder / "file").touch()
    done = eighth(folder, "run", "implementation=alike", "hw.workers=2", *DIGITS, "data_dir=file", *words)
    assert "file is not a folder" in done.stderr
    assert len(let_go) == 1
