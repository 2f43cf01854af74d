"""Time goes on over a restart, also where a clock was set back meanwhile."""

import os
import shutil
import time

import pytest

from suite.config import logkeys
from suite.record import clock
from tests.command import eighth
from tests.parity_runs import lines, rules_broken
from tests.rules.editor import Evidence


@pytest.mark.parametrize(
    ("clocks", "source", "least_ms"),
    [
        ({}, "boot", 0),
        ({"set_back_s": 3600}, "boot", 0),
        ({"booted": True}, "wall", 0),
        ({"booted": True, "set_back_s": 3600, "written_s": -60}, "file", 60_000),
        ({"booted": True, "set_back_s": 3600, "written_s": 60}, "unknown", 0),
        ({"booted": True, "set_back_s": 3600, "file": "tells nothing, as on a full disk"}, "unknown", 0),
    ],
)
def test_a_clock_set_back_before_a_restart_loses_no_time(cut, tmp_path, monkeypatch, clocks, source, least_ms):
    log = cut / "run_2/log.txt"
    last_ms, written = lines(cut / "run_2")[-1].time_ms, log.stat().st_mtime
    if "written_s" in clocks:
        os.utime(log, (time.time() + clocks["written_s"],) * 2)
    if "booted" in clocks:
        (tmp_path / "boot_id").write_text("another boot")
        monkeypatch.setattr(clock, "BOOT_ID", tmp_path / "boot_id")
    if "file" in clocks:
        monkeypatch.setattr(clock, "_since_written_ms", lambda path: None)
    true_ns, back_ns = time.time_ns, clocks.get("set_back_s", 0) * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() - back_ns)
    since_s = time.time() - written
    done = eighth(cut.parent, "run", "resume=cut", "mlflow=false")
    assert done.returncode == 0, done.stderr
    after = lines(cut / "run_2")
    restart = next(line for line in after if line.key == "suite_restart")
    assert restart.metadata["clock"]["source"] == source
    lost_ms = restart.metadata["lost_ms"]
    assert restart.time_ms - last_ms >= lost_ms >= (least_ms if source in ("file", "unknown") else 1000 * since_s - 100)
    assert [line.time_ms for line in after] == sorted(line.time_ms for line in after)
    review = eighth(cut.parent, "review", "cut")
    assert review.returncode == 0, review.stdout
    assert ("timing.7" in review.stdout) == (clocks != {})


def test_a_run_begins_after_the_one_before_though_the_clock_was_set_back(cut):
    shutil.rmtree(cut / "run_2")
    first, ahead_ms = Evidence(cut / "run_1"), 3_600_000
    first.move(ahead_ms)
    told = next(line for line in lines(first.folder) if line.key == logkeys.CONFIG).metadata["clock"]
    told = {**told, "offset_ms": told["offset_ms"] + ahead_ms}
    first.edit(logkeys.CONFIG, lambda record: record["metadata"].update(clock=told))
    eighth(cut.parent, "run", "resume=cut", "mlflow=false")
    assert lines(cut / "run_2")[0].time_ms >= lines(cut / "run_1")[-1].time_ms
    assert rules_broken(cut.parent, "cut") == set()
