"""Markdown tables and SVG curves, for documents."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from suite.plots.curves import svg
from suite.record.history import History, Point
from suite.results.curves import figures
from suite.results.markdown import markdown, text
from tests.results.maker import HOSTILE, entry, everywhere, run

SVG = "{http://www.w3.org/2000/svg}"


def cells(source):
    """The rows of each table, as their readers see them."""
    tables, row = [], []
    for token in MarkdownIt("commonmark").enable("table").parse(source):
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            row = []
        elif token.type == "inline" and tables and token.level > 2:
            row.append("".join(child.content for child in token.children))
        elif token.type == "tr_close":
            tables[-1].append(row)
    return tables


def test_a_row_for_each_run_and_one_for_each_framework():
    lost = run(50.0, seed=9, reached=False, samples=900, quality=0.5)
    noisy = run(11.0, seed=2, noise=("others took 20 %",), joules=7.0, energy_source="estimated")
    source = markdown([entry(runs=(lost, noisy, run(12.0, seed=3))), entry(20.0, framework="tensorflow")])
    assert "**vision/small** on box (8 x an accelerator) in bf16 by example-org, closed; target: accuracy 0.9" in source
    runs, frameworks = cells(source)
    by_seed = {(row[0], row[1]): row for row in runs[1:]}
    assert by_seed["torch", "9"][2:6] == ["NOT REACHED", "none; ended after 50.0 s", "none; ended after 900", "0.5"]
    assert by_seed["torch", "2"][2:5] == ["yes", "11.0 s", "500"]
    assert by_seed["torch", "2"][6] == "~ 7 J (estimated)"
    assert by_seed["torch", "2"][8] == "NOISY: others took 20 %"
    assert [row[:4] for row in frameworks[1:]] == [
        ["tensorflow", "3 of 3", "20.0 s", "20.0 s (19.0 s to 21.0 s)"],
        ["torch", "2 of 3", "10.0 s", "11.5 s (11.0 s to 12.0 s)"],
    ]
    assert [row[-1] for row in frameworks[1:]] == ["none", "1 of 3 NOT REACHED; 1 of 3 NOISY"]


def test_an_implementation_that_is_not_the_reference_is_named_beside_its_framework():
    own, none = entry(implementation="ours"), entry(implementation="not known")
    for table in cells(markdown([own, entry(), none])):
        assert {row[0] for row in table[1:]} == {"torch", "torch, ours"}


def test_what_mlperf_s_logs_do_not_tell_is_not_known():
    theirs = {"samples": None, "cost": None, "joules": None, "seed": None}
    made = entry(ruleset="mlperf-5.1", target=None, runs=(run(9.0, **theirs), run(11.0, verdict="fail", **theirs)))
    source = markdown([made])
    assert "closed, rules mlperf-5.1\n" in source
    runs, frameworks = cells(source)
    assert [row[-1] for row in runs[1:]] == ["pass", "fail"]
    assert runs[1][3:5] == ["9.0 s", "not known"]
    assert {row[8] for row in runs[1:]} == {"not known"}  # whether the machine was quiet
    assert frameworks[1][4:6] == ["not known", "not known"]


@pytest.mark.parametrize("differs", ["benchmark", "system", "machine", "precision", "submitter", "division", "ruleset"])
def test_results_that_differ_in_more_than_the_framework_are_not_pooled(differs):
    tables = cells(markdown([entry(10.0), entry(20.0, **{differs: "another"})]))
    assert sorted(table[1][2] for table in tables[1::2]) == ["10.0 s", "20.0 s"]


def test_results_of_other_hyperparameters_are_not_pooled():
    sizes = [{"config.benchmark.hyperparameters.global_batch_size": size} for size in ("64", "128")]
    source = markdown([entry(seconds, decided=each) for seconds, each in zip((10.0, 20.0), sizes, strict=True)])
    assert sorted(table[1][2] for table in cells(source)[1::2]) == ["10.0 s", "20.0 s"]
    assert source.index(" at batch size 128 by ") < source.index(" at batch size 64 by ")


def test_tables_say_in_what_they_differ():
    place = "config.benchmark.hyperparameters"
    rates = [{f"{place}.rate": rate, f"{place}.same": "3"} for rate in ("1", "2")]
    sooner = {**rates[0], "config.benchmark.evaluation.first": "300"}
    unlike = [{"decided": each} for each in (*rates, sooner)] + [{"part": 0.5}, {"ruleset": "mlperf-5.1"}]
    source = markdown([entry(**each) for each in unlike])
    box = "on box (8 x an accelerator) in bf16"
    by = "by example-org, closed"
    for head in (
        f"{box} at rate 1 {by};",
        f"{box} at rate 2 {by};",
        f"{box} at rate 1, evaluation.first 300 {by};",
        f"** with 0.5 of the data {box}",
        "rules mlperf-5.1;",
    ):
        assert source.count(head) == 1


def test_marks_and_factor_stand_beside_the_score():
    made = entry(11.0, normalisation=1.1, verdict="fail", runs=tuple(run(10.0, seed=at) for at in range(3)))
    _, frameworks = cells(markdown([made]))
    assert (frameworks[1][2], frameworks[1][-1]) == ("11.0 s (olympic mean of 3 runs times 1.1)", "NOT COMPLIANT")
    _, pooled = cells(markdown([made, replace(made, own_price=True)]))
    assert pooled[1][1:3] == ["6 of 6", "11.0 s (olympic mean of 6 runs times 1.1)"]
    assert pooled[1][-1] == "NOT COMPLIANT; OWN PRICE"
    _, unlike = cells(markdown([entry(10.0, clock="witnessed"), made]))  # with no factor that holds for both
    assert (unlike[1][1], unlike[1][2], unlike[1][-1]) == ("6 of 6", "no score", "NOT COMPLIANT; NO SCORE")
    assert unlike[1][-2] == "its own, witnessed"


def test_the_mean_of_two_runs_is_not_called_olympic():
    _, frameworks = cells(markdown([entry(10.0, runs=(run(9.0, seed=1), run(11.0, seed=2)))]))
    assert frameworks[1][2] == "10.0 s (mean of 2 runs)"
    assert frameworks[1][4].endswith(" (mean of 2 runs)")


def test_runs_of_several_folders_make_one_framework_s_row():
    single = [entry(seconds, runs=(run(seconds, seed=seed),)) for seed, seconds in enumerate((4.0, 5.0, 9.0))]
    _, frameworks = cells(markdown(single))
    assert frameworks[1][1:4] == ["3 of 3", "5.0 s", "5.0 s (4.0 s to 9.0 s)"]


def test_what_is_not_known_is_said_to_be():
    unknown = run(None, reached=False, seed=None, quality=None, samples=None)
    runs, frameworks = cells(markdown([entry(None, runs=(unknown,))]))
    assert runs[1][1:8] == [
        "not known",
        "NOT REACHED",
        "none; ended after not known",
        "none; ended after not known",
        "not known",
        "not known",
        "not known",
    ]
    assert frameworks[1][1:] == [
        *("0 of 1", "no score", "none", "no score", "none", "not known", "not known"),
        *("drawn", "its own", "1 of 1 NOT REACHED; NO SCORE; 1 OF 3 RUNS"),
    ]


@pytest.mark.parametrize("evil", HOSTILE)
def test_names_are_text_in_markdown(evil):
    rendered = MarkdownIt("commonmark", {"html": True}).render(text(evil))
    assert not re.search(r"<(?!/?p>)", rendered)
    runs, _ = cells(markdown([everywhere(evil)]))
    assert len(runs) == 4
    assert {len(row) for row in runs} == {10}


def test_addresses_are_no_links_where_a_document_makes_links_of_them():
    assert text("see https://a.example WWW.b.example") == r"see https\://a.example WWW\.b.example"


def test_curves_are_drawn_over_samples_and_over_time_by_framework():
    drawn = svg(figures([entry(), entry(framework="tensorflow"), entry(benchmark="text/small", target=None)]))
    root = ElementTree.fromstring(drawn)
    kinds = [each.get("class") for each in root.iter(f"{SVG}polyline")]
    # benchmarks in order: 3 runs of text/small twice, then 3 of each framework of vision/small twice
    assert kinds == ["curve k0"] * 6 + 2 * (["curve k1"] * 3 + ["curve k0"] * 3)
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert texts.count("target 0.9") == 2
    assert {"vision/small", "text/small", "accuracy over samples", "accuracy over seconds", "tensorflow"} <= set(texts)
    assert "prefers-color-scheme: dark" in drawn


def test_curve_ends_as_its_run_did():
    root = ElementTree.fromstring(svg(figures([entry(runs=(run(), run(reached=False), run(noise=("others",))))])))
    assert [each.get("class") for each in root.iter(f"{SVG}path")] == ["cross"] * 2
    assert [each.get("class") for each in root.iter(f"{SVG}circle")] == ["f0"] + ["dot f0", "ring f0"] * 2
    titles = [each.text for each in root.iter(f"{SVG}text") if each.get("class") == "title"]
    assert titles == ["vision/small: 1 of 3 NOT REACHED (cross), 1 of 3 NOISY (ring)"]


def test_millions_of_samples_are_written_in_full():
    history = History(points=(Point(1.0, 7_000_000, 0.1), Point(2.0, 8_000_000, 0.2)))
    texts = [
        each.text
        for each in ElementTree.fromstring(svg(figures([entry(runs=(run(history=history),))]))).iter(f"{SVG}text")
    ]
    assert "2,000,000" in texts


def test_run_without_evaluations_has_no_curve():
    drawn = svg(figures([entry(runs=(run(history=History()),))]))
    assert "No evaluation." in drawn
    (figure,) = figures([entry(runs=(run(history=History()), run(reached=False), run()))])
    assert (figure.ends, figure.remarks) == (["cross", "dot"], "1 of 2 NOT REACHED (cross)")


def test_curves_over_samples_are_drawn_only_where_those_of_all_runs_are_known():
    untold = History(points=(Point(1.0, None, 0.1),))
    (figure,) = figures([entry(runs=(run(), run(history=untold)))])
    assert [chart.axis for chart in figure.charts] == ["seconds"]


@pytest.mark.parametrize("evil", HOSTILE)
def test_names_are_text_in_curves(evil):
    root = ElementTree.fromstring(svg(figures([everywhere(evil)])))
    names = {each.tag.removeprefix(SVG) for each in root.iter()}
    assert names <= {"svg", "style", "rect", "g", "text", "line", "circle", "polyline", "path"}
    assert not any("://" in value or value.startswith("javascript") for e in root.iter() for value in e.attrib.values())


def test_energy_of_a_part_of_a_run_and_a_price_of_one_s_own_are_marked():
    part = run(seed=1, joules=7.5, energy_source="estimated", coverage=0.16)
    made = entry(runs=(part, run(seed=2, coverage=1.0)), own_price=True)
    runs, frameworks = cells(markdown([made]))
    assert [row[6] for row in runs[1:]] == ["~ 8 J (estimated, 16 % of the time)", "1000 J (nvml)"]
    assert "16 % of the time" in frameworks[1][6]
    assert frameworks[1][-1] == "2 OF 3 RUNS; 1 of 2 ENERGY IN PART; OWN PRICE"
