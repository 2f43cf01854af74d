"""The log: every line is MLPerf's, flushed as it happens, chained, and read back whatever it holds."""

import contextlib
import io
import json
import os
import resource
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlperf_logging.compliance_checker.mlp_parser import parse_file

from suite.record import mllog
from suite.record.mllog import FIRST_PREV, Log, line_hash, parse, read


@pytest.fixture
def log(tmp_path):
    log = Log(tmp_path / "log.txt")
    log.start("init_start")
    log.event("seed", 7)
    log.event("eval_accuracy", 0.5, samples_count=10, text='"quotes"\n and ünicode')
    log.stop("run_stop", status="success")
    return log


def test_the_official_parser_reads_every_line(log):
    with contextlib.redirect_stdout(io.StringIO()):
        lines, errors = parse_file(str(log.path), ruleset="6.1.0")
    assert not errors
    assert [line.key for line in lines] == ["init_start", "seed", "eval_accuracy", "run_stop"]
    assert lines[1].value["value"] == 7


def test_each_line_carries_the_hash_of_the_line_before_and_is_there_at_once(log):
    lines = list(read(log.path))
    assert [line.metadata["prev"] for line in lines] == [FIRST_PREV, *(line_hash(line.raw) for line in lines[:-1])]
    assert log.head == line_hash(lines[-1].raw)


def test_opening_a_whole_log_leaves_its_time(log):
    log.event("a", 1)
    log.close()
    os.utime(log.path, (1000, 1000))
    Log(log.path).close()
    assert log.path.stat().st_mtime == 1000


def test_goes_on_after_a_torn_line(log):
    before = log.path.read_bytes()
    log.path.write_bytes(before + b":::MLLOG {half")
    again = Log(log.path)
    assert again.torn_bytes == 14
    again.event("suite_restart", 1)
    assert log.path.read_bytes().startswith(before)
    lines = list(read(log.path))
    assert lines[-1].metadata["prev"] == line_hash(lines[-2].raw)
    assert all(a.time_ms <= b.time_ms for a, b in pairwise(lines))


def test_a_disk_that_is_full_for_a_moment_tears_no_line(log):
    before, (soft, hard) = log.path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, hard))
    try:
        with pytest.raises(OSError, match="No space left on device"):
            log.event("seed", 8)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert log.path.read_bytes() == before
    log.event("seed", 9)
    *_, last, added = read(log.path)
    assert (added.value, added.metadata["prev"]) == (9, line_hash(last.raw))


def test_listeners_hear_each_line(log):
    heard = []
    log.listeners.append(heard.append)
    written = log.event("seed", 8)
    assert heard == [written]


def test_refuses_to_write_what_json_cannot_say(log):
    with pytest.raises(ValueError, match="JSON compliant"):
        log.event("eval_accuracy", float("nan"))


@given(st.binary(max_size=300))
def test_parse_never_raises(raw):
    for line in (raw, mllog.TOKEN.encode() + raw):
        assert isinstance(parse(1, line).problem, str)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_parse_refuses_records_that_are_no_events(value):
    assert parse(1, (mllog.TOKEN + json.dumps(value)).encode()).problem


def test_a_line_without_end_does_not_fill_the_memory(tmp_path):
    path = tmp_path / "log.txt"
    with path.open("wb") as file:
        file.seek(3 * mllog.MAX_LINE_BYTES)
        file.write(b"\nshort\n")
    lines = list(read(path))
    assert [line.number for line in lines] == [1, 2]
    assert "longer than" in lines[0].problem
    assert len(lines[0].raw) < 2 * mllog.MAX_LINE_BYTES
