"""Which clock tells how long a log lay idle, and what its time is from then on."""

import pytest

from suite.record import clock

LAST, BOOTED, WALL = 1_000_000, 400_000, 1_010_000  # ms: the last line, since boot and by the system's time now


@pytest.fixture(autouse=True)
def _now(monkeypatch):
    monkeypatch.setattr(clock, "_since_boot_ms", lambda: BOOTED)
    monkeypatch.setattr(clock, "_wall_ms", lambda: WALL)
    monkeypatch.setattr(clock, "_boot", lambda: "one")


@pytest.mark.parametrize(
    ("boot", "offset", "written", "source", "passed"),
    [
        ("one", 605_000, 9_000, "boot", 5_000),
        ("one", 600_000, 9_000, "boot", 0),  # at once
        ("one", 599_999, 9_000, "wall", 10_000),  # which cannot be: it was set by hand
        ("two", 605_000, 9_000, "wall", 10_000),
        (None, 605_000, 9_000, "wall", 10_000),
        ("one", None, 9_000, "wall", 10_000),
        ("two", 605_000, 11_000, "wall", 10_000),  # clocks that agree
        ("two", 605_000, 11_001, "file", 11_001),
        ("two", 605_000, None, "wall", 10_000),
    ],
)
def test_a_log_goes_on_by_the_clock_that_nobody_sets_or_the_one_that_is_ahead(
    boot, offset, written, source, passed, monkeypatch, tmp_path
):
    monkeypatch.setattr(clock, "_since_written_ms", lambda path: written)
    made = clock.resumed(LAST, {"boot": boot, "offset_ms": offset}, tmp_path / "log.txt")
    assert (made.source, made.passed_ms[source], made.now_ms()) == (source, passed, LAST + passed)
    assert made.told() == {"boot": "one", "offset_ms": LAST + passed - BOOTED}


def test_where_all_clocks_were_set_back_time_goes_on_from_the_last_line(monkeypatch, tmp_path):
    monkeypatch.setattr(clock, "_since_written_ms", lambda path: -20_000)
    made = clock.resumed(WALL + 30_000, {}, tmp_path / "log.txt")
    assert (made.source, made.now_ms()) == ("unknown", WALL + 30_000)
    assert made.passed_ms == {"wall": -30_000, "file": -20_000}


@pytest.mark.parametrize(("not_before", "now"), [(0, WALL), (WALL, WALL), (WALL + 1, WALL + 1)])
def test_a_new_log_begins_now_but_not_before_the_run_before_it_ended(not_before, now):
    assert clock.begun(not_before).now_ms() == now
