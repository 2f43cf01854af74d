"""Results from folders: ours with their seals, MLPerf's with their own rules."""

import json
import os
import shutil
from pathlib import Path

import pytest

from suite.config import logkeys
from suite.errors import UserError
from suite.results.entry import remarks
from suite.results.reading import Source, read, sources
from tests.mlperf import maker
from tests.rules.evidence_maker import isolate, write_run, write_seal
from tests.rules.mutants import MUTANTS, outcome
from tests.rules.mutants.benchmark import open_division
from tests.rules.subject import BENCHMARK


def test_a_result_of_ours_as_its_review_has_it(sound_result):
    (made,) = read(Source(sound_result)).entries
    assert (made.benchmark, made.system, made.framework, made.submitter) == (
        "image_classification/mini",
        "cpu",
        "torch",
        "someone",
    )
    assert (made.verdict, made.findings, made.seconds, made.reached, made.runs_needed) == ("pass", 0, 30.0, 5, 5)
    assert made.seeds == "chosen"
    assert made.machine == "2 logical CPUs of a CPU"
    assert (made.energy_source, made.estimated, made.currency) == ("estimated", True, "USD")
    assert made.boundaries == {("estimated",)}
    assert made.cost == pytest.approx(30 / 3600 * 2 * 0.05132)
    assert [each.path for each in made.runs] == [f"run_{at}/log.txt" for at in range(1, 6)]
    assert all(each.history.points[-1].quality == each.summary.quality for each in made.runs)


@pytest.mark.parametrize(("second", "seeds"), [("round 1", "drawn by round 1"), (None, "chosen")])
def test_seeds_are_drawn_only_if_those_of_each_run_are(tmp_path, monkeypatch, second, seeds):
    isolate(monkeypatch, tmp_path)
    for index, token in ((1, "round 1"), (2, second)):
        write_run(tmp_path / "result" / f"run_{index}", index, 2, token=token)
    assert read(Source(tmp_path / "result")).entries[0].seeds == seeds


def test_a_result_that_no_reference_points_are_for_says_so(sound_result, tmp_path, monkeypatch):
    assert "NO REFERENCE POINTS" not in remarks(*read(Source(sound_result)).entries)
    monkeypatch.setattr("suite.rules.reference.path", lambda benchmark: tmp_path / "none.yaml")
    assert "NO REFERENCE POINTS" in remarks(*read(Source(sound_result)).entries)


def test_the_work_of_a_model_of_the_open_division_is_not_known(run):
    assert read(Source(run.folder)).entries[0].flops == BENCHMARK.train_flops_per_sample
    open_division(run)
    assert read(Source(run.folder)).entries[0].flops is None


def test_verdict_is_the_result_s_own(sound_result, tmp_path):
    shutil.copytree(sound_result, tmp_path / "all" / "good")
    MUTANTS["measurement.3"][0](write_run(tmp_path / "all" / "bad", seed=500))
    made = {entry.path: (entry.verdict, entry.findings > 0) for entry in read(Source(tmp_path / "all")).entries}
    assert made == {"bad": ("fail", True), "good": ("pass", False)}


def test_what_the_reviewer_waives_is_excused(run, tmp_path):
    MUTANTS["division.2"][0](run)
    file = tmp_path / "waivers.yaml"
    file.write_text("waivers: [{rule: division.2, reason: agreed, reviewer: A. Reviewer, date: 2025-11-20}]")
    for given, verdict in ((None, "fail"), (file, "pass")):
        (made,) = read(Source(run.folder), waivers=given).entries
        assert (made.verdict, made.runs[0].verdict) == (verdict, verdict)


def test_a_malformed_waiver_is_the_reviewer_s_mistake(run, tmp_path):
    file = tmp_path / "waivers.yaml"
    file.write_text("waivers: [{rule: divison.2, reason: agreed, reviewer: A. Reviewer, date: 2025-11-20}]")
    with pytest.raises(UserError, match=r"^--waivers waivers\.yaml:1: expected the id of a rule, found divison\.2; "):
        read(Source(run.folder), waivers=file)


@pytest.mark.parametrize("length", [199, 200, 201])
def test_verdict_is_that_of_a_result_far_below(run, tmp_path, length):
    MUTANTS["measurement.3"][0](run)
    deep = "/".join(("a" * 100, "b" * (length - 101)))
    shutil.copytree(run.folder, tmp_path / "all" / deep)
    (made,) = read(Source(tmp_path / "all")).entries
    assert (made.path, made.verdict) == (deep, "fail")
    assert made.findings > 0


def sealed(folder, org="some-org"):
    """A seal that speaks for the result `box` in `folder`."""
    write_seal(folder, org=org, category="preview", results=[{"path": "results/box/small", "system": "one"}])


def test_seal_names_what_the_log_leaves_open(run, tmp_path):
    run.edit("submission_org", lambda record: record.update(value="unknown"))
    shutil.copytree(run.folder, tmp_path / "all" / "results" / "box" / "small")
    sealed(tmp_path / "all")
    (made,) = read(Source(tmp_path / "all")).entries
    assert (made.submitter, made.system, made.status) == ("some-org", "one", "Preview")


def test_seal_does_not_take_another_s_run(run, tmp_path):
    shutil.copytree(run.folder, tmp_path / "all" / "results" / "box" / "small")
    sealed(tmp_path / "all")
    assert read(Source(tmp_path / "all")).entries[0].submitter == "someone"


def test_seal_that_cannot_be_read_names_nothing(run, tmp_path):
    shutil.copytree(run.folder, tmp_path / "all" / "results" / "box" / "small")
    sealed(tmp_path / "all", org="two  spaces")
    (made,) = read(Source(tmp_path / "all")).entries
    assert (made.submitter, made.system, made.verdict) == ("someone", "cpu", "fail")


def test_a_link_in_a_package_counts_against_its_results(run, tmp_path):
    shutil.copytree(run.folder, tmp_path / "all" / "results" / "box" / "small")
    sealed(tmp_path / "all")
    (before,) = read(Source(tmp_path / "all")).entries
    (tmp_path / "all" / "benchmarks").mkdir()
    (tmp_path / "all" / "benchmarks" / "more").symlink_to(tmp_path)
    (made,) = read(Source(tmp_path / "all")).entries
    assert made.findings == before.findings + 1


def test_mlperf_s_results_by_their_own_rules(tmp_path):
    maker.package(tmp_path)
    (made,) = read(Source(tmp_path, maker.RULESET)).entries
    assert (made.benchmark, made.submitter, made.system) == (maker.BENCHMARK, maker.ORG, maker.SYSTEM)
    assert (made.verdict, made.reached, made.runs_needed, made.division) == ("pass", 10, 10, "closed")
    assert made.seconds == pytest.approx(sum(sorted(each.summary.seconds for each in made.runs)[1:-1]) / 8)
    assert made.runs[0].summary.samples == 2688
    assert made.runs[0].summary.quality == made.runs[0].history.points[-1].quality
    assert (made.cost, made.joules, made.energy_source) == (None, None, None)


def test_log_that_does_not_comply_is_not_said_to_have_reached_its_target(tmp_path):
    folder = maker.package(tmp_path)
    entries = [each for each in maker.entries(seed=11) if each["key"] != "eval_accuracy"]
    (folder / "result_3.txt").write_text(maker.text(entries))
    (made,) = read(Source(tmp_path, maker.RULESET)).entries
    assert (made.reached, made.verdict) == (9, "pass")
    assert made.lost == "NOT COMPLIANT"


def test_log_that_names_no_benchmark_counts_for_one_of_its_folder_s(tmp_path):
    """For the one that its review scores it with: the most frequent."""
    folder = maker.package(tmp_path, runs=3)
    for name, benchmark in (("result_2.txt", None), ("result_3.txt", "another")):
        entries = maker.entries(seed=11)
        maker.find(entries, "submission_benchmark")["value"] = benchmark
        (folder / name).write_text(maker.text(entries))
    made = read(Source(tmp_path, maker.RULESET))
    assert [(each.benchmark, len(each.runs)) for each in made.entries] == [(maker.BENCHMARK, 3), ("another", 1)]
    assert [each["logs"] for each in made.report.scores] == [3, 1]


@pytest.mark.parametrize(
    ("breach", "verdict", "rule"),
    [
        (lambda folder: (folder / "result_9.txt").unlink(), "fail", "runs"),
        (lambda folder: (folder / "result_x.txt").symlink_to("result_1.txt"), "error", "file"),
        (lambda folder: next(folder.parents[2].glob("systems/*")).unlink(), "fail", "system"),
    ],
)
def test_mlperf_s_result_has_its_review_s_verdict(tmp_path, breach, verdict, rule):
    breach(maker.package(tmp_path))
    file = tmp_path / "waivers.yaml"
    waiver = {"rule": f"{maker.RULESET}/{rule}", "reason": "agreed", "reviewer": "A. Reviewer", "date": "2025-11-20"}
    file.write_text(json.dumps({"waivers": [waiver]}))
    for waivers, expected in ((None, (verdict, 1)), (file, ("pass", 0))):
        made = read(Source(tmp_path, maker.RULESET), waivers=waivers)
        (entry,) = made.entries
        assert (entry.verdict, entry.findings) == expected
        assert made.report.verdict == entry.verdict


def test_mlperf_s_result_far_below_has_its_review_s_verdict_and_its_curves(tmp_path):
    """A path is never cut, or what is found of a log would be of another result."""
    folder = maker.package(tmp_path / "made")
    (folder / "result_9.txt").unlink()
    os.mkfifo(folder / "result_9.txt")
    deep = tmp_path / "all" / ("a" * 100) / ("b" * 100)
    deep.parent.mkdir(parents=True)
    shutil.move(folder, deep)
    made = read(Source(tmp_path / "all", maker.RULESET))
    (entry,) = made.entries
    assert (made.report.verdict, entry.verdict, entry.findings) == ("error", "error", 1)
    assert (tmp_path / "all" / entry.path) == deep
    assert [len(each.history.points) for each in entry.runs] == [4] * 9 + [0]


@pytest.mark.parametrize(
    ("described", "machine", "accelerators"),
    [
        ({"accelerators_per_node": "8", "accelerator_model_name": "X", "number_of_nodes": "2"}, "2 x 8 x X", 16),
        ({"accelerators_per_node": 4, "accelerator_model_name": "X", "number_of_nodes": 1}, "4 x X", 4),
        ({"accelerators_per_node": "eight", "host_processor_model_name": "Y"}, "? logical CPUs of Y", None),
        ({"host_processor_model_name": "Y", "host_processor_vcpu_count": 1}, "1 logical CPU of Y", None),
        ({"accelerators_per_node": "9" * 50}, "not known", None),
        ({"accelerators_per_node": ["8"], "number_of_nodes": {}}, "not known", None),
    ],
)
def test_machine_of_a_description(described, machine, accelerators, tmp_path):
    maker.package(tmp_path)
    (tmp_path / maker.ORG / "systems" / f"{maker.SYSTEM}.json").write_text(json.dumps(described))
    (made,) = read(Source(tmp_path, maker.RULESET)).entries
    assert (made.machine, made.accelerators) == (machine, accelerators)


def test_words_name_sources_and_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b").mkdir()
    named, data = sources(["a=b", "mlperf-5.1=c", "data_dir=d"])
    assert [(each.ruleset, str(each.folder)) for each in named] == [("suite", "a=b"), ("mlperf-5.1", "c")]
    assert data == "d"
    monkeypatch.setenv("HOME", "home")
    assert sources(["mlperf-5.1=~/c"])[0][0].folder == Path("home/c")
    with pytest.raises(UserError, match="did you mean 'data_dir'"):
        sources(["x", "datadir=d"])
    with pytest.raises(UserError, match="no results"):
        sources(["data_dir=d"])


def test_figures_that_cannot_be_are_not_known(run):
    run.edit("suite_cost", lambda record: record.update(value=1e308))
    run.edit("suite_energy", lambda record: record.update(value=-5.0))
    run.edit("run_stop", lambda record: record.update(time_ms=0))
    (made,) = read(Source(run.folder)).entries
    assert (made.cost, made.joules, made.seconds) == (None, None, None)
    assert (made.reached, made.verdict) == (0, "fail")


def test_mlperf_s_folder_of_an_odd_name_is_read(tmp_path):
    folder = maker.package(tmp_path)
    odd = folder.rename(folder.with_name("b\x1b[2J\u202e<b>"))
    (odd / "scaling.json").write_text(json.dumps({"scaling_factor": 1e300}))
    (made,) = read(Source(tmp_path, maker.RULESET)).entries
    assert (made.reached, made.seconds) == (10, None)
    assert made.path.isprintable()


def test_noise_is_told_as_the_log_has_it(run):
    reasons = ["others took 20 %", "the clock was low"]
    run.edit(
        "suite_environment", lambda record: (record.update(value="noisy"), record["metadata"].update(reasons=reasons))
    )
    (made,) = read(Source(run.folder)).entries
    assert (made.noisy, made.runs[0].summary.noise) == (1, ("others took 20 %; the clock was low",))


@pytest.mark.parametrize(
    ("mutate", "reason"),
    [
        (outcome.not_looked_at, "not looked at before the run"),
        (outcome.not_looked_at_while_it_ran, "not looked at during the run"),
        (outcome.noisy_by_its_samples, "other processes took 50.0% of the CPUs"),
    ],
)
def test_noise_that_the_log_does_not_tell_is_told(run, mutate, reason):
    mutate(run)
    (made,) = read(Source(run.folder)).entries
    assert (made.noisy, made.runs[0].summary.noise) == (1, (reason,))
    assert "1 of 1 NOISY" in remarks(made)


def test_an_energy_is_of_what_its_log_says(run):
    run.edit(logkeys.ENERGY, lambda record: record["metadata"].update(source="nvml", covers=["accelerator"]))
    (made,) = read(Source(run.folder)).entries
    assert made.boundaries == {("accelerator",)}
