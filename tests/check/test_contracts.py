"""Each mistake that a task's author can make is one line, of the run and of the check, that names the contract."""

import hashlib
import json
import shutil
import sys

import pytest
import yaml

from suite import config
from suite.check import untouched
from suite.check.__main__ import main as check
from suite.config import folder
from suite.errors import BrokenContract, UserError
from suite.harness.declared import by_reference
from suite.record import mllog
from suite.review.__main__ import main as review
from suite.run.__main__ import main as run
from suite.store.arrays import array_sha256
from tests.eighth_task import NUMPY
from tests.eighth_task.not_kept import NOT_KEPT
from tests.eighth_task.spoiling import IMPLEMENTATION, TASK, declaring, having
from tests.eighth_task.told import REFUSED, TOLD

RUN = ["task=parity", "framework=numpy", "hw=cpu", "mlflow=false", "seed=1", "out=evidence"]
CHECK = ["task=parity", "framework=numpy", "--json"]
BY_A_PROMISE = {  # where the check says it otherwise
    "wrong train_samples": "train_samples 999 than the data has",
    "wrong eval_samples": "eval_samples 10 than the data has",
}


def checked(capsys, *words):
    """Exit code and rows of a check of the eighth task."""
    code = check([*CHECK, *words])
    return code, json.loads(capsys.readouterr().out)


def failures(rows):
    return [row for row in rows if row["status"] == "fail"]


def test_the_eighth_task_keeps_all_promises(parity, capsys):
    code, rows = checked(capsys)
    assert code == 0
    assert {row["status"] for row in rows} == {"pass"}
    promises = {promise for _, promise, _ in NOT_KEPT.values()}
    assert promises - {row["promise"] for row in rows} == {"a run's evaluation arrays are those of its seed"}


@pytest.mark.parametrize("mistake", TOLD)
def test_a_run_tells_a_mistake_in_one_line_and_keeps_what_it_recorded(mistake, parity, capsys, tmp_path):
    spoil, said = TOLD[mistake]
    spoil(parity)
    try:
        code = run(RUN)
        error = capsys.readouterr().err
    except UserError as raised:
        code, error = 2, f"error: {raised}\n"
    assert code == 2
    assert said in error
    assert error.count("\n") == 1
    assert len(error) < 900
    log = tmp_path / "evidence/log.txt"
    if log.exists():
        lines = list(mllog.read(log))
        assert lines
        assert not any(line.problem for line in lines)
        assert "then go on with resume=evidence" in error


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_run_whose_predictions_are_refused_fails_with_its_evidence(mistake, parity, capsys, tmp_path):
    spoil, said = REFUSED[mistake]
    spoil(parity)
    assert run(RUN) == 3
    shown = " ".join(capsys.readouterr().out.split())
    assert f"score refuses what predict returned: {said}" in shown
    assert "verdict pass" in shown
    lines = {line.key: line for line in mllog.read(tmp_path / "evidence/log.txt")}
    assert (lines["eval_accuracy"].value, lines["eval_accuracy"].metadata["refused"]) == (None, said)
    assert (lines["run_stop"].metadata["status"], lines["run_stop"].metadata["reason"]) == ("aborted", "refused")
    predictions = (tmp_path / "evidence/predictions.jsonl").read_bytes()
    assert lines["eval_accuracy"].metadata["predictions_sha256"] == hashlib.sha256(predictions).hexdigest()
    assert review(["evidence"]) == 0


@pytest.mark.parametrize("mistake", [*TOLD, *REFUSED])
def test_a_check_tells_it_too(mistake, parity, capsys):
    spoil, said = {**TOLD, **REFUSED}[mistake]
    spoil(parity)
    code, rows = checked(capsys)
    assert code == 1
    told = [f"{row['found']}. The contract: {row['contract']}" for row in failures(rows)]
    assert any(BY_A_PROMISE.get(mistake, said) in each for each in told), told


@pytest.mark.parametrize("mistake", NOT_KEPT)
def test_a_check_finds_what_a_run_cannot_see(mistake, parity, capsys):
    spoil, promise, found = NOT_KEPT[mistake]
    spoil(parity)
    code, rows = checked(capsys)
    assert code == 1
    row = next(row for row in failures(rows) if row["promise"] == promise)
    assert found in row["found"]
    assert row["contract"]


IN_A_SECOND_FRAMEWORK = {  # what is another there, the promises that it breaks, and what is found
    "form": (
        ("np.array(self.samples)", "np.array(self.samples, np.int32)"),
        {
            "both have the same names, shapes and dtypes in their states": "'samples' is int64 [] in numpy and int32",
            "both start from the same parameters": "their states have different forms",
            "both score the same": "their states have different forms",
            "both take the same step": "their states have different forms",
        },
    ),
    "start": (
        ("normal(size=2)", "normal(size=2) + 1"),
        {"both start from the same parameters": "seed 1 starts from another 'weights' in numpy than in twin"},
    ),
    "predictions": (
        ("[int(side) for side", "[1 for side"),
        {"both score the same with the same weights": "from the same state; at most 0.01 apart are allowed"},
    ),
    "step": (
        ('["opt_base_learning_rate"] *', '["opt_base_learning_rate"] * 1.5 *'),
        {"both take the same step from the same weights": "a step from the same state takes 'weights' 0.00"},
    ),
}


@pytest.mark.parametrize("other", IN_A_SECOND_FRAMEWORK)
def test_two_frameworks_are_held_to_one_recipe(other, parity, capsys, tmp_path):
    (true, spoilt), broken = IN_A_SECOND_FRAMEWORK[other]
    (tmp_path / "parity").mkdir()
    (tmp_path / "parity/twin.py").write_text(NUMPY.read_text().replace(true, spoilt))
    parity.setattr("reference_impls.parity.__path__", [str(NUMPY.parent), str(tmp_path / "parity")])
    parity.delitem(sys.modules, "reference_impls.parity.twin", raising=False)
    shutil.copy(folder.CONF / "framework/numpy.yaml", folder.CONF / "framework/twin.yaml")
    code, rows = check(["task=parity", "--json"]), json.loads(capsys.readouterr().out)
    together = {row["promise"]: row for row in rows if row["framework"] == "numpy and twin"}
    assert code == 1
    assert {promise for promise, row in together.items() if row["status"] != "pass"} == broken.keys()
    assert all(found in together[promise]["found"] for promise, found in broken.items())


def test_no_second_implementation_takes_over_a_state_where_none_was_built(parity, capsys):
    def twice(true):  # one that is tried, and one that shows whether it reads the training data
        built = iter((true, true))
        return lambda *given: next(built)(*given)

    having(IMPLEMENTATION, build=twice)(parity)
    _, rows = checked(capsys)
    took_over = next(row for row in rows if row["promise"].startswith("a second implementation takes over"))
    assert (took_over["status"], took_over["found"]) == ("skipped", "no second implementation was built")


def test_a_run_that_was_stopped_by_a_mistake_goes_on_once_it_is_mended(parity, capsys, tmp_path):
    with parity.context() as patch:
        TOLD["score lacks the metric"][0](patch)
        with pytest.raises(UserError, match="then go on with resume=evidence"):
            run(RUN)
    before = (tmp_path / "evidence/log.txt").read_bytes()
    assert run(["resume=evidence", "mlflow=false"]) == 0
    assert (tmp_path / "evidence/log.txt").read_bytes().startswith(before)


@pytest.mark.parametrize(
    ("source", "most"),
    [("ACCELERATORS = 4", 4), ("ACCELERATORS: int = 4", 4), ("ACCELERATORS = max(1, 4)", None), ("MOST = 4", None)],
)
def test_accelerators_are_read_without_an_import(source, most, parity, tmp_path):
    (tmp_path / "parity").mkdir()
    (tmp_path / "parity" / "own.py").write_text(f"import nothing_of_that_name\n{source}\n")
    parity.setattr("reference_impls.parity.__path__", [str(tmp_path / "parity")])
    shutil.copy(folder.CONF / "framework" / "numpy.yaml", folder.CONF / "framework" / "own.yaml")
    framework = config.framework("own")
    if most:
        assert by_reference("parity", framework).accelerators == most
    else:
        with pytest.raises(BrokenContract, match=r"parity\.own has no ACCELERATORS, or none that is a plain number"):
            by_reference("parity", framework)


def test_a_number_needs_no_dot_before_its_exponent(parity):
    """PyYAML takes 5e-2 for text, which would reach `build`."""
    file = folder.CONF / "task/parity.yaml"
    file.write_text(file.read_text().replace("learning_rate: 0.05", "learning_rate: 5e-2"))
    folder.load.cache_clear()
    assert config.benchmark("parity", "mini").hyperparameters["opt_base_learning_rate"] == 0.05


def test_of_corrupt_files_no_sums_are_told(parity, capsys, tmp_path):
    file = {"path": "points", "bytes": 4, "sha256": "0" * 64}
    declaring(lambda scale: scale["dataset"].update(files=[file], arrays={}))(parity)
    (tmp_path / "points").write_bytes(b"none")
    _, rows = checked(capsys, f"data_dir={tmp_path}")
    (row,) = failures(rows)
    assert (row["promise"], row["mend"]) == ("prepare returns the benchmark's arrays", "")
    assert "points is corrupt: found 4 bytes" in row["found"]


def test_what_build_takes_from_the_data_is_found_where_no_read_is_counted(parity, capsys, tmp_path):
    """As on macOS."""

    def from_data(true):
        def build(hyperparameters, data, seed, device):
            made = true(hyperparameters, data, seed, device)
            made.weights = data["train_points"].mean(axis=0)
            return made

        return build

    parity.setattr(untouched, "SMAPS", tmp_path / "none")
    having(IMPLEMENTATION, build=from_data)(parity)
    _, rows = checked(capsys)
    (row,) = failures([each for each in rows if each["promise"] == "build reads no training data"])
    assert row["found"] == "with zeros for training data, build starts from another 'weights'"


def test_a_metric_may_be_unknown_each_time(parity, capsys):
    metrics = {"accuracy": (0.0, 1.0), "recall": (0.0, 1.0)}
    having(TASK, METRICS=metrics, score=lambda true: lambda *given: {**true(*given), "recall": float("nan")})(parity)
    code, rows = checked(capsys)
    assert (code, failures(rows)) == (0, [])


def test_of_all_scales_one_whose_data_is_not_here_is_skipped(parity, capsys):
    path = folder.CONF / "task/parity.yaml"
    values = yaml.safe_load(path.read_text())
    files = [{"path": "points", "bytes": 4, "sha256": "0" * 64}]
    mini = values["scales"]["mini"]
    values["scales"]["small"] = {**mini, "dataset": {**mini["dataset"], "files": files}}
    path.write_text(yaml.safe_dump(values))
    folder.load.cache_clear()
    code, rows = checked(capsys)
    assert code == 0
    (skipped,) = [row for row in rows if row["status"] != "pass"]
    assert {row["benchmark"] for row in rows} == {"parity/mini", "parity/small"}
    assert (skipped["benchmark"], skipped["status"]) == ("parity/small", "skipped")
    assert "points is missing" in skipped["found"]
    with pytest.raises(UserError, match=r"points is missing.*python -m suite\.data fetch parity/small"):
        check([*CHECK, "scale=small"])


def test_a_task_that_is_written_in_no_framework_is_told(parity, capsys):
    for name in ("ghost", "numpy"):
        (folder.CONF / f"framework/{name}.yaml").unlink()
    assert check(["task=parity", "--json"]) == 1
    (row,) = failures(json.loads(capsys.readouterr().out))
    assert row["promise"] == "the task is written in a framework"


def test_the_missing_yaml_can_be_pasted(parity, capsys):
    from tasks import parity as task

    NOT_KEPT["the sums are missing"][0](parity)
    NOT_KEPT["a size is missing"][0](parity)
    _, rows = checked(capsys)
    (mend,) = (row["mend"] for row in failures(rows))
    arrays = {name: array_sha256(array) for name, array in task.prepare("mini", None).items()}
    dataset = {"train_samples": 1000, "eval_samples": 1000, "arrays": arrays}
    assert yaml.safe_load(mend) == {"scales": {"mini": {"dataset": dataset}}}


@pytest.mark.parametrize("mistake", ["misspelt metric", "score lacks the metric"])
def test_a_review_says_that_the_task_lacks_the_metric(mistake, parity, capsys):
    assert run(RUN) == 0
    capsys.readouterr()
    spoil, said = TOLD[mistake]
    spoil(parity)
    assert review(["evidence"]) != 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "quality.6" in shown
    assert said.split(":")[0] in shown
