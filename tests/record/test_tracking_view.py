"""What MLflow shows of a log, whoever wrote that log."""

from __future__ import annotations

import json
import math
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from suite.measure import samples
from suite.record import evidence, mllog
from suite.record.view import POWER_POINTS, View
from tests.json_values import JSON
from tests.record.example_run import ExampleRun

names = ["run_id", "result_id", "run_index", "runs", "samples_count", "metrics", "status", "reason", "source", "task"]
records = st.fixed_dictionaries(
    {
        "key": st.sampled_from(
            [
                *(
                    logkeys.CONFIG,
                    logkeys.TRACKED,
                    logkeys.ENERGY,
                    logkeys.COST,
                    logkeys.ENVIRONMENT,
                    logkeys.IMPLEMENTATION,
                    logkeys.RESTART,
                    keys.SEED,
                ),
                *(keys.RUN_START, keys.RUN_STOP, keys.EVAL_ACCURACY, keys.SUBMISSION_BENCHMARK),
            ]
        ),
        "time_ms": st.integers(),
        "event_type": st.just(keys.POINT_IN_TIME),
        "value": JSON | st.fixed_dictionaries({"throughput": JSON, "loss": JSON}),
        "metadata": st.dictionaries(st.sampled_from(names), JSON),
    }
)


def shown(folder: Path, log: bytes, config: bytes = b"", power: bytes = b"") -> tuple[View, list[Any]]:
    (folder / evidence.LOG).write_bytes(log)
    (folder / evidence.CONFIG).write_bytes(config)
    (folder / evidence.POWER).write_bytes(power)
    view = View(folder)
    return view, view.read() + view.power()


def log_of(*lines: dict[str, Any]) -> bytes:
    return b"".join(mllog.TOKEN.encode() + json.dumps(line).encode() + b"\n" for line in lines)


def line(key: str, value: Any = None, time_ms: int = 0, **metadata: Any) -> dict[str, Any]:
    return {"key": key, "value": value, "time_ms": time_ms, "event_type": "", "metadata": metadata}


@pytest.mark.slow
@given(st.lists(records, max_size=20), st.binary(max_size=200), st.text(max_size=100))
def test_a_strangers_evidence_gives_only_what_every_store_takes(
    lines: list[dict[str, Any]], config: bytes, power: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        view, points = shown(Path(folder), log_of(*lines), config, f"{samples.HEADER}\n{power}".encode())
        assert view.run_id is None or "'" not in view.run_id
        for point in points:
            assert math.isfinite(point.value)
            assert 0 <= point.time_ms < 2**63
            assert abs(point.step) < 2**63
            assert set(point.key) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/")
        assert all(isinstance(text, str) and len(text) <= 500 for text in view.tags.values())
        assert not re.search(r"[\0\ud800-\udfff]", "".join((*view.tags.values(), *view.params.values())))


@pytest.mark.parametrize(
    "config",
    [
        b"a: &a [1]\n"
        + b"".join(b"%c: &%c [%s]\n" % (n, n, b", ".join([b"*%c" % (n - 1)] * 20)) for n in range(98, 118)),
        b"a: &a [null]\n"
        + b"".join(b"%c: &%c [%s]\n" % (n, n, b", ".join([b"*%c" % (n - 1)] * 20)) for n in range(98, 118)),
        b"a: &a [*a]\n",
        b"a: !!pairs [&b [x, y]: *b]\n",
        b"a: " + b"9" * 5000,
        b"a: 0x" + b"f" * 5000,
        b"a: 2020-99-99",
        b"a: !!bool x",
        b"[" * 5000,
        b"- just\n- a list",
        b"\xff\xfe\x00",
    ],
)
def test_a_hostile_configuration_stays_small(tmp_path: Path, config: bytes) -> None:
    view, _ = shown(tmp_path, log_of(line(logkeys.CONFIG, run_id="a", runs=1)), config)
    assert view.run_id == "a"
    assert len(view.params) <= 1000
    assert all(len(text) <= 500 for text in view.params.values())


def test_what_a_store_refuses_is_left_out(tmp_path: Path) -> None:
    log = log_of(line(keys.SUBMISSION_BENCHMARK, "a\0b\ud800"), line(logkeys.CONFIG))
    view, _ = shown(tmp_path, log, b'a: "x\\0y\\ud800z"\n')
    assert (view.tags["benchmark"], view.params) == ("ab", {"a": "xyz"})
    assert shown(tmp_path, log, b"{}")[0].params == {}


def test_a_line_counts_when_it_is_complete_and_only_once(tmp_path: Path) -> None:
    log = log_of(
        line(keys.RUN_START, time_ms=1000),
        line(keys.EVAL_ACCURACY, 0.5, time_ms=3000, samples_count=10),
        line(keys.EVAL_ACCURACY, 0.6, time_ms=5000, samples_count=20),
    )
    for cut in range(len(log) + 1):
        (tmp_path / evidence.LOG).write_bytes(log[:cut])
        view = View(tmp_path)
        points = view.read()
        (tmp_path / evidence.LOG).write_bytes(log)
        points += view.read() + view.read()
        assert [(p.key, p.value, p.step) for p in points] == [
            ("quality", 0.5, 10),
            ("quality_by_seconds", 0.5, 2),
            ("quality", 0.6, 20),
            ("quality_by_seconds", 0.6, 4),
        ]


def test_a_restarted_run_goes_on(tmp_path: Path) -> None:
    log = log_of(
        line(logkeys.RESTART, 1, samples_count=0),
        line(logkeys.RESTART, 2, samples_count=0),
        line(keys.RUN_START, time_ms=0),
        line(keys.EVAL_ACCURACY, 0.5, time_ms=1000, samples_count=10),
        line(logkeys.RESTART, 3, time_ms=9000, samples_count=10),
        line(keys.RUN_STOP, time_ms=12_000, samples_count=30, status="success", reason="target"),
    )
    view, points = shown(tmp_path, log)
    assert (view.tags["restarts"], view.tags["aborted_starts"]) == ("1", "2")
    assert [p.value for p in points if p.key == "time_to_quality_s"] == [12.0]


def test_a_run_that_a_signal_stopped_goes_on(tmp_path: Path) -> None:
    lines = [
        line(keys.RUN_START, time_ms=0),
        line(keys.RUN_STOP, time_ms=5000, samples_count=10, status="aborted", reason="interrupt"),
        line(logkeys.RESTART, 1, time_ms=9000, samples_count=10),
        line(keys.RUN_STOP, time_ms=12_000, samples_count=30, status="success", reason="target"),
    ]
    seen = [shown(tmp_path, log_of(*lines[:count]))[0] for count in (2, 3, 4)]
    assert [view.status for view in seen] == ["KILLED", "RUNNING", "FINISHED"]
    assert [view.ended_ms for view in seen] == [5000, None, 12_000]


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("nvml", ["energy_joules"]),
        ("estimated", ["energy_joules_estimated"]),
        ("nvml+estimated", ["energy_joules_estimated"]),  # of one node
        (None, []),
    ],
)
def test_energy_is_named_by_what_it_is(tmp_path: Path, source: str | None, named: list[str]) -> None:
    run = ExampleRun(tmp_path / "out").begin().block(0.9).end(source=source).seal()
    view = View(run.folder)
    assert [p.key for p in view.read() if p.key.startswith("energy")] == named
    assert ("energy_source" in view.tags) == (source is not None)


def test_power_samples_are_thinned_and_those_outside_the_run_left_out(tmp_path: Path) -> None:
    log = log_of(line(keys.RUN_START, time_ms=10_000), line(keys.RUN_STOP, time_ms=5_000_000, samples_count=1))
    rows = [f"{second * 1000},{second * 300}.0,,,{second % 2}.0,,\n" for second in range(6000)]
    _, points = shown(tmp_path, log, power="".join([samples.HEADER + "\n", *rows]).encode())
    assert {p.key for p in points} == {"system/accelerator_w", "system/utilisation"}
    watts = [p for p in points if p.key == "system/accelerator_w"]
    assert POWER_POINTS / 2 < len(watts) <= POWER_POINTS
    assert {p.value for p in watts} == {300.0}
    assert all(10_000 <= p.time_ms <= 5_000_000 for p in points)
    assert all(p.value == pytest.approx(0.5) for p in points if p.key == "system/utilisation")


def test_what_is_shown_of_a_run_that_a_signal_stopped_stays_as_it_is_when_it_goes_on(tmp_path: Path) -> None:
    lines = [
        line(keys.RUN_START, time_ms=0),
        line(keys.RUN_STOP, time_ms=1_200_000, samples_count=1, status="aborted", reason="interrupt"),
        line(logkeys.RESTART, 1, time_ms=2_000_000, samples_count=1),
        line(keys.RUN_STOP, time_ms=5_000_000, samples_count=2, status="success", reason="target"),
    ]
    rows = [f"{second * 1000},,,,{second % 2}.0,,\n" for second in range(6000) if not 1200 < second < 2000]
    power = "".join([samples.HEADER + "\n", *rows]).encode()
    before, after = (shown(tmp_path, log_of(*lines[:count]), power=power)[0].power() for count in (2, 4))
    assert before == after[: len(before)]
    assert POWER_POINTS / 2 < len(before) <= POWER_POINTS
    assert POWER_POINTS / 2 < len(after) - len(before) <= POWER_POINTS
    assert all(point.time_ms >= 2_000_000 for point in after[len(before) :])


def test_a_counter_that_began_anew_gives_no_power(tmp_path: Path) -> None:
    log = log_of(line(keys.RUN_START, time_ms=0), line(keys.RUN_STOP, time_ms=9000, samples_count=1))
    power = samples.HEADER + "\n0,,5.0,,,,\n1000,,7.0,,,,\n2000,,1.0,,,,\n3000,,4.0,,,,\n"
    _, points = shown(tmp_path, log, power=power.encode())
    assert [(p.key, p.value, p.step) for p in points] == [("system/cpu_w", 2.0, 1), ("system/cpu_w", 3.0, 3)]


def test_a_pause_gives_no_power(tmp_path: Path) -> None:
    """As after a kill and a reboot, from which the counter has come further than it was."""
    log = log_of(line(keys.RUN_START, time_ms=0), line(keys.RUN_STOP, time_ms=99_000, samples_count=1))
    power = samples.HEADER + "\n0,,5.0,,,,\n1000,,7.0,,,,\n61000,,900.0,,,,\n62000,,904.0,,,,\n"
    _, points = shown(tmp_path, log, power=power.encode())
    assert [(p.key, p.value, p.step) for p in points] == [("system/cpu_w", 2.0, 1), ("system/cpu_w", 4.0, 62)]


def test_a_counter_that_wraps_between_two_points_does_not_lower_the_power(tmp_path: Path) -> None:
    """In a run of days a point is a mean of minutes, in which RAPL's counter of 262 kJ begins anew."""
    log = log_of(line(keys.RUN_START, time_ms=0), line(keys.RUN_STOP, time_ms=6_000_000, samples_count=1))
    rows = [f"{second * 1000},,{second * 300 % 3900}.0,,,,\n" for second in range(6000)]
    _, points = shown(tmp_path, log, power="".join([samples.HEADER + "\n", *rows]).encode())
    assert len(points) > POWER_POINTS / 2
    assert {round(point.value, 6) for point in points} == {300.0}


def test_power_is_that_of_the_leaders_node(tmp_path: Path) -> None:
    log = log_of(line(keys.RUN_START, time_ms=0), line(keys.RUN_STOP, time_ms=9000, samples_count=1))
    power = samples.HEADER_OF_NODES + "\n0,,5.0,,,,,0\n500,,90.0,,,,,1\n1000,,7.0,,,,,0\n1500,,99.0,,,,,1\n"
    _, points = shown(tmp_path, log, power=power.encode())
    assert [(p.key, p.value, p.step) for p in points] == [("system/cpu_w", 2.0, 1)]


def test_a_link_is_no_evidence(tmp_path: Path) -> None:
    run = ExampleRun(tmp_path / "out").complete()
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (run.folder / evidence.PREDICTIONS).unlink()
    (run.folder / evidence.PREDICTIONS).symlink_to(secret)
    assert evidence.PREDICTIONS not in [path.name for path in View(run.folder).artifacts()]
