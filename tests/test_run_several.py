"""Several commands of one command line, by `-m`: each value of one is tried with each of another."""

import pytest

from suite.errors import UserError, WorkerLost
from suite.harness import contract
from suite.run.__main__ import main
from suite.run.options import parse
from tests.command import eighth
from tests.parity_runs import RUN, lines


def test_hydra_multirun_makes_one_command_line_for_each_value(tmp_path):
    done = eighth(tmp_path, "run", "-m", *RUN, "seed=1,2", "out=of_${seed}")
    assert done.returncode == 0, done.stderr
    assert [line.value for i in (1, 2) for line in lines(tmp_path / f"of_{i}") if line.key == "seed"] == [1, 2]
    assert not (tmp_path / "multirun.yaml").exists()


def test_a_text_is_in_a_sweep_what_it_is_without(here):
    texts = {"token": "2026.10", "submitter": "Universität", "out": "a=b"}
    for options in parse(["-m", *RUN, "runs=1,2", *(f"{name}={text}" for name, text in texts.items())]):
        assert {name: options.given[name] for name in texts} == texts


def test_what_is_made_of_other_options_is_what_was_given():
    first, second = parse(["-m", *RUN, "seed=1,2", "out=of_${seed}"])
    assert (first.given["out"], second.given["out"]) == ("of_1", "of_2")


def test_a_text_of_a_sweep_may_refer_to_a_value_of_the_benchmark():
    words = ("hyperparameters.global_batch_size=50,100", "target=0.9")
    made = parse(
        [
            "-m",
            "task=parity",
            "framework=numpy",
            "hw=cpu",
            *words,
            "out=${hyperparameters.global_batch_size}/${target}-${runs}",
        ]
    )
    assert [each.out for each in made] == ["50/0.9-1", "100/0.9-1"]


def test_a_group_in_a_text_is_the_name_that_was_chosen():
    words = ("task=recommendation", "framework=torch,tensorflow", "hw=cpu")
    expected = ["recommendation/torch-mini", "recommendation/tensorflow-mini"]
    assert [each.out for each in parse(["-m", *words, "out=${task}/${framework}-${hw.default_scale}"])] == expected


def test_a_lost_worker_ends_one_of_several_commands(tmp_path, monkeypatch):
    def build(*arguments):
        raise WorkerLost("it is gone")

    monkeypatch.setattr(contract, "build", build)
    done = eighth(tmp_path, "run", "-m", *RUN, "seed=1,2", "out=of_${seed}")
    assert (done.returncode, done.stderr.count("error: it is gone; go on with resume=of_")) == (1, 2)


def test_a_mistake_in_one_of_several_commands_leaves_the_others(here, capsys):
    words = ("task=parity", "framework=numpy", "mlflow=false", "budget_samples=400")
    assert main(["-m", *words, "hw=toaster,cpu", "out=of_${hw}"]) == 2
    assert capsys.readouterr().err.startswith("error: hw=toaster asks for 2 ")
    assert [path.name for path in here.iterdir()] == ["of_cpu"]


def test_a_value_that_is_not_allowed_is_told_before_the_first_of_several_commands(here, capsys):
    with pytest.raises(UserError, match=r"^seed=one is not a whole number$"):
        main(["-m", *RUN, "dry_run=true", "seed=1,one"])
    assert capsys.readouterr().out == ""
