"""Each bench runs at its smallest size and prints a ratio; what the ratio is, a quiet machine tells."""

import json
import lzma
import math

import pytest

from suite.errors import UserError
from tests.bench import brick_calls, bricks, bricks_private, full, kills, loader, mlperf, overhead, probe, scaling
from tests.mlperf import maker, official


@pytest.fixture
def corpus(tmp_path):
    """A corpus of one round: three logs, of which one lacks its batch size."""
    results = maker.package(tmp_path / "v6.1", runs=3)
    incomplete = [entry for entry in maker.entries() if entry["key"] != "global_batch_size"]
    (results / "result_2.txt").write_text(maker.text(incomplete))
    below = results.relative_to(tmp_path / "v6.1")
    rows = [f"v6.1,{below}/result_{at}.txt,{said}," for at, said in enumerate(("PASS", "PASS", "FAIL"))]
    write_verdicts(tmp_path, rows)
    return tmp_path


def write_verdicts(folder, rows):
    with lzma.open(folder / official.VERDICTS, "wt") as file:
        file.write("\n".join(["round,path,verdict,first_error", *rows]))


FULL = ("language_modeling", "image_classification", "translation")


def test_processes_that_have_no_data_end_the_bench_of_scaling(tmp_path, monkeypatch):
    for name, value in {"SUITE_DATA": tmp_path, "https_proxy": "http://127.0.0.1:9"}.items():
        monkeypatch.setenv(name, str(value))
    for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):  # which it sets
        monkeypatch.setenv(name, "1")
    with pytest.raises(UserError, match=r"MovieLens 100K: .* is missing"):
        scaling.samples_per_second("recommendation", "torch", "small", scaling.WAYS["apart"], 1)


@pytest.mark.slow
def test_the_harness_is_held_against_a_bare_loop(capsys):
    assert overhead.main(["--pairs", "1", "--samples", "2000", "--scale", "mini", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    (pair,) = made["runs"]
    assert made["median_ratio"] == pair["ratio"] == pair["harness"] / pair["bare"] > 0


@pytest.mark.parametrize(("options", "timed"), [([], 3), (["--logs", "1"], 1)])
def test_the_review_of_mlperf_logs_is_held_against_the_official_checker(corpus, capsys, options, timed):
    assert mlperf.main([str(corpus), "--json", *options]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["round"], row["logs"], row["equal"], row["timed"]) == ("v6.1", 3, 3, timed)
    assert row["ratio"] == pytest.approx(row["ours"] / row["official"])


def test_a_verdict_that_is_not_the_official_one_fails(corpus, capsys):
    rows = [f"v6.1,{path},PASS," for path in official.recorded(corpus, "v6.1")]
    write_verdicts(corpus, rows)
    assert mlperf.main([str(corpus)]) == 1
    assert capsys.readouterr().out.splitlines()[-1].split()[:4] == ["v6.1", "3", "2", "3"]


def test_without_logs_the_bench_says_what_it_needs(tmp_path, capsys):
    assert mlperf.main([str(tmp_path)]) == 0
    assert "give the folder" in capsys.readouterr().out


@pytest.mark.soak
def test_a_killed_run_is_held_to_an_undisturbed_one_and_the_same_command_goes_on(tmp_path, capsys):
    options = ("--tasks", "recommendation", "--frameworks", "torch", "--folder", str(tmp_path))
    assert kills.main([*options, "--kills", "1"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert next(line for line in said if line.startswith("recommendation torch  1 ")).endswith("yes")
    assert kills.main([*options, "--kills", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sum("killed" in row for row in rows) == 1
    assert [row["differences"] for row in rows if "differences" in row] == [[]]
    log = next(tmp_path.glob("*/cut_1/log.txt"))
    log.write_text(log.read_text().replace('"loss": ', '"loss": 1', 1))
    assert kills.differences(log.parent, log.parent.parent / "whole")


@pytest.mark.soak
def test_the_probe_s_own_cost_is_told_of_each_level(capsys):
    workload = ("--tasks", "image_classification", "--frameworks", "torch")
    assert probe.main(["levels", *workload, "--seconds", "0.02", "--repeats", "1", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["level"] for row in rows] == [*probe.LEVELS]
    assert all(row["overhead"].endswith(" x") for row in rows)


@pytest.mark.slow
def test_the_loaders_of_all_full_benchmarks_are_held_to_what_is_taken(capsys, tmp_path):
    assert loader.main(["--size", "40", "--seconds", "0.2", "--folder", str(tmp_path)]) == 0
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[0] for row in rows] == [f"{name}/full" for name in FULL]
    for _, of_cpu, warm, cold, disk, taken, cpus, _ in rows:
        given = float(of_cpu.replace(",", ""))
        assert float(warm.replace(",", "")) > 0
        assert all(told == "not known" or float(told.replace(",", "")) > 0 for told in (cold, disk))
        assert float(cpus.replace(",", "")) == pytest.approx(float(taken.replace(",", "")) / given, abs=0.01, rel=0.05)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak
def test_bricks_are_held_to_their_models(capsys):
    assert bricks.main(["squeezenet1_1", "--rounds", "1", "--json"]) == 0
    counted, row, mean, *_ = capsys.readouterr().out.splitlines()
    assert counted == "1 models: 66 calls, 38 unique bricks of 66"
    found = json.loads(row)
    assert found["ratio"] == pytest.approx(found["composed ms"] / found["true ms"], rel=0.01)
    assert mean.startswith(f"composed / true: geometric mean {found['ratio']:.3f}")


@pytest.mark.soak
def test_operators_in_a_model_stand_beside_their_bricks(capsys):
    brick_calls.main(["squeezenet1_1", "--rounds", "1"])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert {row[0]: row[1] for row in rows if row[0] in ("F.conv2d", "F.relu", "all")} == {
        "F.conv2d": "26", "F.relu": "26", "all": "66"
    }  # fmt: skip
    *parts, whole = ([float(each) for each in row[2:]] for row in rows[2:])
    assert [sum(column) for column in zip(*parts, strict=True)] == pytest.approx(whole, abs=0.01)


@pytest.mark.soak
def test_private_bricks_are_put_in_order_by_their_shapes(capsys):
    assert bricks_private.main(["vgg11", "alexnet", "--decoys", "0"]) == 0
    vgg, alexnet, mean = capsys.readouterr().out.splitlines()
    assert vgg.startswith("model=vgg11 decoys=0 bricks=24 links=1 whole=True")
    assert alexnet.startswith("model=alexnet decoys=0 bricks=20 ")
    assert mean.startswith("0 decoys a brick, 2 models: links ")


@pytest.mark.slow
def test_steps_of_a_full_model_are_timed_on_made_up_data(capsys):
    few = ("norm_batch_size=4", "global_batch_size=8", "image_size=64")
    changed = [word for each in few for word in ("--set", each)]
    assert full.main(["--tasks", "image_classification", "--seconds", "0.1", "--json", *changed]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["samples/s"] == pytest.approx(8000 / row["a step, ms"])
    assert row["last loss"] == pytest.approx(math.log(1000), rel=0.1)
    assert row["MFU"] is None  # of another model than the declared operations are
