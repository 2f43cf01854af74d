"""What a terminal shows while a run is built: something that moves, and nothing that moves by itself once it trains."""

import io
import threading

import pytest
from rich.console import Console

from suite import config
from suite.record.mllog import Line
from suite.record.terminal import Terminal
from tests.waiting import until


@pytest.mark.parametrize("before", [("init_start", None, {}), ("suite_restart", 1, {"samples_count": 0, "lost_ms": 5})])
def test_a_clock_goes_on_until_the_run_is_built_and_no_thread_draws_after_that(before):
    shown, others = io.StringIO(), set(threading.enumerate())
    console = Console(file=shown, force_terminal=True, width=100, _environ={"TERM": "xterm"})
    benchmark = config.benchmark("translation", "mini")
    with Terminal(console, "a [b] {c}", benchmark, None, None, lambda: (None, None), lambda: 61_000) as made:
        made.line(line(*before))
        (drawing,) = set(threading.enumerate()) - others
        assert shown.getvalue().count("a [b] {c}") >= 2  # a line that stays, and the one that moves
        made.line(line("suite_environment", "quiet", {"when": "before", "reasons": []}))
        until(lambda: not drawing.is_alive())
        made.line(line("run_start", None, {}))
        made.tick(100, 5.0)
    assert "100 samples" in shown.getvalue()
    assert "| 61.0 s |" in shown.getvalue()  # by the log's clock


def line(key, value, metadata):
    """A line of a log."""
    return Line(1, b"", key, value, metadata=metadata)
