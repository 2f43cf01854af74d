"""The plan that the evidence of an interrupted command holds, and what contradicts it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from suite import config
from suite.config.plan import Plan
from suite.errors import UserError
from suite.record.system import STATUSES
from suite.run.resuming import from_evidence, gone_on_by

WITNESS = "http://witness.example/tsr"
HW = config.system("cpu", {**config.load("hw", "cpu"), "workers": 2, "price_per_hour": 1.5})


@pytest.fixture
def plan(tmp_path):
    """One of which nothing is as it is by default."""
    benchmark, framework = config.benchmark("detection", "mini"), config.framework("tensorflow")
    declared = ("someone", "open", STATUSES["available"], WITNESS)
    return Plan(benchmark, HW, framework, "bf16", (3, 9), "a round", "0" * 32, *declared, tmp_path / "out", "keep")


def written(plan, without=()):
    plan.folder(1).mkdir(parents=True)
    values = {name: value for name, value in plan.resolved(1).items() if name not in without}
    (plan.folder(1) / "config.yaml").write_text(yaml.safe_dump(values))
    return plan.out


def test_all_of_it_is_gone_on_with(plan):
    assert from_evidence(written(plan), {}, None).resolved(1) == plan.resolved(1)


def test_evidence_that_tells_less_is_of_what_there_was_then(plan):
    out = written(plan, ("division", "status", "checkpoints", "token", "witness"))
    then = {"division": "closed", "status": "research", "checkpoints": "last", "token": None, "witness": None}
    assert from_evidence(out, {}, None).resolved(1) == replace(plan, **then).resolved(1)


@pytest.mark.parametrize(
    ("given", "begun"),
    [
        ({"task": "translation"}, "task=detection"),
        ({"precision": "fp32"}, "precision=bf16"),
        ({"runs": 3}, "runs=2"),
        ({"submitter": "another"}, "submitter=someone"),
        ({"division": "closed"}, "division=open"),
        ({"category": "preview"}, "category=available"),
        ({"checkpoints": "last"}, "checkpoints=keep"),
        ({"subset": 0.5}, "subset=None"),
        ({"hw": "v100"}, "hw=cpu"),
        ({"seed": 9}, "seed=3"),
        ({"token": "another"}, "token=a round"),
        ({"witness": "http://another.example/"}, f"witness={WITNESS}"),
    ],
)
def test_what_is_another_than_it_was_begun_with_is_told_with_what_it_was(plan, given, begun):
    ((name, value),) = given.items()
    with pytest.raises(UserError) as error:
        from_evidence(written(plan), given, None)
    assert str(error.value) == f"{name}={value} contradicts resume={plan.out}, which is a run of {begun}"


def test_what_repeats_it_in_other_words_is_no_contradiction(plan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"out": f"{plan.out}/", "hw": "auto", "evaluation": {}, "hw.price_per_hour": 1.5, "seed": "3"}
    assert from_evidence(written(plan), given, None).resolved(1) == plan.resolved(1)
    for other in ({"often": None}, {"every": 7}):
        with pytest.raises(UserError, match=rf"^evaluation={re.escape(str(other))} comes too late"):
            from_evidence(plan.out, {"evaluation": other}, None)


@pytest.mark.parametrize(
    ("given", "again"),
    [
        ({"task": "speech", "framework": "torch", "seed": 3, "hw.workers": 2}, ""),
        ({"mlflow": False, "data_dir": "/My Data"}, " data_dir='/My Data' mlflow=false"),
        ({"implementation": "/my/code", "framework": "torch"}, " implementation=/my/code framework=torch"),
        ({"resume": "out", "hw.workers": 2}, " hw.workers=2"),
    ],
)
def test_the_command_that_goes_on_repeats_what_the_evidence_lacks(given, again):
    assert gone_on_by(Path("out"), given) == f"resume=out{again}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "reserch"),
        ("seeds", []),
        ("seeds", 5),
        ("framework", ["numpy"]),
        ("benchmark", 1),
        ("runs", "2"),
        ("system", {}),
    ],
)
def test_a_value_that_no_run_writes_is_one_line(plan, name, value):
    path = written(plan) / "run_1" / "config.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), name: value}))
    with pytest.raises(UserError, match=name) as error:
        from_evidence(plan.out, {}, None)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["stride", "epsilon"])
def test_a_run_of_a_reference_that_had_other_hyperparameters_is_one_line(plan, name):
    path = written(plan) / "run_1" / "config.yaml"
    values = yaml.safe_load(path.read_text())
    then = values["benchmark"]["hyperparameters"]
    if then.pop(name, None) is None:
        then[name] = 1
    path.write_text(yaml.safe_dump(values))
    with pytest.raises(UserError, match=rf"was begun by another reference of detection, .* {name}: use the suite of"):
        from_evidence(plan.out, {}, None)
