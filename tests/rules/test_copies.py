"""Copies of a run are found under other names, seeds and times; runs that were really made are not taken for copies."""

import shutil
from pathlib import Path

import pytest
from mlperf_logging.mllog import constants as keys

from suite.rules.seals import SEAL
from suite.rules.verdict import review
from suite.store.arrays import prepared
from tests.rules.editor import Evidence
from tests.rules.evidence_maker import write_result, write_run
from tests.rules.mutants.copies import copied, copied_losses, tracked
from tests.rules.mutants.registry import index_of
from tests.rules.subject import BENCHMARK


def copies(folder):
    return [f.file for f in review(folder).findings if f.rule == "runs.8"]


def test_names_the_copy_and_what_it_shares(result):
    copied(result, lambda records: None)
    (finding,) = [f for f in review(result).findings if f.rule == "runs.8"]
    assert finding.file == "run_5/log.txt"
    assert finding.found == "the losses, throughputs, times between its lines of run_1/log.txt"


def test_a_copy_in_another_result_of_the_package_is_found(tmp_path):
    """Of results in no package both are named: whose each is, nothing tells."""
    write_result(tmp_path / "one", 3)
    write_result(tmp_path / "two", 3, seed=200)
    assert copies(tmp_path) == []
    shutil.copytree(tmp_path / "one" / "run_2", tmp_path / "two" / "run_2", dirs_exist_ok=True)
    found = [(f.file, f.severity) for f in review(tmp_path).findings if f.rule == "runs.8"]
    assert found == [("two/run_2/log.txt", "error"), ("one/run_2/log.txt", "error")]
    (tmp_path / SEAL).write_text("{}")
    assert copies(tmp_path) == ["two/run_2/log.txt"]


def test_a_copy_of_another_submitter_s_names_both(tmp_path):
    """Whose it was no review can tell, nor does the order of their folders."""
    for name, seed in (("one", 0), ("two", 200)):
        _, second = write_result(tmp_path / name, 2, seed=seed)
    copied = Path(shutil.copytree(tmp_path / "one" / "run_2", tmp_path / "two" / "run_2", dirs_exist_ok=True))
    Evidence(copied).edit("submission_org", lambda record: record.update(value="rival"))
    Evidence(copied).edit("seed", lambda record: record.update(value=999))
    assert second.folder == copied
    found = [(f.file, f.severity) for f in review(tmp_path).findings if f.rule == "runs.8"]
    assert sorted(found) == [("one/run_2/log.txt", "error"), ("two/run_2/log.txt", "error")]


def test_losses_that_are_all_alike_are_no_copy(tmp_path):
    for run in write_result(tmp_path, 2):
        records = run.records()
        for value in tracked(records):
            value["loss"] = 0.5
        run.write(records)
    assert copies(tmp_path) == []


def test_one_seed_in_two_frameworks_may_give_one_curve(tmp_path):
    first = write_run(tmp_path / "torch" / "run_1", seed=7)
    losses = [r["value"]["loss"] for r in first.records() if r["key"] == "tracked_stats"]
    second = write_run(tmp_path / "tensorflow" / "run_1", index=2, runs=2, seed=6)

    def change(records):
        for record, loss in zip((r for r in records if r["key"] == "tracked_stats"), losses, strict=True):
            record["value"]["loss"] = loss

    second.edit_log(change)
    assert copies(tmp_path) == []


def test_one_seed_of_two_submitters_that_gives_one_curve_is_told(tmp_path):
    """As where a stranger's runs are handed in at half their times: a review cannot tell who trained."""
    write_run(tmp_path / "one" / "run_1", seed=7)
    second = Evidence(Path(shutil.copytree(tmp_path / "one", tmp_path / "two")) / "run_1")
    second.squeeze(2)
    assert copies(tmp_path) == []
    second.edit("submission_org", lambda record: record.update(value="rival"))
    (finding,) = [f for f in review(tmp_path).findings if f.rule == "runs.8"]
    assert (finding.file, finding.severity) == ("two/run_1/log.txt", "note")
    assert finding.found == "the losses of one/run_1/log.txt"


@pytest.fixture
def submittable(monkeypatch):
    monkeypatch.setattr("suite.config.benchmark", lambda task, scale: BENCHMARK.model_copy(update={"scale": "small"}))
    monkeypatch.setattr("suite.rules.quality.prepared_to_score", lambda b, task, data_dir: prepared(BENCHMARK, task))


def test_two_seeds_do_not_predict_alike(tmp_path, submittable):
    first, second = write_result(tmp_path, 2)
    assert copies(tmp_path) == []
    lines = (first.folder / "predictions.jsonl").read_text().splitlines()
    second.edit_predictions([int(line) for line in lines])
    assert copies(tmp_path) == ["run_2/log.txt"]
    second.edit("seed", lambda record: record.update(value=100))
    assert copies(tmp_path) == []


def test_a_few_predictions_may_agree_by_chance(tmp_path, submittable, monkeypatch):
    first, second = write_result(tmp_path, 2)
    second.edit_predictions([int(line) for line in (first.folder / "predictions.jsonl").read_text().splitlines()])
    size = (first.folder / "predictions.jsonl").stat().st_size
    for few, found in ((size, []), (size - 1, ["run_2/log.txt"])):
        monkeypatch.setattr("suite.rules.copies.FEW_BYTES", few)
        assert copies(tmp_path) == found


@pytest.mark.parametrize("spelling", ["100", "0100", 100.0, "1e2", " 100 "])
def test_one_seed_spelled_otherwise_is_no_seed(spelling, result):
    Evidence(result / "run_5").edit("seed", lambda record: record.update(value=spelling))
    assert "runs.2" in {f.rule for f in review(result).findings}


@pytest.mark.parametrize(("others", "found"), [((0,), ["run_5/log.txt"]), ((0, 3), [])])
def test_a_copy_agrees_in_most_of_its_values(others, found, result):
    """One in five may differ; they are six."""
    copied_losses(result, lambda at: 2 if at in others else 1)
    assert copies(result) == found


def test_values_that_may_differ_are_counted_in_the_shorter_run(tmp_path):
    first, second = (write_run(tmp_path / f"run_{at}", at, 2, evaluations=each) for at, each in ((1, 3), (2, 7)))
    losses = [value["loss"] for value in tracked(first.records())]

    def change(records):
        for at, (value, loss) in enumerate(zip(tracked(records), losses, strict=False)):
            value["loss"] = 2 * loss if at in (0, 3) else loss

    second.edit_log(change)
    assert copies(tmp_path) == []


def test_times_that_are_even_in_each_run_are_no_copy(tmp_path):
    """As on a quiet machine, where a step takes as long with any seed."""
    for run in write_result(tmp_path, 2):
        records = run.records()
        at = index_of(records, keys.RUN_START)
        for place, record in enumerate(records[at:]):
            record["time_ms"] = records[at]["time_ms"] + 1000 * place + place**2 % 11
        run.write(records)
    assert copies(tmp_path) == []


def test_times_that_a_schedule_makes_longer_in_each_run_are_no_copy(tmp_path):
    """As on a GPU, where a step on larger images takes longer with any seed."""
    for number, run in enumerate(write_result(tmp_path, 2, evaluations=14)):
        records = run.records()
        at = index_of(records, keys.RUN_START)
        time_ms = records[at]["time_ms"]
        for place, record in enumerate(records[at + 1 :]):
            time_ms += 100 * (1 + place // 24) + (number + place**2) % 3
            record["time_ms"] = time_ms
        run.write(records)
    assert copies(tmp_path) == []
