"""What is written of predictions is one JSON value a line, each as it would be by itself."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from suite.record.evidence import NotFinite, digest, keep_predictions, write_predictions
from tests.json_values import json_values

VALUES = json_values(st.floats(allow_nan=False, allow_infinity=False))


@given(st.lists(VALUES))
@example([7, 1e-7, True, None, -0.0, 10**30, "1,2", [3, 4], {"a": 5}, 6.5])
def test_each_prediction_has_a_line_of_its_own(tmp_path, predictions):
    path = tmp_path / "predictions.jsonl"
    keep_predictions(path, write_predictions(path, predictions))
    assert path.read_text().splitlines() == [json.dumps(each, separators=(",", ":")) for each in predictions]


def test_predictions_of_no_evaluation_in_the_log_are_not_kept(tmp_path):
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, [1, 2])
    keep_predictions(path, "0" * 64)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1.0, float("-inf")], {"a": float("nan")}])
@pytest.mark.parametrize("beside", [[], [1, 2.5], ["text"]])
def test_what_is_no_number_is_no_prediction(tmp_path, value, beside):
    path = tmp_path / "predictions.jsonl"
    with pytest.raises(NotFinite):
        write_predictions(path, [*beside, value, *beside])
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(("now", "line"), [(b"a\nc\n", 2), (b"a", 2), (b"a\nb\nc", 3), (b"a\nb\n", None)])
def test_the_first_line_that_was_changed_is_named_also_where_lines_are_lacking(now, line):
    assert digest(b"a\nb\n").changed_line(now) == line
