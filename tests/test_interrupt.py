"""A run that Ctrl-C or SIGTERM ends: its evidence is sealed, and it can go on."""

import ctypes
import signal

import pytest

from suite.config.logkeys import INIT_LIMITS_MIN
from suite.harness import contract
from suite.record import evidence
from suite.record.evidence import OF_EACH_RUN
from suite.record.tracking import Tracker
from tests.command import ENVIRONMENT, eighth, start
from tests.parity_runs import RUN, SLOW, keys, lines, rules_broken, wait_for
from tests.waiting import FOREVER_S


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing ended but its target."""
    folder = tmp_path_factory.mktemp("interrupt")
    eighth(folder, "run", *SLOW, "out=whole")
    return folder / "whole"


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_seals_the_evidence_and_resume_goes_on_from_there(whole, tmp_path, number, code):
    process = start(tmp_path, "tests.eighth_task", "run", *SLOW, "out=cut")
    wait_for(tmp_path / "cut", "eval_accuracy")
    process.send_signal(number)
    said, _ = process.communicate(timeout=FOREVER_S)
    assert process.returncode == code
    assert said.endswith("go on     python -m suite.run resume=cut mlflow=false\n")
    stop = next(line for line in lines(tmp_path / "cut") if line.key == "run_stop")
    assert (stop.metadata["status"], stop.metadata["reason"]) == ("aborted", "interrupt")
    assert (tmp_path / "cut/manifest.json").exists()
    assert rules_broken(tmp_path, "cut") == rules_broken(whole.parent, "whole")

    done = eighth(tmp_path, "run", "resume=cut", "mlflow=false")
    assert done.returncode == 0, done.stderr
    log = lines(tmp_path / "cut")
    restart = next(line for line in log if line.key == "suite_restart")
    assert 0 < restart.metadata["samples_count"] <= stop.metadata["samples_count"]
    assert [line.metadata["reason"] for line in log if line.key == "run_stop"] == ["interrupt", "target"]
    assert rules_broken(tmp_path, "cut") == rules_broken(whole.parent, "whole")
    assert (tmp_path / "cut/predictions.jsonl").read_bytes() == (whole / "predictions.jsonl").read_bytes()
    assert {path.name for path in (tmp_path / "cut").iterdir()} == {*OF_EACH_RUN, "manifest.json"}


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENVIRONMENT, "PARITY_STALL_AT", "801")  # in the first step of the fourth block
        process = start(tmp_path, "tests.eighth_task", "run", *SLOW, "out=cut")
    read_until(process, "stalled\n")
    process.send_signal(signal.SIGTERM)
    read_until(process, "ending after this step, with sealed evidence; a second signal ends it at once\n")
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=FOREVER_S)
    assert process.returncode == 143
    assert "ending after this step" not in errors
    assert not (tmp_path / "cut/manifest.json").exists()
    assert eighth(tmp_path, "run", "resume=cut", "mlflow=false").returncode == 0


def read_until(process, end):
    """Read what it complains of, up to a line of this end."""
    while not (line := process.stderr.readline()).endswith(end):
        assert line


def test_a_signal_that_a_framework_took_while_it_was_built_is_heard_and_the_run_goes_on(tmp_path, monkeypatch):
    """As JAX's `distributed.initialize` takes SIGTERM, past Python."""
    build = contract.build

    def taking(*arguments):
        ctypes.CDLL(None).signal(signal.SIGTERM, ctypes.c_void_p(signal.SIG_IGN))
        made = build(*arguments)
        train = made.train_until
        made.train_until = lambda samples: (train(samples), signal.raise_signal(signal.SIGTERM))[0]
        return made

    with monkeypatch.context() as patch:
        patch.setattr(contract, "build", taking)
        assert eighth(tmp_path, "run", *RUN, "seed=1", "out=cut").returncode == 143
    assert (tmp_path / "cut/manifest.json").exists()
    assert (tmp_path / "cut/checkpoint.npz").exists()
    began = []

    def watched(*arguments):
        made = build(*arguments)
        train = made.train_until
        made.train_until = lambda samples: (began.append(int(made.state_dict()["samples"])), train(samples))[1]
        return made

    monkeypatch.setattr(contract, "build", watched)
    done = eighth(tmp_path, "run", "resume=cut", "mlflow=false")
    assert done.returncode == 0, done.stderr
    for measured in ("suite_energy", "suite_cost"):
        assert keys(tmp_path / "cut").count(measured) == 2  # of the time until each end
    assert rules_broken(tmp_path, "cut") == set()
    (restart,) = (line.metadata["samples_count"] for line in lines(tmp_path / "cut") if line.key == "suite_restart")
    assert began[0] == restart > 0
    assert {path.name for path in (tmp_path / "cut").iterdir()} == {*OF_EACH_RUN, "manifest.json"}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_the_wait_for_mlflow_ends_only_the_wait(tmp_path, monkeypatch, number, code):
    for name in ("start", "wait_ready"):
        monkeypatch.setattr(Tracker, name, lambda *_: None)
    monkeypatch.setattr(Tracker, "finish", lambda *_: signal.raise_signal(number))
    words = [word for word in RUN if word != "mlflow=false"]
    done = eighth(tmp_path, "run", *words, "seed=1", "out=out")
    assert done.returncode == code
    assert f"MLflow is behind; fill it in with: python -m suite.sync {tmp_path}/out\n" in done.stdout
    assert "verdict   pass" in done.stdout
    assert "go on" not in done.stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_attempts_that_a_signal_ends_before_the_clock_runs_stay_in_the_log(tmp_path, number, code):
    def build(*arguments):
        signal.raise_signal(number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contract, "build", build)
        for words in ((*RUN, "seed=1", "out=cut"), ("resume=cut", "mlflow=false")):
            ended = eighth(tmp_path, "run", *words, "data_dir=some data")
            assert ended.returncode == code
            assert ended.stdout.endswith("go on     python -m suite.run resume=cut data_dir='some data' mlflow=false\n")
    done = eighth(tmp_path, "run", "resume=cut", "mlflow=false")
    assert done.returncode == 0, done.stderr
    assert "s were lost and count as initialisation\n" in done.stdout
    assert "run 1: 2 aborted starts, whose time counts as initialisation\n" in done.stdout
    assert "verdict   pass" in done.stdout
    assert [keys(tmp_path / "cut").count(key) for key in ("init_start", "seed", "run_start")] == [1, 1, 1]


def test_an_attempt_that_could_not_begin_in_time_any_more_is_one_line(tmp_path, monkeypatch):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contract, "build", lambda *given: signal.raise_signal(signal.SIGINT))
        eighth(tmp_path, "run", *RUN, "seed=1", "out=cut")
    monkeypatch.setitem(INIT_LIMITS_MIN, "closed", 0)
    done = eighth(tmp_path, "run", "resume=cut", "mlflow=false")
    assert done.returncode == 2
    assert (
        "cut: its initialisation was begun 0 minutes ago and never ended, and timing.2 allows 0: begin a new"
        in done.stderr
    )
    assert "suite_restart" not in keys(tmp_path / "cut")


@pytest.mark.parametrize("runs", [1, 2])
def test_a_signal_as_a_run_is_sealed_says_go_on_if_another_is_to_come(tmp_path, monkeypatch, runs):
    seal = evidence.seal
    monkeypatch.setattr(evidence, "seal", lambda *given: (signal.raise_signal(signal.SIGINT), seal(*given)))
    ended = eighth(tmp_path, "run", *RUN, "seed=1", f"runs={runs}", "out=out")
    assert ended.returncode == 130
    assert ("go on     python -m suite.run resume=out" in ended.stdout) == (runs == 2)


def test_a_signal_that_ends_several_commands_is_their_exit_code(tmp_path, monkeypatch):
    seal = evidence.seal
    monkeypatch.setattr(evidence, "seal", lambda *given: (signal.raise_signal(signal.SIGINT), seal(*given)))
    words = [word for word in RUN if not word.startswith("hw=")]
    assert eighth(tmp_path, "run", "-m", *words, "hw=toaster,cpu", "out=of_${hw}").returncode == 130
