"""`python -m suite.check task=TASK implementation=PATH`: what its user sees, and the file that a submission brings."""

import json
from dataclasses import replace

import pytest
import yaml

from suite import config
from suite.check.__main__ import main
from suite.check.equivalence import report
from suite.config.plan import Plan
from suite.errors import UserError
from suite.harness.contestant import read
from suite.measure import systems
from suite.record.equivalence import FILE, Equivalence
from tests.check.equivalence.comparing import equivalent

BUILD = """
from reference_impls.parity import numpy as reference
import numpy

ACCELERATORS = 1


def build(hyperparameters, data, seed, device):
    rate = {factor} * hyperparameters["opt_base_learning_rate"]
    return reference.build({{**hyperparameters, "opt_base_learning_rate": rate}}, data, seed, device)
"""


@pytest.fixture
def written(parity, tmp_path):
    def write(factor, precision="fp32", more="", division="closed", **hyperparameters):
        (tmp_path / "ours").mkdir()
        (tmp_path / "ours" / "__init__.py").write_text(BUILD.format(factor=factor) + more)
        told, place = read(tmp_path / "ours", None).told, tmp_path / "runs"
        benchmark, framework = config.benchmark("parity", "mini"), config.framework("numpy")
        ran = {**benchmark.hyperparameters, **hyperparameters}
        benchmark = benchmark.model_copy(update={"hyperparameters": ran})
        declared = ("someone", division, "research", None)
        plan = Plan(benchmark, config.system("cpu"), framework, precision, (1, 2), None, "0" * 32, *declared, place)
        for index in (1, 2):
            plan.folder(index).mkdir(parents=True)
            content = yaml.safe_dump(replace(plan, contestant=told).resolved(index))
            (plan.folder(index) / "config.yaml").write_text(content)
        return ["task=parity", f"implementation={tmp_path / 'ours'}", f"out={place}"]

    return write


def test_the_reference_by_another_name_is_its_equal(written, tmp_path, capsys):
    assert main(written(1.0)) == 0, capsys.readouterr().out
    made = [Equivalence.model_validate_json((tmp_path / "runs" / run / FILE).read_text()) for run in ("run_1", "run_2")]
    assert made[0] == made[1]
    assert made[0].name == "ours"
    (comparison,) = made[0].comparisons
    assert comparison.benchmark == "parity/mini"
    assert equivalent(comparison)
    assert {trial.precision for trial in comparison.trials} == {"fp32"}


def test_a_folder_without_a_run_is_refused_before_anything_is_tried(written, tmp_path, capsys):
    words = written(1.0)
    with pytest.raises(UserError, match=r"out=.*fresh holds no run: give the out= folder of a run"):
        main([*words[:2], f"out={tmp_path / 'fresh'}"])
    assert not (tmp_path / "fresh").exists()
    assert not capsys.readouterr().out


def test_a_place_that_cannot_be_written_is_a_mistake_before_anything_is_tried(written, tmp_path, capsys):
    words = written(1.0)
    (tmp_path / "runs/run_2" / FILE).mkdir()
    with pytest.raises(UserError, match=r"^cannot write .*run_2/equivalence\.json: Is a directory$"):
        main(words)
    assert not capsys.readouterr().out


def test_where_nothing_could_be_compared_what_was_found_before_stays(written, tmp_path, monkeypatch, capsys):
    words = written(1.0)
    assert main(words) == 0, capsys.readouterr().out
    before = (tmp_path / "runs/run_1" / FILE).read_bytes()
    monkeypatch.setattr(report, "load_implementation", lambda *_: 1 / 0)
    assert main(words) == 1
    assert (tmp_path / "runs/run_1" / FILE).read_bytes() == before


def test_the_numeric_format_is_that_of_the_runs_whatever_this_machine_takes(written, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(systems, "precision_of", lambda *_: "fp32")
    assert main(written(1.0, "bf16")) == 0, capsys.readouterr().out
    (made,) = Equivalence.model_validate_json((tmp_path / "runs" / "run_1" / FILE).read_text()).comparisons
    assert {trial.precision for trial in made.trials} == {"fp32", "bf16"}


OF_ONE_BATCH = """
any_batch = build


def build(hyperparameters, data, seed, device):
    assert hyperparameters["global_batch_size"] == 40
    return any_batch(hyperparameters, data, seed, device)
"""


def test_the_hyperparameters_are_those_of_the_runs(written, capsys):
    words = written(1.0, more=OF_ONE_BATCH, global_batch_size=40)
    assert main(words) == 0, capsys.readouterr().out
    assert main(words[:2]) == 1


@pytest.mark.parametrize("division", ["closed", "open"])
def test_in_the_open_division_it_is_not_held_to_the_reference(written, division, tmp_path, capsys):
    words = written(1.5, division=division)
    assert main([*words, "--json"]) == int(division == "closed")
    promises = {row["promise"]: row["status"] for row in json.loads(capsys.readouterr().out)}
    assert any(name.startswith("fp32: ") for name in promises) is (division == "closed")
    assert promises.get("it is held to the reference") == {"closed": None, "open": "skipped"}[division]
    assert list(tmp_path.glob(f"runs/*/{FILE}")) == [] or division == "closed"
    assert main([*words[:2], "division=open"]) == 0


def test_what_the_runs_are_not_of_is_refused_before_anything_is_tried(written, tmp_path, capsys):
    words = written(1.0, "bf16")
    with pytest.raises(UserError, match=r"^precision=fp16 contradicts out=.*, which is a run of precision=bf16$"):
        main([*words, "precision=fp16"])
    with (tmp_path / "ours/__init__.py").open("a") as file:
        file.write("# another\n")
    with pytest.raises(UserError, match=r"^out=.* began with another __init__.py than implementation=.*ours has"):
        main(words)
    assert not list(tmp_path.glob(f"runs/*/{FILE}"))
    assert not capsys.readouterr().out


def test_nothing_is_tried_in_a_format_whose_bounds_nobody_measured(written, tmp_path, capsys):
    assert main([*written(1.0, "mxfp8"), "--json"]) == 0
    (row,) = [row for row in json.loads(capsys.readouterr().out) if row["promise"].startswith("mxfp8")]
    assert (row["status"], row["found"]) == ("skipped", "bounds not measured for mxfp8")
    made = Equivalence.model_validate_json((tmp_path / "runs" / "run_1" / FILE).read_text())
    assert [trial.found for trial in made.comparisons[0].trials if trial.precision == "mxfp8"] == [None]


def test_one_is_tried_in_no_format_that_it_does_not_train_in(written, monkeypatch, capsys):
    monkeypatch.setattr(systems, "precision_of", lambda *_: "bf16")
    words = written(1.0, more='PRECISIONS = ("fp32",)\n')[:2]
    with pytest.raises(UserError, match=r"^precision=bf16: ours trains in fp32$"):
        main([*words, "precision=bf16"])
    assert main([*words, "--json"]) == 0
    promises = [row["promise"] for row in json.loads(capsys.readouterr().out)]
    assert any(promise.startswith("fp32:") for promise in promises)
    assert not any(promise.startswith("bf16:") for promise in promises)


def test_one_that_does_not_train_in_fp32_is_refused_before_anything_is_tried(written, capsys):
    with pytest.raises(UserError, match=r"^ours trains in bf16, fp16: a check, and the closed division"):
        main(written(1.0, "bf16", more='PRECISIONS = ("bf16", "fp16")\n'))
    assert not capsys.readouterr().out


def test_one_that_says_that_its_draws_are_its_own_is_held_to_distributions(written, tmp_path, capsys):
    assert main(written(1.0, more="OWN_DRAWS = True\n")) == 0, capsys.readouterr().out
    (made,) = Equivalence.model_validate_json((tmp_path / "runs" / "run_1" / FILE).read_text()).comparisons
    assert made.own_draws
    assert any(trial.trial.startswith("the length of a step") for trial in made.trials)
    assert not any(trial.trial.startswith("a step from") for trial in made.trials)


@pytest.mark.parametrize(("factor", "found"), [(1.05, "0.05"), (1.0101, "0.0101")])
def test_a_learning_rate_that_is_off_is_found(factor, found, written, tmp_path, capsys):
    assert main([*written(factor), "--json"]) == 1
    broken = [row for row in json.loads(capsys.readouterr().out) if row["status"] == "fail"]
    (step,) = [row for row in broken if row["promise"] == "fp32: a step from the trained state"]
    assert f"{found} of at most 0.01; weights" in step["found"]
    made = Equivalence.model_validate_json((tmp_path / "runs" / "run_1" / FILE).read_text())
    assert not equivalent(made.comparisons[0])
