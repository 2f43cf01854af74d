"""Estimates from peak rates, held to times that others published: docs/full-scale.md has the sources."""

import pytest

from tests.forecast import made

MINUTES = [
    ("image_classification", "v100x8", 71.28),
    ("image_classification", "h100x8", 13.27),
    ("image_classification", "h200x8", 12.03),
    ("translation", "v100x8", 18.8),
    ("translation", "a100x8", 7.84),
    ("language_modeling", "h100x8", 10.8),
]


@pytest.mark.parametrize(("task", "system", "minutes"), MINUTES)
def test_the_interval_holds_what_was_published(capsys, task, system, minutes):
    told = made.told(capsys, f"task={task}", "scale=full", f"hw={system}")
    assert not told["measured"]
    assert told["shares"]["communication"] > 0
    assert told["seconds"]["low"] <= 60 * minutes <= told["seconds"]["high"]
