"""The test against the reference's convergence, with MLPerf's published example."""

import random

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from suite import config
from suite.plots.charts import band
from suite.record.scoring import olympic_mean
from suite.rules import published
from suite.rules.convergence import at, convergence, margin, population, t_test
from suite.rules.reading import RESULT, Evidence
from suite.rules.reference import recipe
from suite.rules.verdict import review
from tests.rules.evidence_maker import reference_points, write_result, write_run
from tests.rules.mutants.benchmark import open_division
from tests.rules.mutants.outcome import interrupted
from tests.rules.subject import BENCHMARK

# mlcommons/training_policies, training_rules.adoc, appendix "RCP Examples": epochs to converge, 5 runs to be submitted
AT_128 = population(128, [16, 14, 16, 17, 16, 16, 15, 16, 15, 16], 1, 10)
AT_256 = population(256, [20, 21, 21, 20, 22, 22, 21, 21, 20, 20], 1, 10)
POINTS = (AT_256, AT_128)


def submitted(epochs, batch_size):
    return t_test(olympic_mean(epochs), len(epochs) - 2, batch_size, POINTS)


@pytest.mark.parametrize(
    ("point", "mean", "deviation", "speedup", "minimum"),
    [(AT_128, 15.75, 0.43, 3.53, 15.21), (AT_256, 20.75, 0.66, 4.12, 19.93)],
)
def test_mlperf_s_example(point, mean, deviation, speedup, minimum):
    assert (point.mean, round(point.deviation, 2)) == (mean, deviation)
    least = point.mean - margin(point, 3)
    assert round(least, 2) == minimum
    assert round(100 * (point.mean / least - 1), 2) == speedup


def test_mlperf_s_example_submissions():
    first = submitted([15, 15, 15, 16, 16], 128)
    assert (first.outcome, round(first.mean, 2)) == ("pass", 15.33)
    assert first.normalisation == pytest.approx(15.75 / (46 / 3))
    second = submitted([19, 19, 19, 20, 21], 256)
    assert (second.outcome, second.normalisation) == ("fail", 1.0)
    between = submitted([17, 18, 18, 18, 20], 192)
    assert (between.outcome, between.reference.mean) == ("pass", 18.25)
    assert between.reference.deviation == pytest.approx(0.547, abs=1e-3)
    assert round(100 * (18.25 / between.minimum - 1), 2) == 3.68
    assert submitted([30, 30, 30, 30, 30], 512).outcome == "missing"
    assert submitted([16, 16, 16, 16, 16], 64).outcome == "pass"
    assert submitted([15, 15, 15, 15, 15], 64).outcome == "fail"


def test_p_value_interval_and_minimum_agree_at_the_limit():
    limit = AT_128.mean - margin(AT_128, 3)
    made = t_test(limit, 3, 128, POINTS)
    assert made.p_value == pytest.approx(0.05)
    assert made.interval[1] == pytest.approx(AT_128.mean)
    assert t_test(limit - 1e-6, 3, 128, POINTS).outcome == "fail"


def test_a_point_that_others_undercut_does_not_bound():
    slow = population(192, [25] * 10, 1, 10)
    assert at([AT_128, slow, AT_256], 192).mean == 18.25
    slower_below = population(64, [30] * 10, 1, 10)
    assert at([slower_below, AT_128, AT_256], 64) == AT_128


def test_reference_runs_that_all_agree_leave_room_for_the_evaluation_period():
    same = population(100, [6000] * 10, 1000, 10)
    assert 0 < same.deviation < 1000
    assert t_test(5800, 3, 100, [same]).outcome == "pass"
    assert t_test(5000, 3, 100, [same]).outcome == "fail"


def test_a_reference_run_that_missed_the_target_is_the_slowest():
    made = population(100, [5000, None, 6000, 6000, 7000], 1, 10)
    assert (made.mean, made.count) == (pytest.approx(19_000 / 3), 3)
    assert population(100, [5000, None, 6000, 6000, None], 1, 10).mean == 6000
    assert made.deviation == pytest.approx(np.std([5000, 6000, 6000, 7000], ddof=1))  # of fewer than are asked for


@given(st.lists(st.integers(1, 10**6), min_size=4, max_size=20), st.integers(1, 10**6), st.integers(1, 50))
def test_never_refuses_who_is_as_slow_as_the_reference(samples, extra, count):
    point = population(8, samples, 100, 10)
    made = t_test(point.mean + extra, count, 8, [point])
    assert (made.outcome, made.normalisation) == ("pass", 1.0)
    assert made.p_value >= 0.5


@pytest.mark.parametrize(("runs", "most"), [(5, 0.05), (10, 0.11), (27, 0.06)])
def test_who_converges_as_the_reference_does_is_seldom_refused(runs, most):
    """Of 2,000 points, each with a result of five runs; MLPerf's own test, of ten runs, refuses a tenth."""
    draw = np.random.default_rng(1)
    refused = 0
    for reference, own in zip(draw.normal(1000, 100, (2000, runs)), draw.normal(1000, 100, (2000, 5)), strict=True):
        refused += t_test(olympic_mean(own), 3, 8, [population(8, reference, 1, 10)]).outcome == "fail"
    assert 0 < refused / 2000 < most


def evidence(folder):
    return [Evidence.read(path, path.name) for path in sorted(folder.iterdir())]


def test_result_is_held_to_the_stored_points(sound_result):
    made = convergence(evidence(sound_result))
    assert (made.outcome, made.mean, made.count, made.batch_size) == ("pass", 6000, 3, 100)
    assert made.curves[0] == ((4000, 0.9), (5000, 0.99))
    (reviewed,) = review(sound_result).results
    assert reviewed.convergence == made


def test_result_below_the_reference_s_mean_is_normalised(sound_result, monkeypatch, tmp_path):
    points = reference_points(tmp_path, samples=(5000, 6000, 6000, 7000, 7000))
    monkeypatch.setattr("suite.rules.reference.path", lambda benchmark: points)
    made = review(sound_result)
    (finding,) = [f for f in made.findings if f.rule == "convergence.2"]
    assert (made.verdict, finding.severity) == ("pass", "note")
    assert all(text in finding.found for text in ("6,000 samples", "p = ", "90 % interval"))
    assert made.results[0].score_s == pytest.approx(30.0 * (19 / 18))


def test_batch_size_between_two_points_is_held_to_both(sound_result, monkeypatch, tmp_path):
    points = reference_points(tmp_path, samples=(4000, 5000, 5000, 5000, 6000), batch=50)
    stored = yaml.safe_load(points.read_text())
    other = yaml.safe_load(reference_points(tmp_path, samples=(8000, 8000, 8000, 8000, 8000), batch=200).read_text())
    points.write_text(yaml.safe_dump({**stored, "points": stored["points"] + other["points"]}))
    monkeypatch.setattr("suite.rules.reference.path", lambda benchmark: points)
    held_to = convergence(evidence(sound_result)).reference
    assert (held_to.batch_size, held_to.mean) == (100, 6000)
    assert review(sound_result).verdict == "pass"


def test_batch_size_above_the_largest_point_is_refused(sound_result, monkeypatch, tmp_path):
    points = reference_points(tmp_path, batch=50)
    monkeypatch.setattr("suite.rules.reference.path", lambda benchmark: points)
    made = review(sound_result)
    (finding,) = [f for f in made.findings if f.rule == "convergence.4"]
    assert (made.verdict, finding.severity) == ("fail", "fail")
    assert "suite.rcp" in finding.mend


def test_benchmark_without_points_says_so_and_passes(sound_result, monkeypatch, tmp_path):
    monkeypatch.setattr("suite.rules.reference.path", lambda benchmark: tmp_path / "none")
    runs = evidence(sound_result)
    assert convergence(runs).outcome == "missing"
    assert "convergence.4" not in {f.rule for f in review(sound_result).findings}
    for run in runs:
        run.benchmark = run.benchmark.model_copy(update={"scale": "small"})
    assert {(f.rule, f.severity) for f in RESULT.findings(runs)} == {("convergence.4", "note")}


def test_what_is_published_is_told_where_there_are_no_points_and_refuses_nobody(sound_result, monkeypatch, tmp_path):
    told = {
        "benchmark": "image_classification/small",
        "source": "a round's log",
        "counted_in": "epochs",
        "each": 10_000,
        "points": [{"global_batch_size": 90, "reached": [6, 7, None]}, {"global_batch_size": 900, "reached": [1]}],
    }
    runs = evidence(sound_result)
    for run in runs:
        run.benchmark = run.benchmark.model_copy(update={"scale": "small"})
    path = tmp_path / "published.yaml"
    path.write_text(yaml.safe_dump([{**told, "recipe": recipe(runs[0].benchmark)}]))
    monkeypatch.setattr("suite.rules.published.path", lambda: path)
    monkeypatch.setattr("suite.rules.reference.path", lambda benchmark: tmp_path / "none")
    missing, beside = RESULT.findings(runs)  # with a tenth of the samples
    assert {(each.rule, each.severity) for each in (missing, beside)} == {("convergence.4", "note")}
    assert "reference convergence point" in missing.expected
    assert beside.expected == "about 65,000 samples, published of 3 runs of other code at batch size 90 (6 to 7 epochs)"
    assert beside.found == "9.2% of that: 6,000"
    assert beside.mend.endswith("refuses nobody. Source: a round's log")
    assert convergence(runs).normalisation == 1
    path.write_text(path.read_text().replace("recipe: ", "recipe: x"))
    assert RESULT.findings(runs) == [missing]
    points = reference_points(tmp_path)
    path.write_text(path.read_text().replace("recipe: x", "recipe: "))
    monkeypatch.setattr("suite.rules.reference.path", lambda benchmark: points)
    assert RESULT.findings(runs) == []


@pytest.mark.parametrize("told", published.stored(), ids=lambda each: each.benchmark)
def test_what_is_published_is_of_the_benchmarks_as_they_are(told):
    benchmark = config.benchmark(*told.benchmark.split("/"))
    assert published.load(benchmark) == told, "of an older recipe: does it still hold? then give it the new sum"
    assert "https://" in told.source
    sizes = [point.global_batch_size for point in told.points]
    assert benchmark.hyperparameters["global_batch_size"] in sizes
    for point in told.points:
        assert max(told.samples(point)) <= benchmark.budget_samples


def test_points_of_another_recipe_and_points_of_too_few_runs_do_not_count(sound_result, monkeypatch, tmp_path):
    points = reference_points(tmp_path, samples=(9000, 9000, 9000, 9000))
    monkeypatch.setattr("suite.rules.reference.path", lambda benchmark: points)
    runs = evidence(sound_result)
    assert convergence(runs).outcome == "missing"
    for run in runs:
        run.benchmark = run.benchmark.model_copy(update={"scale": "small"})
    (finding,) = RESULT.findings(runs)
    told = "points of 4 runs at batch size 100 that reached the target, which count from 5 runs on; not tested: "
    assert told in finding.found
    points.write_text(reference_points(tmp_path, samples=(9000,) * 5).read_text().replace("recipe: ", "recipe: x"))
    assert convergence(evidence(sound_result)).outcome == "missing"


def test_applies_to_results_that_have_an_olympic_mean(sound_result, tmp_path):
    runs = evidence(sound_result)
    assert convergence(runs[:2]) is None
    assert convergence(runs[:3]).count == 1
    for run in write_result(tmp_path, 2):
        interrupted(run)
    lost = evidence(tmp_path)
    assert convergence([lost[0], *runs[1:]]).mean == 6000
    assert convergence([*lost, *runs[2:]]) is None
    data = BENCHMARK.dataset.model_copy(update={"subset": 0.5})
    runs[0].benchmark = BENCHMARK.model_copy(update={"dataset": data})
    assert convergence(runs) is None
    open_division(write_run(tmp_path / "open"))
    assert convergence([Evidence.read(tmp_path / "open"), *runs[1:]]) is None


def test_band_spans_the_runs_and_keeps_who_has_arrived():
    curves = (((100, 0.5), (200, 0.9)), ((100, 0.7), (200, 0.8), (300, 0.95)))
    expected = [(100, 0.5, 0.6, 0.7), (200, 0.8, 0.85, 0.9), (300, 0.9, 0.925, 0.95)]
    assert band(curves) == [pytest.approx(point) for point in expected]
    draw = random.Random(1)
    many = [tuple((at, draw.random()) for at in range(draw.randint(1, 3), 9)) for _ in range(9)]
    assert all(low <= mean <= high for _, low, mean, high in band(many))
