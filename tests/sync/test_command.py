"""`python -m suite.sync`: evidence comes into MLflow, once and only once, whatever happens in between."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlperf_logging.mllog import constants as keys

from suite import sync
from suite.errors import UserError
from suite.record import evidence
from suite.record.mirror import Mirror
from suite.record.tracking_server import BehindError
from tests.record.example_run import ExampleRun
from tests.record.mlflow_content import content
from tests.sync.conftest import start
from tests.waiting import FOREVER_S


def test_a_run_comes_in_once_with_everything_that_was_measured_and_nothing_else(tmp_path: Path, uri: str) -> None:
    run = ExampleRun(tmp_path / "out").complete(blocks=3)
    before = {path.name: path.read_bytes() for path in run.folder.iterdir()}

    assert sync.main([str(run.folder)]) == 0
    (found,) = content(uri)
    assert sync.main([str(run.folder)]) == 0
    assert content(uri) == [found]

    start_ms = 1_700_000_000_000
    points = found["points"]
    assert points["accuracy"] == [
        (100, start_ms + 10_000, 0.5),
        (200, start_ms + 20_000, 0.6),
        (300, start_ms + 30_000, 0.7),
    ]
    assert [point[0] for point in points["accuracy_by_seconds"]] == [10, 20, 30]
    assert points["time_to_quality_s"] == [(300, start_ms + 30_000, 30.0)]
    assert points["samples_to_quality"][0][2] == 300
    assert points["energy_joules_estimated"][0][2] == 300.0
    assert [point[2] for point in points["system/utilisation"]] == [0.5] * 3
    assert [point[2] for point in points["system/cpu_w"]] == [10.0] * 3
    assert set(points) == {
        "accuracy", "accuracy_by_seconds", "top5", "train_loss", "samples_per_second", "time_to_quality_s",
        "samples_to_quality", "energy_joules_estimated", "system/utilisation", "system/cpu_w",
    }  # fmt: skip
    assert found["params"]["benchmark.hyperparameters.learning_rate"] == "0.1"
    assert "benchmark.reference" not in found["params"]
    expected = {
        "suite.run_id": run.run_id, "benchmark": "toy/mini", "task": "toy", "scale": "mini", "framework": "torch",
        "system": "cpu", "division": "closed", "git_revision": "abc", "git_dirty": "false", "status": "success",
        "noisy": "true", "energy_source": "estimated", "seed": "1",
    }  # fmt: skip
    assert expected.items() <= found["tags"].items()
    assert (found["status"], found["times"]) == ("FINISHED", (start_ms, start_ms + 30_000))
    assert found["artifacts"] == sorted(f"evidence/{name}" for name in before)
    assert {path.name: path.read_bytes() for path in run.folder.iterdir()} == before


@pytest.mark.slow
def test_by_default_a_database_in_the_working_folder_and_one_line_of_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    (tmp_path / "mlflow.db").unlink()
    process = start(ExampleRun(tmp_path / "out").complete().folder)
    out, err = process.communicate(timeout=FOREVER_S)
    assert (process.returncode, err, out.count("\n")) == (0, "", 1)
    assert "1 run, " in out
    assert len(content(f"sqlite:///{tmp_path}/mlflow.db")) == 1


def test_the_runs_of_a_result_lie_under_one_parent_with_their_olympic_mean(tmp_path: Path, uri: str) -> None:
    runs = [ExampleRun(tmp_path / "out" / f"run_{i}", i, 4, "cafe") for i in (1, 2, 3, 4)]
    for run, blocks in zip(runs[:3], (1, 2, 4), strict=True):
        run.complete(blocks)
    assert sync.main([str(tmp_path / "out")]) == 0
    *_, parent = content(uri)
    assert parent["status"] == "RUNNING"
    assert "time_to_quality_s" not in parent["points"]

    runs[3].complete(blocks=9, reason="budget")
    for _ in range(2):
        assert sync.main([str(tmp_path / "out")]) == 0
    *children, parent = content(uri)
    assert [child["tags"]["suite.run_id"] for child in children] == [f"cafe-{i}" for i in (1, 2, 3, 4)]
    assert {child["tags"]["mlflow.parentRunId"] for child in children} == {parent["id"]}
    assert [child["status"] for child in children] == ["FINISHED", "FINISHED", "FINISHED", "FAILED"]
    assert parent["params"] == {"runs": "4"}
    assert parent["status"] == "FINISHED"
    assert [point[2] for point in parent["points"]["time_to_quality_s"]] == [30.0]  # 20 and 40; 10 is the fastest
    assert "seed" not in parent["tags"]


@pytest.mark.slow
def test_an_attempt_that_broke_off_half_way_is_completed(
    tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch, empty_database: Path
) -> None:
    whole = ExampleRun(tmp_path / "whole", result_id="cafe").complete(blocks=1200)
    assert sync.main([str(whole.folder)]) == 0
    (expected,) = content(uri)

    monkeypatch.setenv("MLFLOW_TRACKING_URI", other := f"sqlite:///{tmp_path}/other.db")
    shutil.copy(empty_database, tmp_path / "other.db")
    with monkeypatch.context() as patch:
        for name in ("create_run", "log_batch", "log_artifact", "set_terminated"):
            patch.setattr(MlflowClient, name, _dying(getattr(MlflowClient, name)))
        for _ in range(12):  # each attempt gets one request further
            assert sync.main([str(whole.folder)]) == 1
    assert sync.main([str(whole.folder)]) == 0
    (found,) = content(other)
    assert {k: v for k, v in found.items() if k != "id"} == {k: v for k, v in expected.items() if k != "id"}


def _dying(call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, which is still carried out, but not answered."""

    def dying(*arguments: Any, **options: Any) -> Any:
        call(*arguments, **options)
        raise ConnectionError("gone")

    return dying


@pytest.mark.slow
def test_some_at_the_same_time_make_no_table_and_no_run_twice(tmp_path: Path, uri: str) -> None:
    (tmp_path / "mlflow.db").unlink()
    for index in (1, 2):
        ExampleRun(tmp_path / "out" / f"run_{index}", index, 2, "cafe").complete()
    processes = [start(tmp_path / "out") for _ in range(3)]
    assert [process.wait(FOREVER_S) for process in processes] == [0, 0, 0], [
        p.stderr.read() for p in processes if p.stderr
    ]
    assert len(content(uri)) == 3


def test_one_process_at_a_time_works_on_a_run(tmp_path: Path, uri: str) -> None:
    run = ExampleRun(tmp_path / "out").begin().block(0.5)
    first, second = Mirror(run.folder), Mirror(run.folder)
    first.update()
    with pytest.raises(BehindError, match="another process"):
        second.update()
    run.block(0.6)
    first.update()
    first.close()
    second.update()
    second.close()
    assert (first.sent, second.sent) == (10, 0)


def test_a_run_that_is_sealed_during_an_update_ends_with_the_next(
    tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ExampleRun(tmp_path / "out").begin().block(0.5)
    mirror, log_batch = Mirror(run.folder), MlflowClient.log_batch

    def ending(*arguments: Any, **options: Any) -> None:
        log_batch(*arguments, **options)
        if not mirror.view.sealed:
            run.block(0.9).end().seal()

    monkeypatch.setattr(MlflowClient, "log_batch", ending)
    mirror.update()
    (meanwhile,) = content(uri)
    mirror.update()
    mirror.close()
    (ended,) = content(uri)
    assert (meanwhile["status"], meanwhile["artifacts"]) == ("RUNNING", [])
    assert (ended["status"], len(ended["artifacts"])) == ("FINISHED", 6)
    assert [point[2] for point in ended["points"]["time_to_quality_s"]] == [20.0]


def test_a_spare_run_that_a_slow_server_made_is_removed(tmp_path: Path, uri: str) -> None:
    run = ExampleRun(tmp_path / "out").complete()
    assert sync.main([str(run.folder)]) == 0
    (found,) = content(uri)
    client = MlflowClient(uri)
    experiment = client.get_run(found["id"]).info.experiment_id
    client.create_run(experiment, tags={"suite.run_id": run.run_id})
    assert sync.main([str(run.folder)]) == 0
    assert content(uri) == [found]


def test_a_file_store_that_keeps_duplicates_gets_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store := str(tmp_path / "store"))
    run = ExampleRun(tmp_path / "out").complete()
    for _ in range(2):
        assert sync.main([str(run.folder)]) == 0
    (found,) = content(store)
    assert len(found["points"]["accuracy"]) == 3


def test_the_experiment_is_the_benchmark_or_the_one_that_is_named(
    tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync.main([str(ExampleRun(tmp_path / "one").complete().folder)])
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    sync.main([str(ExampleRun(tmp_path / "two").complete().folder)])
    client = MlflowClient(uri)
    for name in ("toy/mini", "mine"):
        experiment = client.get_experiment_by_name(name)
        assert experiment is not None
        assert len(client.search_runs([experiment.experiment_id])) == 1


@pytest.mark.parametrize(("benchmark", "named"), [("b" * 490, "b" * 250), ("", "unknown")])
def test_names_are_such_as_every_store_takes(tmp_path: Path, uri: str, benchmark: str, named: str) -> None:
    run = ExampleRun(tmp_path / "out")
    run.begin().log.event(keys.SUBMISSION_BENCHMARK, benchmark)
    assert sync.main([str(run.folder)]) == 0
    assert MlflowClient(uri).get_experiment_by_name(named)
    assert len(content(uri)[0]["name"]) <= 250


def test_a_run_without_run_start_is_nothing_yet(tmp_path: Path, uri: str) -> None:
    run = ExampleRun(tmp_path / "out")
    run.log.event("suite_config", "0", run_id="a-1", result_id="a", run_index=1, runs=1)
    assert sync.main([str(run.folder)]) == 0
    assert content(uri) == []


@pytest.mark.parametrize("content", [None, b"", b"hello\n", b':::MLLOG {"key": 1}\n'])
def test_a_folder_that_is_no_evidence_is_the_users_mistake(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / evidence.LOG).write_bytes(content)
    with pytest.raises(UserError, match=r"log\.txt"):
        sync.main([str(tmp_path)])


@pytest.mark.parametrize("odd", ["pipe", "link"])
def test_a_manifest_that_is_no_plain_file_seals_nothing(tmp_path: Path, uri: str, odd: str) -> None:
    run = ExampleRun(tmp_path / "out").complete()
    manifest = (run.folder / evidence.MANIFEST).rename(tmp_path / "manifest")
    if odd == "pipe":
        os.mkfifo(run.folder / evidence.MANIFEST)
    else:
        (run.folder / evidence.MANIFEST).symlink_to(manifest)
    assert sync.main([str(run.folder)]) == 0
    (found,) = content(uri)
    assert (found["status"], found["artifacts"]) == ("RUNNING", [])


def test_a_run_that_is_interrupted_again_ends_then(tmp_path: Path, uri: str) -> None:
    run = ExampleRun(tmp_path / "out").begin().block(0.5).end("interrupt").seal()
    assert sync.main([str(run.folder)]) == 0
    (first,) = content(uri)
    run.go_on().block(0.6).end("interrupt").seal()
    assert sync.main([str(run.folder)]) == 0
    (again,) = content(uri)
    assert first["status"] == again["status"] == "KILLED"
    assert (first["times"][1], again["times"][1]) == (1_700_000_010_000, 1_700_000_030_000)


def test_an_older_copy_of_a_run_that_has_ended_changes_nothing(tmp_path: Path, uri: str) -> None:
    run = ExampleRun(tmp_path / "out").begin().block(0.5)
    older = shutil.copytree(run.folder, tmp_path / "older")
    run.block(0.6).end().seal()
    assert sync.main([str(run.folder)]) == 0
    (found,) = content(uri)
    assert sync.main([str(older)]) == 0
    assert content(uri) == [found]


def test_a_run_that_goes_on_is_running_again(tmp_path: Path, uri: str) -> None:
    run = ExampleRun(tmp_path / "out").begin().block(0.5).end("interrupt").seal()
    assert sync.main([str(run.folder)]) == 0
    run.go_on().block(0.6)
    assert sync.main([str(run.folder)]) == 0
    (found,) = content(uri)
    assert (found["status"], len(found["points"]["accuracy"])) == ("RUNNING", 2)


def test_evidence_that_was_sealed_anew_replaces_what_is_there(tmp_path: Path, uri: str) -> None:
    """As of a run that was interrupted and has gone on, whose files may be as long as they were."""
    run = ExampleRun(tmp_path / "out").complete()
    assert sync.main([str(run.folder)]) == 0
    power = run.folder / evidence.POWER
    power.write_bytes(changed := power.read_bytes()[:-2] + b"9\n")
    head = json.loads((run.folder / evidence.MANIFEST).read_bytes())["log_head"]
    evidence.seal(run.folder, head)
    assert sync.main([str(run.folder)]) == 0
    (found,) = MlflowClient(uri).search_runs(["1"])
    place = MlflowClient(uri).download_artifacts(found.info.run_id, f"evidence/{evidence.POWER}", str(tmp_path))
    assert Path(place).read_bytes() == changed
