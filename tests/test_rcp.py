"""`python -m suite.rcp` as the keeper of a benchmark types it."""

# ruff: noqa: F811 (the fixtures of tests/rules)

import math
import shutil

import pytest
import yaml
from mlperf_logging.mllog import constants as keys

from suite import config
from suite.config import folder
from suite.errors import UserError
from suite.rcp import showing
from suite.rcp.__main__ import main
from suite.record import git
from suite.rules import convergence as convergence_rules
from suite.rules import reference
from suite.rules.convergence import convergence
from suite.rules.reading import Evidence
from tests.command import refuses
from tests.command import run as run_command
from tests.rules import evidence_maker
from tests.rules.conftest import sound_result  # noqa: F401
from tests.rules.evidence_maker import write_result, write_run
from tests.rules.mutants import MUTANTS
from tests.rules.mutants.benchmark import hyperparameters, open_division
from tests.rules.mutants.outcome import interrupted
from tests.rules.mutants.systems import trained_in
from tests.rules.subject import BENCHMARK, UNKNOWN_REVISION, WITH_H200, right_predictions


@pytest.fixture
def points(tmp_path, monkeypatch):
    """Where the points go; none are there. The checkout has all revisions in its history but one."""
    monkeypatch.setattr(git, "has_history", lambda: True)
    monkeypatch.setattr(git, "descends_from", lambda revision: revision != UNKNOWN_REVISION)
    path = tmp_path / "rcp" / "mini.yaml"
    monkeypatch.setattr(config, "benchmark", lambda task, scale: BENCHMARK)
    monkeypatch.setattr(reference, "path", lambda benchmark: path)
    return path


def test_makes_points_that_results_are_then_held_to(sound_result, points, tmp_path, monkeypatch, capsys):
    for index in range(1, 11):
        write_run(tmp_path / "own" / f"run_{index}", index, runs=10, seed=500, evaluations=2 + index % 3)
    assert main([str(tmp_path / "own")]) == 0
    printed = capsys.readouterr().out
    assert "batch size 100: 10 runs; samples to the target: mean 6,000" in printed
    stored = yaml.safe_load(points.read_text())
    (point,) = stored["points"]
    assert [run["seed"] for run in point["runs"]] == list(range(500, 510))
    first = point["runs"][0]
    assert (first["samples"], first["curve"][-1]) == (6000, [6000, pytest.approx(792 / 797)])
    assert first["command"] == (
        "python -m suite.run task=image_classification scale=mini framework=torch hw=cpu seed=500"
    )
    assert (first["machine"], first["date"]) == ("a CPU, 2 logical CPUs", "2026-11-21")
    runs = [Evidence.read(sound_result / f"run_{index}", f"run_{index}") for index in range(1, 6)]
    held = convergence(runs)
    assert held.outcome == "pass"
    assert f"5 runs pass from a mean of {math.ceil(held.minimum):,} on\n" in printed


def test_adds_to_the_points_and_leaves_what_is_there(points, tmp_path, capsys):
    write_result(tmp_path / "one", 3)
    single = write_run(tmp_path / "two", seed=200)
    assert main([str(tmp_path / "one")]) == 0
    assert "3 runs; they count from 5 on" in capsys.readouterr().out
    assert main([str(tmp_path / "one"), str(single.folder)]) == 0
    assert "4 runs" in capsys.readouterr().out
    written = points.read_text()
    assert main([str(single.folder)]) == 0
    assert points.read_text() == written


def test_runs_are_not_held_to_the_points_that_they_are_added_to(points, tmp_path):
    rate = BENCHMARK.hyperparameters["muon_learning_rate"]
    write_result(tmp_path / "slow", 5, evaluations=4)
    write_result(tmp_path / "fast", 5, seed=500, evaluations=1)
    for run in write_result(tmp_path / "larger", 5, seed=900):
        hyperparameters(run, global_batch_size=200, muon_learning_rate=2 * rate)
    for name in ("slow", "fast", "larger"):
        assert main([str(tmp_path / name)]) == 0
    assert [len(point.runs) for point in reference.load(BENCHMARK).points] == [10, 5]


@pytest.mark.parametrize("runs", [1, 2])
def test_points_of_a_benchmark_of_fewer_runs_than_can_be_tested(points, runs, tmp_path, monkeypatch, capsys):
    few = BENCHMARK.model_copy(update={"runs": runs})
    monkeypatch.setattr(config, "benchmark", lambda task, scale: few)
    monkeypatch.setattr(evidence_maker, "BENCHMARK", few)
    for index in range(1, 5):
        write_run(tmp_path / "own" / f"run_{index}", index, runs=4, seed=500, evaluations=2 + index % 3)
    assert main([str(tmp_path / "own")]) == 0
    assert "3 runs pass from a mean of" in capsys.readouterr().out


def test_points_stand_by_batch_size(points, tmp_path):
    run = write_run(tmp_path / "run")
    rate = BENCHMARK.hyperparameters["muon_learning_rate"]
    hyperparameters(run, global_batch_size=200, muon_learning_rate=2 * rate)
    main([str(run.folder), str(write_run(tmp_path / "usual", seed=300).folder)])
    stored = reference.load(BENCHMARK)
    assert [point.global_batch_size for point in stored.points] == [100, 200]
    command = stored.points[1].runs[0].command
    assert command.endswith(" seed=100 hyperparameters.global_batch_size=200")  # the learning rate follows by itself


def test_the_command_of_a_point_repeats_what_does_not_follow_by_itself(points, tmp_path):
    run = write_run(tmp_path / "run", hw="h200", machine=WITH_H200)
    epochs = BENCHMARK.hyperparameters["whiten_bias_epochs"]
    hyperparameters(run, global_batch_size=200, muon_learning_rate=2 * BENCHMARK.hyperparameters["muon_learning_rate"])
    hyperparameters(run, whiten_bias_epochs=epochs + 1)
    trained_in(run, "fp16")
    run.edit_config(lambda values: values["benchmark"].update(precision="fp16"))
    main([str(run.folder)])
    ((made,),) = (point.runs for point in reference.load(BENCHMARK).points)
    assert made.command == (
        "python -m suite.run task=image_classification scale=mini framework=torch hw=h200 seed=100 "
        f"precision=fp16 hyperparameters.global_batch_size=200 hyperparameters.whiten_bias_epochs={epochs + 1}"
    )
    assert (made.system, made.machine) == ("h200", "1 x NVIDIA H200")


def test_the_threshold_is_the_review_s_which_may_hold_to_another_batch_size(points, tmp_path, capsys):
    rate = BENCHMARK.hyperparameters["muon_learning_rate"]
    write_result(tmp_path / "usual", 5, evaluations=4)
    for run in write_result(tmp_path / "larger", 5, seed=500):
        hyperparameters(run, global_batch_size=200, muon_learning_rate=2 * rate)
    assert main([str(tmp_path / "usual"), str(tmp_path / "larger")]) == 0
    usual, larger = capsys.readouterr().out.splitlines()[1:]
    assert usual.partition("5 runs pass ")[2] == larger.partition("5 runs pass ")[2] + (
        ", held to batch size 200, which needs fewer samples"
    )
    assert "batch size 100: 5 runs; MLPerf asks for 10; samples to the target: mean 7,000" in usual


def test_points_of_an_older_recipe_are_dropped(points, tmp_path):
    main([str(write_run(tmp_path / "old").folder)])
    points.write_text(points.read_text().replace("recipe: ", "recipe: x"))
    main([str(write_run(tmp_path / "new", seed=300).folder)])
    ((run,),) = (point.runs for point in reference.load(BENCHMARK).points)
    assert run.seed == 300


@pytest.mark.parametrize(
    ("mutate", "answer"),
    [
        (MUTANTS["quality.2"][0], "does not pass the review: log.txt: quality.2"),
        (interrupted, "was interrupted"),
        (lambda run: run.recode(dirty=True), "is of changed code"),
        (lambda run: run.recode(revision=None), "is of code without a revision"),
        (lambda run: run.recode(revision=UNKNOWN_REVISION), "is of revision 777777777777, which is not in the history"),
        (open_division, "is not of the closed division"),
        (lambda run: shutil.rmtree(run.folder), "cannot review"),
    ],
)
def test_what_is_no_reference_run_is_a_mistake(mutate, answer, points, tmp_path):
    run = write_run(tmp_path / "run")
    mutate(run)
    refuses(main, [str(run.folder)], answer)
    assert not points.exists()


def test_runs_of_an_own_implementation_are_no_points(points, tmp_path):
    run = write_run(tmp_path / "run", own=True)
    refuses(main, [str(run.folder)], "is of the implementation ours: points are the reference's")
    assert not points.exists()


def test_runs_of_a_part_of_the_data_are_no_points(points, tmp_path, monkeypatch):
    part = BENCHMARK.model_copy(update={"dataset": BENCHMARK.dataset.model_copy(update={"subset": 0.5})})
    monkeypatch.setattr(config, "benchmark", lambda task, scale: part)
    monkeypatch.setattr(evidence_maker, "BENCHMARK", part)
    run = write_run(tmp_path / "run")
    with pytest.raises(UserError, match=r"was trained on 0\.5 of the data: give runs of all of it"):
        main([str(run.folder)])
    assert not points.exists()


@pytest.fixture
def short(points, monkeypatch):
    """The benchmark with a budget of three evaluations."""
    benchmark = BENCHMARK.model_copy(update={"budget_samples": 6000})
    monkeypatch.setattr(config, "benchmark", lambda task, scale: benchmark)
    monkeypatch.setattr(evidence_maker, "BENCHMARK", benchmark)


def out_of_budget(path, seed):
    """A run that went on to the end of its budget without reaching the target."""
    run = write_run(path, seed=seed)
    run.edit_predictions([0] * len(right_predictions()))
    run.edit(keys.RUN_STOP, lambda record: record["metadata"].update(status=keys.ABORTED, reason="budget"))


def test_a_run_that_failed_stands_among_the_points(short, tmp_path, capsys):
    write_result(tmp_path / "own", 6, seed=500)
    out_of_budget(tmp_path / "failed", seed=900)
    assert main([str(tmp_path / "own"), str(tmp_path / "failed")]) == 0
    assert "batch size 100: 7 runs, 1 of which did not reach the target (seed 900)" in capsys.readouterr().out
    (point,) = reference.load(BENCHMARK).points
    assert [run.samples for run in point.runs if run.seed == 900] == [None]
    assert convergence_rules.of_point(point, BENCHMARK) == convergence_rules.population(
        100, [6000] * 6 + [None], BENCHMARK.evaluation.every, 2 * BENCHMARK.runs
    )
    assert convergence_rules.counting(BENCHMARK) == [point]


def test_shows_the_points_that_are_there(short, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(config, "scales", lambda task: ["mini"])
    with pytest.raises(UserError, match="no reference convergence points of image_classification are there"):
        main(["task=image_classification"])
    write_run(tmp_path / "own", seed=500)
    out_of_budget(tmp_path / "failed", seed=900)
    main([str(tmp_path / "own"), str(tmp_path / "failed")])
    capsys.readouterr()
    drawing = tmp_path / "curves.svg"
    assert main(["task=image_classification", "--curves", str(drawing)]) == 0
    (row,) = capsys.readouterr().out.splitlines()[2:]
    assert row.startswith(
        "| image_classification/mini | accuracy 0.98 | **100** | torch | **1 of 2** (not 900) | 6,000 | 6,000 | 0.99"
    )
    assert "1 of 2 did not reach it (cross)" in drawing.read_text()
    assert drawing.read_text().count("<polyline") == 2


def test_a_point_needs_runs_that_reached_the_target(short, tmp_path, capsys):
    write_result(tmp_path / "own", 4, seed=500)
    out_of_budget(tmp_path / "failed", seed=900)
    assert main([str(tmp_path / "own"), str(tmp_path / "failed")]) == 0
    assert "they count from 5 on" in capsys.readouterr().out
    assert convergence_rules.counting(BENCHMARK) == []


def test_a_seed_counts_once(points, tmp_path):
    main([str(write_run(tmp_path / "one").folder)])
    again = write_run(tmp_path / "two", index=2, runs=2, seed=99)
    with pytest.raises(UserError, match="seed 100 already"):
        main([str(again.folder)])


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["run", "datadir=x"], "did you mean 'data_dir'"),
        ([""], "an empty word follows the command: give a value, or leave it out"),
        (["task=speach"], "did you mean 'speech'"),
        (["run", "task=speech"], "give no FOLDER with them"),
        (["run", "--curves", "a.svg"], "give no FOLDER with them"),
    ],
)
def test_a_mistake_is_one_line(words, answer):
    refuses(main, words, answer)


def test_is_a_command_of_its_own(tmp_path):
    done = run_command(tmp_path, "suite.rcp", "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: cannot review")


def test_points_of_steps_that_differ_in_size_are_shown_as_of_batch_size_1():
    benchmark = config.benchmark("speech", "mini")
    points = [each.model_copy(update={"global_batch_size": 1}) for each in reference.load(benchmark).points[:1]]
    stored = [(benchmark.model_copy(update={"hyperparameters": {}}), points)]
    assert "| **1** | torch |" in showing.markdown(stored)
    assert [each.title for each in showing.figures(stored)] == ["speech/mini at batch size 1"]


def test_a_run_without_a_curve_leaves_the_others_their_ends():
    benchmark = config.benchmark("recommendation", "mini")
    usual = benchmark.hyperparameters[keys.GLOBAL_BATCH_SIZE]
    point = next(each for each in reference.load(benchmark).points if each.global_batch_size == usual)
    reached = next(run for run in point.runs if run.samples)
    diverged = reached.model_copy(update={"samples": None, "curve": ()})
    (figure,) = showing.figures([(benchmark, [point.model_copy(update={"runs": (diverged, reached)})])])
    assert figure.ends == ["dot"]
    assert figure.remarks == "1 of 2 did not reach it (cross)"


def test_curves_are_of_the_reference_s_batch_size_and_end_as_their_runs_did():
    benchmark = config.benchmark("reinforcement_learning", "small")
    usual = benchmark.hyperparameters[keys.GLOBAL_BATCH_SIZE]
    points = {point.global_batch_size: point for point in reference.load(benchmark).points}
    reached = points[usual].runs
    lost = reached[0].model_copy(update={"samples": None})
    points[usual] = points[usual].model_copy(update={"runs": (lost, *reached[1:])})
    (figure,) = showing.figures([(benchmark, [*points.values()])])
    assert figure.names == ["torch", "tensorflow"]
    assert figure.ends == ["cross", *["dot"] * (len(reached) - 1)]
    assert figure.remarks == f"1 of {len(reached)} did not reach it (cross)"
    (drawn,) = figure.charts
    assert [figure.names[curve.kind] for curve in drawn.curves] == [run.framework for run in reached]


def test_stored_points_are_of_the_benchmarks_as_they_are():
    stored = list((folder.CONF / "rcp").glob("*/*.yaml"))
    assert stored
    for path in stored:
        benchmark = config.benchmark(path.parent.name, path.stem)
        assert reference.path(benchmark) == path
        assert reference.load(benchmark).points, f"{path} is of an older recipe: make it anew with python -m suite.rcp"
