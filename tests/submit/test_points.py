"""A submission of a benchmark without reference convergence points, and of a batch size that they do not reach."""

import pytest
import yaml

from suite.results.reading import Source, read
from suite.review.model import report
from suite.rules import reference
from tests.rules.evidence_maker import reference_points
from tests.submit.conftest import PLACE

UNHELD = "not held to the reference, of which there are no convergence points here"


def test_without_points_it_is_complete_and_says_that_it_is_held_to_none(submit, told, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reference, "path", lambda benchmark: tmp_path / "none")
    assert submit(f"description={told}") == 0
    said = capsys.readouterr().out
    assert f"{submit.folder}: complete, " in said
    (score,) = [line for line in said.splitlines() if line.startswith(f"  {PLACE}: 3 of 3 runs reached the target")]
    assert score.endswith(f"(olympic mean of 3 runs; {UNHELD})")
    asked = "expected a reference convergence point of image_classification/small at batch size 100 or above"
    assert f"  {PLACE}: convergence.4: {asked}, found none of any batch size; not tested: " in said
    made = report(submit.folder)
    assert (made.verdict, made.converged) == ("pass", True)
    (entry,) = read(Source(submit.folder)).entries
    assert entry.unheld


@pytest.mark.parametrize("partial", ["false", "true"])
def test_a_batch_size_beyond_all_points_is_refused(partial, submit, told, tmp_path, monkeypatch, capsys):
    points = reference_points(tmp_path, batch=50)
    monkeypatch.setattr(reference, "path", lambda benchmark: points)
    assert submit(f"description={told}", f"partial={partial}") == 1
    said = capsys.readouterr()
    asked = "expected a reference convergence point of image_classification/small at batch size 100 or above"
    assert f"{PLACE}: convergence.4: {asked}, found none above 50; not tested: " in said.out
    assert "run the reference at that batch size and add its runs: python -m suite.rcp FOLDER" in said.out
    assert "nothing was written, 1 broken, 0 missing" in said.err
    assert not submit.folder.exists()


def test_a_waiver_can_be_asked_for_what_is_of_a_result_and_no_file(submit, runs, told, tmp_path, monkeypatch, capsys):
    points = reference_points(tmp_path, batch=50)
    monkeypatch.setattr(reference, "path", lambda benchmark: points)
    waiver = {"rule": "convergence.4", "reason": "no points yet", "reviewer": "me", "date": "2026-01-01"}
    (runs / "waivers.yaml").write_text(yaml.safe_dump({"waivers": [waiver]}))
    assert submit(f"description={told}", "partial=true") == 0
    assert "a waiver is asked for" in capsys.readouterr().out
