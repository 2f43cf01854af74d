"""`python -m suite.run`, tried with a task, a framework and a machine that `suite/` has never heard of."""

import errno
import gc
import json
import re
import resource
import shlex
import signal
import subprocess
import sys
import weakref
from unittest.mock import Mock

import numpy as np
import pytest
import yaml

from suite.errors import UserError
from suite.harness import contract, memory
from suite.record import tracking
from suite.record.evidence import OF_EACH_RUN
from tests.command import ENVIRONMENT, eighth, run, start
from tests.parity_runs import RUN, SLOW, keys, lines, rules_broken, wait_for
from tests.record.mlflow_content import content
from tests.waiting import FOREVER_S


def test_reaches_the_target_and_leaves_sealed_evidence(tmp_path):
    done = run(tmp_path, "tests.eighth_task", "run", *RUN, "seed=1", "out=evidence")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "evidence"
    assert {path.name for path in folder.iterdir()} == {*OF_EACH_RUN, "manifest.json"}
    log = lines(folder)
    assert not any(line.problem for line in log)
    stop = next(line for line in log if line.key == "run_stop")
    last = [line for line in log if line.key == "eval_accuracy"][-1]
    assert stop.metadata["status"] == "success"
    assert last.value >= 0.97 > max([0, *(line.value for line in log if line.key == "eval_accuracy")][:-1])
    assert stop.metadata["samples_count"] == last.metadata["samples_count"]
    assert yaml.safe_load((folder / "config.yaml").read_text())["seed"] == 1
    assert "review    suite review evidence\n" in done.stdout
    assert "mlflow    python -m suite.sync evidence\n" in done.stdout
    assert "verdict   pass" in done.stdout
    assert "estimated" in done.stdout


def test_prints_a_path_as_it_stands_and_in_a_command_in_quotes(tmp_path):
    done = eighth(tmp_path, "run", *RUN, "seed=1", "out=a [/b] c")
    assert done.returncode == 0, done.stderr
    assert "evidence  a [/b] c\n" in done.stdout
    assert "review    suite review 'a [/b] c'\n" in done.stdout
    assert "mlflow    python -m suite.sync 'a [/b] c'\n" in done.stdout
    refused = eighth(tmp_path, "run", *RUN, "seed=1", "out=a [/b] c")
    assert refused.stderr.endswith("or go on with resume='a [/b] c' mlflow=false\n")


@pytest.mark.slow
def test_mlflow_has_the_run_when_the_command_ends_and_is_said_to_be_behind_where_it_cannot(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    monkeypatch.setattr(tracking, "WAIT_S", FOREVER_S)
    words = [word for word in RUN if word != "mlflow=false"]
    done = eighth(tmp_path, "run", *words, "seed=1", "out=evidence")
    assert (done.returncode, "MLflow is behind" in done.stdout) == (0, False), done.stderr
    assert [found["status"] for found in content(f"sqlite:///{tmp_path}/mlflow.db")] == ["FINISHED"]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    done = eighth(tmp_path, "run", *words, "seed=1", "out=again")
    assert done.returncode == 0, done.stderr
    assert f"MLflow is behind; fill it in with: python -m suite.sync {tmp_path}/again\n" in done.stdout


def test_a_run_that_fails_is_followed_no_longer(tmp_path, monkeypatch):
    def build(*_):
        raise UserError("it fails")

    called = []
    for name in ("start", "close"):
        monkeypatch.setattr(tracking.Tracker, name, lambda _, name=name: called.append(name))
    monkeypatch.setattr(contract, "build", build)
    words = [word for word in RUN if word != "mlflow=false"]
    assert eighth(tmp_path, "run", *words, "-m", "seed=1,2").stderr == "error: it fails\n" * 2
    assert called == ["start", "close"] * 2


def test_goes_on_when_nobody_reads_what_it_prints(tmp_path):
    """As with `| head -1`."""
    process = start(tmp_path, "tests.eighth_task", "run", *RUN, "seed=1", "out=evidence")
    assert process.stdout.readline().startswith("benchmark")
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(FOREVER_S) == 0
    assert rules_broken(tmp_path, "evidence") == set()


@pytest.mark.slow
@pytest.mark.parametrize("streams", [">&- 2>&-", "<&- >/dev/full"])
def test_what_cannot_be_printed_costs_no_evidence(tmp_path, streams):
    """Nor does a file of it take the place of a stream that was closed."""
    command = [sys.executable, "-m", "tests.eighth_task", "run", *RUN, "seed=1", "out=evidence"]
    done = subprocess.run(["sh", "-c", f"exec {shlex.join(command)} {streams}"], cwd=tmp_path, env=ENVIRONMENT)
    assert done.returncode == 0
    assert rules_broken(tmp_path, "evidence") == set()


def test_the_open_division_frees_the_hyperparameters(tmp_path):
    faster = (*RUN, "seed=1", "hyperparameters.opt_base_learning_rate=0.1")
    closed = eighth(tmp_path, "run", *faster, "out=closed")
    assert "verdict   fail" in closed.stdout
    opened = eighth(tmp_path, "run", *faster, "out=open", "division=open", "category=cloud", "submitter=example-org")
    assert "verdict   pass" in opened.stdout, opened.stdout
    said = {"submitter": "example-org", "division": "open", "status": "cloud"}
    logged = {line.key: line.value for line in lines(tmp_path / "open")}
    assert {name: logged[f"submission_{name}"] for name in ("division", "status")} | {
        "submitter": logged["submission_org"]
    } == said
    assert said.items() <= json.loads((tmp_path / "open/system.json").read_text())["description"].items()
    again = eighth(tmp_path, "run", *RUN, "resume=open", "division=closed")
    assert "division=closed contradicts resume=open, which is a run of division=open" in again.stderr


def test_the_closed_division_frees_the_batch_size_within_its_range(tmp_path):
    larger = eighth(tmp_path, "run", *RUN, "seed=1", "hyperparameters.global_batch_size=80", "out=larger")
    assert "verdict   pass" in larger.stdout, larger.stdout
    logged = {line.key: line.value for line in lines(tmp_path / "larger")}
    assert (logged["global_batch_size"], logged["opt_base_learning_rate"]) == (80, 0.1)
    assert eighth(tmp_path, "review", "larger").returncode == 0
    too_large = (*RUN, "seed=1", "hyperparameters.global_batch_size=120")
    assert "verdict   fail: hyperparameters.2 (" in eighth(tmp_path, "run", *too_large, "out=closed").stdout
    done = eighth(tmp_path, "review", "closed", "--json")
    assert done.returncode == 1
    (finding,) = [each for each in json.loads(done.stdout)["findings"] if each["severity"] == "fail"]
    expected = "global_batch_size: a whole number from 10 to 100, a multiple of 10"
    assert (finding["rule"], finding["expected"]) == ("hyperparameters.2", expected)
    assert "verdict   pass" in eighth(tmp_path, "run", *too_large, "out=open", "division=open").stdout


def test_the_open_division_frees_cadence_and_budget(tmp_path):
    own = (*RUN, "seed=1", "evaluation.first=4940", "evaluation.every=60", "budget_samples=19940")
    closed = eighth(tmp_path, "run", *own, "out=closed")
    assert "verdict   fail" in closed.stdout
    opened = eighth(tmp_path, "run", *own, "out=open", "division=open")
    assert opened.returncode == 0, opened.stderr
    assert "verdict   pass" in opened.stdout, opened.stdout
    points = [line.metadata["samples_count"] for line in lines(tmp_path / "open") if line.key == "eval_accuracy"]
    assert points == [4940 + 60 * number for number in range(len(points))]
    (config,) = [line for line in lines(tmp_path / "open") if line.key == "suite_config"]
    assert config.metadata["cadence"] == {"first": 4940, "every": 60, "budget_samples": 19940}
    made = eighth(tmp_path, "review", "open")
    assert made.returncode == 0, made.stdout
    assert "division.7" in made.stdout


def test_says_so_when_the_budget_ends_first(tmp_path):
    done = eighth(tmp_path, "run", *RUN, "seed=1", "out=evidence", "target=1")
    assert done.returncode == 3
    stop = next(line for line in lines(tmp_path / "evidence") if line.key == "run_stop")
    assert (stop.metadata["status"], stop.metadata["reason"]) == ("aborted", "budget")
    assert stop.metadata["samples_count"] == 20000


def test_makes_several_runs_with_distinct_seeds(tmp_path):
    done = eighth(tmp_path, "run", *RUN, "runs=3", "out=result")
    assert done.returncode == 0, done.stderr
    seeds = {line.value for i in (1, 2, 3) for line in lines(tmp_path / "result" / f"run_{i}") if line.key == "seed"}
    assert len(seeds) == 3
    assert "time to quality, olympic mean of 3 runs: " in done.stdout
    assert eighth(tmp_path, "review", "result").returncode == 0


def test_several_runs_of_which_one_does_not_reach_the_target_have_not_reached_it(tmp_path):
    done = eighth(tmp_path, "run", *RUN, "seed=1", "runs=2", "budget_samples=2000", "out=result", "data_dir=some data")
    assert done.returncode == 3, done.stderr
    rows = [re.findall(r"[^│ ]+", line)[:5] for line in done.stdout.splitlines() if line.startswith("│")]
    reached = [[line for line in lines(tmp_path / f"result/run_{i}") if line.key == "eval_accuracy"] for i in (1, 2)]
    quality = [f"{evaluations[-1].value:.4g}" for evaluations in reached]
    assert rows == [["1", "1", "budget", quality[0], "2,000"], ["2", "2", "target", quality[1], "2,000"]]
    assert "time to quality, mean of 2 runs: not known\n" in done.stdout
    assert "review    suite review result data_dir='some data'\n" in done.stdout


def test_what_a_run_built_is_let_go_of_before_the_next_builds(tmp_path, monkeypatch):
    """Though it holds itself, as what is compiled does, and though Python would not look yet."""
    build, built, alive = contract.build, [], []

    def holding_itself(*given):
        alive.append([each() for each in built if each()])
        made = build(*given)
        made.inner.itself = made.inner
        built.append(weakref.ref(made.inner))
        return made

    monkeypatch.setattr(contract, "build", holding_itself)
    monkeypatch.setattr(memory, "GROWN", -float("inf"))  # as on a GPU, always
    gc.disable()
    try:
        eighth(tmp_path, "run", *RUN, "runs=2", "out=result")
    finally:
        gc.enable()
    assert alive == [[], []]


def test_one_seed_gives_one_log_apart_from_times(tmp_path):
    def facts(name: str) -> list:
        eighth(tmp_path, "run", *RUN, "seed=7", f"out={name}")
        measured = {"suite_environment", "suite_energy", "suite_cost", "suite_config"}
        return [
            (
                line.key,
                line.value if line.key != "tracked_stats" else line.value["loss"],
                {k: v for k, v in line.metadata.items() if k != "prev"},
            )
            for line in lines(tmp_path / name)
            if line.key not in measured
        ]

    assert facts("a") == facts("b")
    assert (tmp_path / "a/predictions.jsonl").read_bytes() == (tmp_path / "b/predictions.jsonl").read_bytes()


def test_ctrl_c_ends_all_of_several_commands(tmp_path):
    process = start(tmp_path, "tests.eighth_task", "run", "-m", *SLOW, "out=of_1,of_2", "target=1")
    wait_for(tmp_path / "of_1", "eval_accuracy")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=FOREVER_S)
    assert process.returncode == 130
    assert not (tmp_path / "of_2").exists()


def test_a_full_disk_is_found_before_the_clock_starts(tmp_path):
    done = run(
        tmp_path,
        "tests.eighth_task",
        "run",
        *RUN,
        "out=evidence",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
    )
    assert done.returncode == 2
    assert re.search(
        r"^error: evidence: .*: the run needs \d+ MiB of room; mend that, then go on with resume=evidence mlflow=",
        done.stderr,
    )
    assert "run_start" not in keys(tmp_path / "evidence")
    assert eighth(tmp_path, "run", "resume=evidence", "mlflow=false").returncode == 0


def test_a_disk_that_is_full_before_the_run_begins_is_one_line_and_the_same_command_then_begins(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("suite.harness.head.write", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        done = eighth(tmp_path, "run", *RUN, "out=evidence")
    told = "error: evidence: No space left on device; mend that, then give the command again"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, told)
    assert eighth(tmp_path, "run", *RUN, "out=evidence").returncode == 0


def test_an_own_price_decides_the_cost(tmp_path):
    done = eighth(tmp_path, "run", *RUN, "seed=1", "out=evidence", "hw.price_per_hour=3600")
    assert done.returncode == 0, done.stderr
    log = {line.key: line for line in lines(tmp_path / "evidence")}
    seconds = (log["run_stop"].time_ms - log["run_start"].time_ms) / 1000
    assert np.isclose(log["suite_cost"].value, seconds)
    assert "price     3600 USD per hour: set by hand\n" in done.stdout


def test_a_diverged_run_ends_at_once_with_sealed_evidence(tmp_path):
    wild = ("hyperparameters.opt_base_learning_rate=1.0e+308", "division=open")
    done = eighth(tmp_path, "run", *RUN, "seed=1", "out=wild", *wild)
    assert done.returncode == 3, done.stderr
    stop = next(line for line in lines(tmp_path / "wild") if line.key == "run_stop")
    assert (stop.metadata["status"], stop.metadata["reason"]) == ("aborted", "diverged")
    assert stop.metadata["samples_count"] < 400
    assert "verdict   pass" in done.stdout, done.stdout


@pytest.mark.parametrize("name", ["ünï", "it's", "a b", "1_000", "a=b", "${seed}"])
def test_a_folder_may_have_any_name(tmp_path, name):
    done = eighth(tmp_path, "run", *RUN, "seed=1", f"out={name}", "submitter=Universität, Inc.")
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load((tmp_path / name / "config.yaml").read_text())["submitter"] == "Universität, Inc."
