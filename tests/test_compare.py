"""`python -m suite.compare A B`: a difference is told from noise."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from suite.compare import main
from suite.errors import UserError
from suite.results.comparison import compare, format_interval, ratio_interval
from tests.command import refuses
from tests.command import run as run_command
from tests.mlperf import maker
from tests.results.maker import HOSTILE, entry, everywhere, run
from tests.rules.conftest import sound_result, sound_run  # noqa: F401
from tests.rules.editor import Evidence
from tests.rules.evidence_maker import isolate, write_result, write_run
from tests.rules.mutants import MUTANTS


def of(times, **changes):
    return entry(runs=tuple(run(seconds, seed=at) for at, seconds in enumerate(times)), **changes)


def figures(a, b):
    (made,) = compare([a], [b])
    return {figure.name: figure for figure in made.figures}


def test_clear_difference_is_told():
    slower = figures(of([10, 11, 12, 10, 11]), of([20, 21, 22, 20, 21]))["time to quality"]
    assert (slower.a, slower.b) == (10.8, 20.8)
    assert slower.ratio == pytest.approx(20.8 / 10.8)
    assert slower.says == "B is higher"
    assert slower.interval[0] < slower.ratio < slower.interval[1]
    assert figures(of([20, 21, 22]), of([10, 11, 12]))["time to quality"].says == "B is lower"


def test_difference_within_the_spread_is_noise():
    made = figures(of([10, 20, 30, 14, 25]), of([12, 22, 33, 15, 24]))["time to quality"]
    assert made.ratio > 1
    assert made.says.startswith("noise")


def test_too_few_runs_tell_nothing():
    made = figures(of([10, 11]), of([20, 21, 22]))["time to quality"]
    assert (made.ratio, made.interval) == (2.0, None)
    assert "too few runs" in made.says


@pytest.mark.parametrize("runs", [3, 5, 10])
def test_interval_covers_the_true_ratio_as_often_as_it_says(runs):
    """Of 2,000 pairs drawn with a true ratio of 1.2, and of 2,000 triples of such pairs."""
    draw = np.random.default_rng(0)
    for count in (1, 3):
        hits = 0
        for _ in range(2000):
            pairs = [(draw.normal(10, 1, runs), draw.normal(12, 1.2, runs)) for _ in range(count)]
            low, high = ratio_interval(*pairs)
            hits += low <= 1.2 <= high
        assert 1870 <= hits <= 1960


def test_interval_of_equal_runs_is_their_ratio():
    assert ratio_interval(([2.0] * 3, [3.0] * 4)) == (1.5, 1.5)
    low, high = ratio_interval(([2.0] * 3, [3.0, 3.0, 3.5]))
    assert 1 < low < 1.5 < 19 / 12 < high < 2  # one run that differs tells little of how runs do


def test_only_runs_that_reached_their_target_count_and_the_others_are_named():
    lost = entry(runs=(*(run(at, seed=at) for at in (10.0, 11.0, 12.0)), run(1.0, reached=False), run(9.0, noise="x")))
    (made,) = compare([lost], [of([10, 11, 12])])
    assert (made.a.reached, made.a.runs) == (4, 5)
    assert made.figures[0].a == 10.5
    assert made.a.remarks == ("1 of 5 NOT REACHED", "1 of 5 NOISY")


def test_a_remark_of_several_results_says_of_how_many():
    noisy = [entry(runs=(run(at, noise="x", seed=int(at)),)) for at in (10.0, 11.0, 12.0)]
    (made,) = compare(noisy, [of([10, 11, 12])])
    assert made.a.reached == 3
    assert made.a.remarks == ("3 results, each 1 OF 3 RUNS", "3 results, each 1 of 1 NOISY")


def test_runs_of_one_seed_are_named():
    (made,) = compare([entry(runs=tuple(run(at, seed=3) for at in (10.0, 11.0, 12.0)))], [of([10, 11, 12])])
    assert (made.a.remarks, made.b.remarks) == (("ONE SEED",), ())
    apart = [entry(runs=(run(at, seed=3),), runs_needed=None) for at in (10.0, 11.0, 12.0)]
    (made,) = compare(apart, [of([10, 11, 12])])
    assert made.a.remarks == ("ONE SEED",)


def test_energy_of_a_part_and_a_price_of_ones_own_are_named():
    part = entry(runs=tuple(run(at, coverage=0.2, seed=int(at)) for at in (10.0, 11.0, 12.0)), own_price=True)
    (made,) = compare([part], [of([10, 11, 12])])
    assert made.a.remarks == ("3 of 3 ENERGY IN PART", "OWN PRICE")
    found = {figure.name: figure for figure in made.figures}
    assert found["energy"].shown_a == "1100 J (nvml, 20 % of the time)"
    assert {found[name].says for name in ("energy", "cost")} == {"does not compare"}
    assert found["time to quality"].ratio


def test_what_is_not_known_of_a_run_is_not_compared():
    unknown = entry(runs=tuple(run(at, joules=None, currency=None, cost=None) for at in (10.0, 11.0, 12.0)))
    made = figures(of([10, 11, 12]), unknown)
    assert {made[name].says for name in ("energy", "cost")} == {"not known of both"}
    assert made["energy"].shown_b == "not known"
    partly = entry(runs=(*unknown.runs[:1], *of([11, 12]).runs))
    assert figures(partly, unknown)["energy"].shown_a == "not known"


def test_costs_in_two_currencies_are_not_compared():
    euros = entry(runs=tuple(run(at, currency="EUR") for at in (10.0, 11.0, 12.0)))
    cost = figures(of([10, 11, 12]), euros)["cost"]
    assert (cost.shown_a, cost.shown_b, cost.says) == ("$0.003056", "EUR 0.003056", "does not compare")
    mixed = entry(runs=(*euros.runs, *of([10, 11, 12]).runs))
    assert figures(mixed, euros)["cost"].shown_a == "not known"


def test_costs_of_nothing_are_known_and_have_no_ratio():
    free = entry(runs=tuple(run(at, cost=0.0) for at in (10.0, 11.0, 12.0)))
    cost = figures(free, free)["cost"]
    assert (cost.shown_a, cost.ratio, cost.says) == ("$0.000000", None, "does not compare")


@pytest.mark.parametrize("source", ["estimated", "nvml+estimated"])  # of all nodes, of one
def test_estimated_energy_is_marked(source):
    guessed = entry(runs=tuple(run(at, joules=5.0, energy_source=source) for at in (10.0, 11.0, 12.0)))
    assert guessed.estimated
    held = figures(of([10, 11, 12]), guessed)["energy"]
    assert (held.shown_b, held.ratio) == ("~ 5 J (estimated)", None)  # only one side's was measured
    assert figures(guessed, guessed)["energy"].ratio == 1


def test_energies_of_unlike_boundaries_are_not_compared():
    gpu, whole = (
        tuple(run(at, covers=covers) for at in (10, 11, 12)) for covers in (("accelerator",), ("accelerator", "cpu"))
    )
    assert figures(entry(runs=gpu), entry(runs=whole))["energy"].says == "does not compare"
    assert figures(entry(runs=gpu), entry(runs=(*gpu[:2], *whole[:1])))["energy"].ratio is None
    assert figures(entry(runs=whole), entry(runs=whole))["energy"].ratio == 1
    others = entry(runs=tuple(run(at, energy_source="rapl") for at in (10, 11, 12)))  # with no word on what it covers
    assert figures(of([10, 11, 12]), others)["energy"].says == "does not compare"
    untold = run(9, reached=False, joules=None, energy_source=None)
    assert figures(entry(runs=whole), entry(runs=(*whole, untold)))["energy"].ratio == 1
    guessed = (*(run(at, energy_source="estimated") for at in (10, 11, 12)), *[run(9, reached=False)] * 2)
    assert figures(of([10, 11, 12]), entry(None, runs=guessed))["energy"].ratio is None


def test_frameworks_are_compared_one_by_one_where_a_side_has_several():
    two = [of([10, 11, 12]), of([20, 21, 22], framework="tensorflow")]
    assert [made.benchmark for made in compare(two, two)] == ["vision/small, tensorflow", "vision/small, torch"]
    assert len(compare(two[:1], two[1:])) == 1  # one framework each: these are held to each other
    single = [of([seconds]) for seconds in (10, 11, 12)]
    assert compare(single, single)[0].a.runs == 3


@pytest.mark.parametrize("differs", ["system", "machine", "submitter", "division", "ruleset"])
def test_results_that_differ_are_not_pooled(differs):
    two = [of([10, 11, 12]), of([20, 21, 22], **{differs: "another"})]
    assert sorted(made.figures[0].a for made in compare(two, two)) == [11.0, 21.0]
    assert [made.figures[0].b for made in compare(two, two[1:])] == [21.0]
    with pytest.raises(UserError, match=f"several results of vision/small by {differs}, none like the other side's"):
        compare(two, [of([10, 11, 12], **{differs: "a third"})])


def test_results_of_other_hyperparameters_are_not_pooled():
    sizes = [{"config.benchmark.hyperparameters.global_batch_size": size} for size in ("64", "128")]
    two = [of([10, 11, 12], decided=sizes[0]), of([20, 21, 22], decided=sizes[1])]
    assert [(made.benchmark, made.figures[0].b) for made in compare(two, two)] == [
        ("vision/small, global_batch_size 128", 21.0),
        ("vision/small, global_batch_size 64", 11.0),
    ]
    assert len(compare(two[:1], two[1:])) == 1


def test_results_of_other_cadences_or_budgets_are_not_pooled():
    for name in ("evaluation.first", "evaluation.every", "budget_samples"):
        decided = [{f"config.benchmark.{name}": samples} for samples in ("300", "600")]
        two = [of([10, 11, 12], decided=decided[0]), of([20, 21, 22], decided=decided[1])]
        assert [made.benchmark for made in compare(two, two)] == [f"vision/small, {name} {at}" for at in ("300", "600")]


def test_what_tells_a_side_s_results_apart_need_not_be_the_other_s():
    two = [of([10, 11, 12], system="box_torch"), of([20, 21, 22], system="box_tf", framework="tensorflow")]
    assert [made.benchmark for made in compare(two, [of([10, 11, 12])])] == ["vision/small, torch"]


def test_prints_a_table(sound_result, tmp_path, capsys):  # noqa: F811
    write_result(tmp_path / "other", 3, seed=700)
    assert main([str(sound_result), str(tmp_path / "other")]) == 0
    printed = capsys.readouterr().out
    for text in ("image_classification/mini", "time to quality", "30.0 s", "noise", "5 of 5", "3 of 3", "estimated"):
        assert text in printed
    assert main([str(sound_result), str(tmp_path / "other"), "--json"]) == 0
    (made,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert made["figures"][0]["says"] == "noise: no difference is shown"


def test_what_the_reviewer_waives_is_excused(tmp_path, monkeypatch, capsys):
    isolate(monkeypatch, tmp_path)
    made = write_run(tmp_path / "run")
    MUTANTS["division.2"][0](made)
    file = tmp_path / "waivers.yaml"
    file.write_text("waivers: [{rule: division.2, reason: agreed, reviewer: A. Reviewer, date: 2025-11-20}]")
    words = [str(made.folder), str(made.folder)]
    for more, said in (([], True), (["--waivers", str(file)], False)):
        assert main([*words, *more]) == 0
        assert ("NOT COMPLIANT" in capsys.readouterr().out) == said


def test_several_benchmarks_are_summed_up_and_what_one_side_lacks_is_said(monkeypatch, capsys):
    sides = {
        "a": [of([10, 11, 12], benchmark="one/small"), of([40, 41, 42], benchmark="two/small")],
        "b": [of([10, 11, 12.1], benchmark=f"{name}/small") for name in ("one", "two", "three")],
    }
    read = lambda source, *_: SimpleNamespace(entries=sides[source.folder.name])  # noqa: E731
    monkeypatch.setattr("suite.compare.read", read)
    assert main(["a", "b"]) == 0
    printed = capsys.readouterr().out
    assert "geometric mean" in printed
    (row,) = (line for line in printed.splitlines() if "time to quality" in line and "2 of 2" in line)
    assert "only B holds three/small" in printed
    assert main(["a", "b", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    time = next(each for each in told["over all"] if each["name"] == "time to quality")
    assert time["ratio"] == pytest.approx((33.1 / 33 * 33.1 / 123) ** 0.5)
    assert time["interval"][0] < time["ratio"] < time["interval"][1]
    assert [cell.strip() for cell in row.split("│")[3:5]] == ["0.52", format_interval(time["interval"])]
    assert time["over"] == ["one/small", "two/small"]
    assert told["only"] == {"A": [], "B": ["three/small"]}


def test_compares_mlperf_s_results(tmp_path, capsys):
    maker.package(tmp_path)
    word = f"{maker.RULESET}={tmp_path}"
    assert main([word, word]) == 0
    assert f"{maker.SYSTEM}" in capsys.readouterr().out


@pytest.mark.parametrize("evil", HOSTILE)
def test_hostile_names_are_text(evil, sound_result, monkeypatch, capsys):  # noqa: F811
    made = SimpleNamespace(entries=[everywhere(evil)])
    monkeypatch.setattr("suite.compare.read", lambda source, *_: made)
    assert main(["a", "b"]) == 0
    assert "noise" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["a"], "1 results given"),
        (["a", ""], "an empty word follows a: give a value, or leave it out"),
        (["a", "b", "c"], "3 results given"),
        (["a", "b", "datadir=c"], "did you mean 'data_dir'"),
        (["a", "b", "--jsom"], "--jsom"),
        (["a", "b.zip"], "b.zip is an archive: unpack it"),
        (["nowhere", "nowhere"], "cannot review nowhere"),
    ],
)
def test_a_mistake_is_one_line(words, answer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.zip").touch()
    refuses(main, words, answer)


def test_nothing_in_common_is_a_mistake(sound_result, tmp_path):  # noqa: F811
    maker.package(tmp_path)
    with pytest.raises(UserError, match=f"holds image_classification/mini; .* holds {maker.BENCHMARK}"):
        main([str(sound_result), f"{maker.RULESET}={tmp_path}"])


def test_is_a_command(tmp_path):
    done = run_command(tmp_path, "suite.compare", "nowhere", "here")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_no_time_at_all_has_no_ratio():
    assert figures(of([0.0, 0.0, 0.0]), of([1, 2, 3]))["time to quality"].ratio is None
    assert ratio_interval(([0.0, 0.0, 0.0], [1.0, 2.0, 3.0])) is None


def test_what_decided_the_sides_and_differs_is_listed(sound_result, tmp_path, capsys):  # noqa: F811
    other = Path(shutil.copytree(sound_result, tmp_path / "other"))
    for index in range(1, 6):
        made = Evidence(other / f"run_{index}")
        made.edit_system(lambda values: values["environment"]["variables"].update(OMP_NUM_THREADS="64"))
        made.edit_config(lambda values: values.update(precision="fp32"))
    assert main([str(sound_result), str(other), "--json"]) == 0
    (compared,) = json.loads(capsys.readouterr().out)["comparisons"]
    differing = {name: (a, b) for name, a, b in compared["differences"]}
    assert differing.keys() == {"config.precision", "system.environment.variables.OMP_NUM_THREADS"}
    assert differing["config.precision"] == ("bf16", "fp32")
    assert main([str(sound_result), str(other)]) == 0
    assert "OMP_NUM_THREADS" in capsys.readouterr().out
    assert main([str(sound_result), str(sound_result)]) == 0
    assert "What differs" not in capsys.readouterr().out
