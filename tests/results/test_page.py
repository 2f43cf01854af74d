"""The page as text: what it says of each result, that nothing of it is markup, and that its colours can be read."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.record.history import History, Point
from suite.results.exporting import as_csv, as_json
from suite.results.links import link
from suite.results.page import MAX_POINTS, drawings, html, ratios, thinned
from tests.results.maker import HOSTILE, entry, everywhere, run
from tests.review.page import ATTRIBUTES, TAGS, Page, has_policy

PAGE = Path("results.html")
OWN_TAGS = TAGS | {"form", "label", "input", "select", "option", "button", "output", "bdi"}
OWN_ATTRIBUTES = ATTRIBUTES | set(
    re.findall(
        r"[\w-]+",
        """hidden type autocomplete value selected aria-live open data-n data-filter data-benchmark data-contest
    data-division data-submitter data-framework data-implementation data-seeds data-ruleset data-verdict data-system
    data-seconds data-marked data-short data-machine data-by data-label data-held data-unit""",
    )
)
STYLES = Path(__file__).resolve().parents[2] / "suite" / "plots" / "page.css"


class Board(Page):
    """The elements and the text of a results page."""

    def handle_starttag(self, tag, attributes):
        super().handle_starttag(tag, attributes)
        if tag == "input":
            self._open.pop()


def page_of(entries, **options):
    page = Board(
        html(entries, PAGE, {(each.source, each.ruleset): Path("reviews/1.html") for each in entries}, **options)
    )
    assert set(page.tags) <= OWN_TAGS
    assert {name for name, _ in page.attributes} <= OWN_ATTRIBUTES
    links = [value for name, value in page.attributes if name == "href"]
    assert all(re.fullmatch(r"#result-\d+|\./[\w./%~-]*", value) for value in links), links
    has_policy(page)
    return page


def test_says_everything_of_a_result():
    page = page_of([entry(100.0)])
    for text in (
        "vision/small",
        "box",
        "example-org",
        "8 x an accelerator",
        "torch",
        "closed",
        "100.0 s",
        "99.0 s to 101.0 s",
        "$0.027778",
        "10 kJ (nvml)",
        "3 of 3",
        "pass",
    ):
        assert text in page.text
    assert ("href", "./submissions/results/box") in page.attributes
    assert ("href", "./reviews/1.html") in page.attributes
    assert page.tags.count("polyline") == 1 + 2 * 3  # the front, and each run over samples and over time


def test_runs_are_called_alike_in_table_and_legends():
    named = [run(path=f"results/box/run_{at}/log.txt", seed=at + 6) for at in (1, 2)]
    theirs = [run(path=f"results/box/result_{at}.txt", seed=None) for at in (3, 4)]
    page = page_of([entry(runs=tuple(named)), entry(runs=tuple(theirs))])
    assert [page.text.count(name) for name in ("run_1", "run_2", "result_3.txt", "result_4.txt")] == [1 + 2] * 4
    assert "run_1, seed 7" in page.text


def test_marks_stand_wherever_a_figure_does():
    lost, noisy = run(5.0, reached=False), run(9.0, noise=("others took 20 %",))
    doubtful = entry(10.0, verdict="fail", runs=(lost, noisy, run(), run()))
    page = page_of([doubtful, entry(None, runs=(lost,))])
    assert page.text.count("1 of 4 NOT REACHED") == page.text.count("1 of 4 NOISY") == 3  # table, dot, heading
    assert page.text.count("NO SCORE") == 2 + 1  # without a score there is no dot; and what the mark means
    assert page.text.count("NOT COMPLIANT") == 3 + 1  # and what the mark means
    assert page_of([entry(10.0, unheld=True)]).text.count("NO REFERENCE POINTS") == 3 + 1
    assert "others took 20 %" in page.text
    names = [value for name, value in page.attributes if name == "aria-label" and "box" in value]
    assert all("NOT REACHED" in name for name in names)


def test_score_that_is_no_olympic_mean_is_marked_wherever_it_stands():
    made = entry(11.0, normalisation=1.1, runs=tuple(run(10.0) for _ in range(3)))
    assert page_of([made]).text.count("olympic mean of 3 runs times 1.1") == 3  # table, dot, result
    assert "runs times" not in page_of([entry(11.0), replace(made, seconds=None)]).text
    (row,) = csv.DictReader(io.StringIO(as_csv([made], PAGE)))
    assert (row["seconds"], row["normalisation"]) == ("11.0", "1.1")
    assert float(row["seconds_min"]) == float(row["seconds_max"]) == pytest.approx(11.0)
    assert json.loads(as_json([made], PAGE))["results"][0]["normalisation"] == 1.1


def test_estimated_energy_is_marked_wherever_it_stands():
    page = page_of([entry(runs=tuple(run(joules=5.0, energy_source="estimated") for _ in range(3)))])
    assert page.text.count("~ 5 J (estimated)") == page.text.count("5 J") == 2 + 3  # the table, the result, its runs
    page = page_of([entry(runs=tuple(run(joules=5.0, energy_source="nvml+rapl+estimated") for _ in range(3)))])
    assert page.text.count("~ 5 J") == page.text.count("5 J") == 2 + 3


def test_energy_of_a_part_and_a_price_of_ones_own_are_marked_wherever_they_stand():
    runs = tuple(run(seed=at, coverage=0.16) for at in (1, 2, 3))
    marked = entry(runs=runs, own_price=True)
    page = page_of([marked])
    assert page.text.count("16 % of the time") == 1 + 1 + 3  # table, heading, runs
    assert page.text.count("3 of 3 ENERGY IN PART") == page.text.count("OWN PRICE") - 1 == 3  # table, dot, heading
    assert "at a price of the submitter's own: 1" in page.text
    (row,) = csv.DictReader(io.StringIO(as_csv([marked], PAGE)))
    assert (row["coverage"], row["own_price"]) == ("0.16", "True")
    assert row["remarks"] == "3 of 3 ENERGY IN PART; OWN PRICE"
    (result,) = json.loads(as_json([marked], PAGE))["results"]
    assert [each["coverage"] for each in result["runs"]] == [0.16] * 3


def test_ratio_is_that_of_the_reference_s_best_compliant_result_of_the_benchmark():
    entries = [
        entry(20.0, system="a"),
        entry(10.0, system="a", framework="tensorflow"),
        entry(1.0, system="a", verdict="fail"),
        entry(5.0, system="b"),
        entry(5.0, system="b", benchmark="text/small"),
        entry(None, system="b"),
    ]
    assert ratios(entries, "example-org: a") == [0.5, 1.0, 10.0, 2.0, None, None]
    assert ratios(entries, None) == [None] * 6
    assert ">1230</td>" in html([entry(12345.0, system="a"), entry(10.0)], PAGE, {}, "example-org: a")
    assert "selected" in dict(page_of(entries, reference="example-org: a").attributes)


def test_machines_that_bear_one_name_are_systems_of_their_own():
    one, two = (
        entry(seconds, system="h100x8", machine=f"{nodes}8 x H100") for seconds, nodes in ((20.0, ""), (8.0, "2 x "))
    )
    entries = [one, two, entry(5.0, system="b")]
    assert ratios(entries, "example-org: h100x8 (8 x H100)") == [1.0, 2.5, 4.0]
    text = page_of(entries, reference="example-org: b").text
    assert "example-org: h100x8 (8 x H100)" in text
    assert "example-org: h100x8 (2 x 8 x H100)" in text


def test_a_reference_that_nothing_is_held_to_is_said():
    text = page_of([entry(10.0, system="a")], reference="example-org: a").text
    assert "No other system than example-org: a has a compliant result" in text
    assert "With --reference" not in text


def test_a_drawing_says_which_currency_the_others_lack():
    euros = entry(10.0, runs=(run(10.0, currency="EUR"),) * 3)
    text = page_of([entry(5.0), euros]).text
    for currency in ("EUR", "USD"):
        assert f"not shown: 1 without a score or a cost in {currency} above 0" in text


@pytest.mark.parametrize("evil", HOSTILE)
def test_nothing_of_a_result_is_markup(evil):
    page = page_of([everywhere(evil)])
    if len(evil) < 100:
        assert page.text.count(" ".join(evil.split())) >= 8


@settings(max_examples=50)
@given(st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=60))
def test_no_text_is_markup(evil):
    page_of([everywhere(evil)])


@pytest.mark.parametrize("path", ["javascript:alert(1)", "//example.org", "a b/ü?x=1#y", "..", "%2e%2e"])
def test_link_is_never_anything_but_a_path(path, tmp_path):
    made = link(tmp_path / "page.html", tmp_path / "submissions", path)
    assert re.fullmatch(r"\./[\w./%~-]*", made)
    assert (tmp_path / unquote(made)).resolve() == (tmp_path / "submissions" / path).resolve()


def test_curves_of_many_evaluations_are_thinned_to_their_end():
    points = tuple(Point(float(at), at, at / 1000) for at in range(399))
    kept = thinned(run(history=History(points=points))).history.points
    assert len(kept) <= MAX_POINTS
    assert kept[-1] == points[-1]
    for few in (run(), run(history=History())):
        assert thinned(few) == few


def test_curves_are_named_by_their_runs_and_how_these_ended():
    ended = (run(path="log.txt", seed=1), run(reached=False), run(noise=("others",)), run(path="a/b.txt", seed=None))
    for drawn in drawings(entry(runs=ended)):
        names = [curve.name for curve in drawn.curves]
        assert names == ["log.txt", "run_1, NOT REACHED", "run_1, NOISY", "b.txt"]


def test_says_of_how_many_runs_the_curves_are():
    assert "20 runs, with curves</summary>" in html([entry(runs=(run(),) * 20)], PAGE, {})
    assert "21 runs, with curves of the first 20</summary>" in html([entry(runs=(run(),) * 21)], PAGE, {})


def test_without_results_there_is_a_page():
    assert "0 results of 0 systems" in page_of([]).text


def test_csv_has_a_row_for_each_result_and_no_formula():
    evil = entry(system="=1+1", submitter="-x", machine="a, b", runs=(run(noise=("x",)), run(3.0, reached=False)))
    rows = list(csv.DictReader(io.StringIO(as_csv([evil, entry(None)], PAGE))))
    assert (rows[0]["system"], rows[0]["submitter"], rows[0]["machine"]) == ("'=1+1", "'-x", "a, b")
    assert (rows[0]["reached"], rows[0]["noisy"], rows[0]["remarks"]) == (
        "1",
        "1",
        "1 of 2 NOT REACHED; 2 OF 3 RUNS; 1 of 2 NOISY",
    )
    assert (rows[1]["seconds"], rows[1]["cost"], rows[1]["remarks"]) == ("", "", "NO SCORE")
    assert rows[1]["evidence"] == "submissions/results/box"


FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


@given(st.text(alphabet="a1=+-@\uff1d;,|:\t\r\n \"'", max_size=12))
def test_no_cell_becomes_a_formula_whatever_separates_cells(evil):
    """Read with quotes as CSV has them, and without any."""
    lines = as_csv([entry(system=evil, machine=f"a{evil}")], PAGE).splitlines()[1:]
    for separator in ",;|:\t ":
        cells = [cell for line in lines for cell in line.split(separator)]
        cells += [cell for row in csv.reader(lines, delimiter=separator) for cell in row]
        found = [
            cell for cell in cells if cell.strip("\"' \t").startswith(FORMULA) and "'" not in cell.partition("=")[0]
        ]
        assert [cell for cell in found if separator != " " or len(cell) > 1] == []


def test_a_cell_that_a_semicolon_splits_and_a_processor_s_name():
    (row,) = csv.DictReader(io.StringIO(as_csv([entry(system="a;=1+1", machine="Xeon @ 2.20GHz")], PAGE)))
    assert (row["system"], row["machine"]) == ("a;'=1+1", "Xeon @ 2.20GHz")


def test_json_has_every_run_and_evaluation():
    made = json.loads(as_json([entry(10.0)], PAGE))["results"][0]
    assert (made["benchmark"], made["seconds"], made["number"]) == ("vision/small", 10.0, 1)
    assert [each["seed"] for each in made["runs"]] == [1, 2, 3]
    assert made["runs"][0]["evaluations"][-1] == {"seconds": 5.0, "samples": 500, "quality": 0.5}
    assert made["runs"][0]["left_out"] == 0


def test_json_marks_only_a_run_that_did_not_reach_its_target():
    (made,) = json.loads(as_json([entry(runs=(run(), run(reached=False)))], PAGE))["results"]
    assert [each["lost"] for each in made["runs"]] == [None, "NOT REACHED"]


@pytest.mark.parametrize("scheme", [0, 1])
def test_colours_contrast_with_their_ground(scheme):
    """WCAG 2.2, 1.4.3: at least 4.5 to 1 for text, in the light and in the dark scheme."""
    blocks = re.findall(r":root \{(.*?)\}", STYLES.read_text(), re.S)
    colours = dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{3,6})", blocks[scheme]))
    for ground in ("paper", "soft"):
        for ink in ("ink", "dim", "fail", "pass", "error", "note"):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)


def contrast(a, b):
    bright, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_utilisation_is_the_share_of_the_peak_that_the_models_work_took(tmp_path):
    """500 samples of 4 GFLOP in 9, 10 and 11 s against 1 TFLOP/s: 20 % in the run that the olympic mean keeps."""
    known, unknown = entry(flops=4e9, peak_flops=1e12), entry()
    assert known.utilisation == pytest.approx(0.2)
    assert unknown.utilisation is None
    page = html([known, unknown], tmp_path / "results.html", {})
    assert page.count("% of the peak FLOPs used") == 1
    assert "20 % of the peak FLOPs used" in page
    shown = [result["utilisation"] for result in json.loads(as_json([known, unknown], tmp_path / "x.html"))["results"]]
    assert shown == [pytest.approx(0.2), None]
