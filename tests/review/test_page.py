"""The HTML page: what it says, and that nothing of a submission is ever more than text in it."""

import re
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.errors import UserError
from suite.plots.charts import Group, chart
from suite.record.history import MAX_POINTS, History, Point
from suite.review.__main__ import main
from suite.review.model import report
from tests.review.page import HOSTILE, page_of, sound
from tests.rules.mutants import MUTANTS
from tests.rules.mutants.registry import index_of


def test_page_tells_everything_of_a_finding(run, tmp_path):
    MUTANTS["division.2"][0](run)
    page = page_of(run.folder, tmp_path)
    sound(page)
    (finding,) = [f for f in report(run.folder).as_json()["findings"] if f["rule"] == "division.2"]
    line = (run.folder / "config.yaml").read_text().splitlines()[finding["line"] - 1].strip()
    assert "FAIL: 1 finding against the rules" in page.text
    for text in (f"config.yaml:{finding['line']}", line, finding["expected"], finding["found"], finding["mend"]):
        assert text in page.text
    assert "a target or a cadence of one's own makes another contest" in page.text  # rules.md


def test_page_shows_the_runs_their_curves_and_their_intervals(sound_result, tmp_path):
    page = page_of(sound_result, tmp_path)
    sound(page)
    assert "PASS: no rule is broken" in page.text
    assert "a person: Training sees the training split alone" in page.text  # data.3
    for index in range(1, 6):
        assert page.text.count(f"run_{index}/log.txt") >= 4  # runs, two legends, a timeline
    assert page.tags.count("polyline") == 10
    assert sum(tag == "rect" for tag in page.tags) >= 5 * 7
    for text in ("30.0 s", "$0.000855", "(estimated)", "6,000", "quiet", "initialise", "evaluate", "target 0.98"):
        assert text in page.text


@pytest.mark.parametrize("evil", HOSTILE)
def test_nothing_of_a_submission_is_markup(run, tmp_path, evil):
    for key, place in (("seed", "value"), ("submission_platform", "value"), ("suite_environment", "value")):
        run.edit(key, lambda record, place=place: record.update({place: evil}))
    run.edit("run_stop", lambda record: record["metadata"].update(reason=evil, status=evil))
    run.edit("suite_environment", lambda record: record["metadata"].update(reasons=[evil]))
    run.edit("suite_cost", lambda record: record["metadata"].update(currency=evil))
    run.edit("suite_energy", lambda record: record["metadata"].update(source=evil))
    name = evil.replace("/", "_").replace("\0", "_")[:60].encode(errors="replace").decode()
    folder = run.folder.rename(tmp_path / name)
    (folder / f"{name}.txt").write_text("")
    page = page_of(folder, tmp_path)
    sound(page)
    if evil.isprintable() and len(evil) < 100:
        assert " ".join(evil.split()) in page.text


@settings(max_examples=30)
@given(
    evil=st.text(max_size=80),
    key=st.sampled_from(["submission_org", "suite_dataset", "eval_accuracy", "global_batch_size"]),
)
def test_no_text_is_markup(sound_run, tmp_path_factory, evil, key):
    folder = tmp_path_factory.mktemp("evil")
    edited = sound_run.copy(folder / "run")
    edited.edit(key, lambda record: record.update(value=evil))
    sound(page_of(edited.folder, folder))


def test_page_is_bounded(run, tmp_path):
    run.edit_log(lambda records: records.extend(["<noise>"] * 5000))
    page = page_of(run.folder, tmp_path)
    sound(page)
    assert page.tags.count("article") <= 2000
    assert (tmp_path / "page.html").stat().st_size < 4 << 20


def test_runs_are_drawn_by_their_names_in_the_result(sound_result, tmp_path):
    shutil.copytree(sound_result, tmp_path / "box" / "made")
    page = page_of(tmp_path / "box", tmp_path)
    assert "Over time: made" in page.text
    assert "Intervals and evaluations of run_1/log.txt" in page.text


def test_curves_are_bounded_and_odd_values_left_out(run, tmp_path):
    def many(records):
        at = index_of(records, "eval_accuracy")
        odd = [1e308, -1e308, "text", None, True, 2**62]
        more = [
            {**records[at], "value": odd[i % 6] if i < 60 else i / 5000, "metadata": dict(records[at]["metadata"])}
            for i in range(5000)
        ]
        records[at:at] = more

    run.edit_log(many)
    page = page_of(run.folder, tmp_path)
    sound(page)
    points = [value for name, value in page.attributes if name == "points"]
    assert 0 < len(points[0].split()) <= MAX_POINTS
    assert not re.search("nan|inf", " ".join(points))


def test_page_is_written_or_the_mistake_named(run, tmp_path):
    main([str(run.folder), "--html", str(tmp_path / "new" / "page.html")])
    assert (tmp_path / "new" / "page.html").exists()
    with pytest.raises(UserError, match="cannot write"):
        main([str(run.folder), "--html", str(tmp_path / "new" / "page.html" / "page.html")])


def test_reference_s_band_is_drawn_over_samples():
    points = tuple(Point(10.0 * i, 100 * i, 0.1 * i) for i in range(1, 6))
    curves = (((100, 0.2), (500, 0.6)), ((100, 0.1), (400, 0.4)))
    group = Group("", "accuracy", 0.5, [("run_1", History(points=points))], curves)
    over_seconds, over_samples = chart(group, "seconds"), chart(group, "samples")
    assert over_seconds.band == ""
    assert len(over_samples.band.split()) == 6  # there and back over 100, 400 and 500 samples
