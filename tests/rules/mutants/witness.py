"""Mutants of a run whose time was witnessed: clocks set back, times halved, logs written afterwards."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from suite.record import evidence
from tests.rules.mutants.registry import breaks, drop, rewrite
from tests.witness_server import Authority

START, STOP = (evidence.STAMPS[key] for key in (keys.RUN_START, keys.RUN_STOP))


@cache
def authority():
    made = Path(tempfile.mkdtemp(prefix="authority-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Authority(made)


def witnessed(run):
    return rewrite(run, authority=authority())


def ended_at(run):
    return next(record["time_ms"] / 1000 for record in run.records() if record["key"] == keys.RUN_STOP)


def faster(run):
    """Let half the time pass on the clock from run_start on; energy and cost follow."""

    def change(records):
        start = next(record["time_ms"] for record in records if record["key"] == keys.RUN_START)
        for record in records:
            if record["time_ms"] > start:
                record["time_ms"] = start + (record["time_ms"] - start) // 2
            if record["key"] == logkeys.TRACKED:
                record["value"]["throughput"] *= 2

    run.edit_log(change)
    path = run.folder / evidence.POWER
    head, *rows = path.read_text().splitlines()
    start = next(record["time_ms"] for record in run.records() if record["key"] == keys.RUN_START)
    path.write_text(
        "\n".join([head, *(f"{start + at * 500},{row.split(',', 1)[1]}" for at, row in enumerate(rows))]) + "\n"
    )
    run.measure()


@breaks("timing.8")
def times_halved(run):
    witnessed(run)
    faster(run)


@breaks("timing.8")
def times_halved_and_stamped_again(run):
    """The stamp of run_start stays; that of run_stop can be had only later than the new time says."""
    witnessed(run)
    faster(run)
    run.stamp(authority(), run_stop=15)


@breaks("timing.8")
def a_log_written_afterwards(run):
    """Both stamps had at once, when the log was done."""
    witnessed(run)
    run.stamp(authority(), run_start=30)


@breaks("timing.8")
def a_clock_set_back_during_the_run(run):
    witnessed(run)
    run.stamp(authority(), run_stop=60)


@breaks("timing.8")
def stamps_in_the_wrong_order(run):
    witnessed(run)
    one, two = ((run.folder / name).read_bytes() for name in (START, STOP))
    (run.folder / START).write_bytes(two)
    (run.folder / STOP).write_bytes(one)
    run.seal()


@breaks("timing.8")
def another_run_s_stamp(run):
    witnessed(run)
    (run.folder / STOP).write_bytes(authority().stamp(b"another line", ended_at(run)))
    run.seal()


@breaks("timing.8")
def a_stamp_of_nothing(run):
    witnessed(run)
    (run.folder / STOP).write_bytes(b"")
    run.seal()


@breaks("timing.8")
def a_stamp_left_out(run):
    witnessed(run)
    (run.folder / STOP).unlink()
    run.seal()


@breaks("timing.8")
def stamps_that_no_log_tells_of(run):
    witnessed(run)
    run.edit_log(drop(logkeys.WITNESS))


@breaks("timing.8")
def another_witness(run):
    witnessed(run)
    run.edit(logkeys.WITNESS, lambda record: record.update(value="stamps.example.com"))


@breaks("timing.8")
def told_twice(run):
    witnessed(run)

    def change(records):
        line = next(record for record in records if record["key"] == logkeys.WITNESS)
        records.append({**line, "metadata": dict(line["metadata"])})

    run.edit_log(change)
