"""Sound evidence of a run that was killed, and went on."""

from __future__ import annotations

from typing import Any

from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from tests.rules.editor import Evidence
from tests.rules.mutants.registry import index_of
from tests.rules.subject import Record


def restart_after(record: Record, samples: int, **metadata: Any) -> Record:
    """The line of a restart at once after `record`."""
    told = {"samples_count": samples, "lost_ms": 0, "torn_bytes": 0, "clock": {"source": "boot", "passed_ms": {}}}
    return {
        "namespace": "",
        "time_ms": record["time_ms"],
        "event_type": keys.POINT_IN_TIME,
        "key": logkeys.RESTART,
        "value": 1,
        "metadata": {"file": "session.py", "lineno": 1, **told, **metadata},
    }


def restarted(run: Evidence, after: str, count: int = 1, samples: int | None = None, **metadata: Any) -> None:
    """Cut the log short `count` lines after the second block's first `after`, and let a restart repeat the block."""
    records = run.records()
    begin = index_of(records, keys.BLOCK_STOP) + 1
    kill = next(at for at in range(begin, len(records)) if records[at]["key"] == after) + count
    behind = records[begin - 1]["metadata"]["samples_count"] if samples is None else samples
    restart = restart_after(records[kill - 1], behind, **metadata)
    void = [{**record, "metadata": dict(record["metadata"])} for record in records[begin:kill]]
    again = [{**record, "time_ms": max(record["time_ms"], restart["time_ms"])} for record in records[begin:]]
    for record in (r for r in again if r["key"] == logkeys.TRACKED):
        record["value"] = {**record["value"], "throughput": 1e9}  # for no time has passed
    run.write([*records[:begin], *void, restart, *again])


def signalled(run: Evidence) -> None:
    """A signal after the first block stopped and sealed the run; then it went on to its end."""
    records = run.records()
    behind = index_of(records, keys.BLOCK_STOP) + 1
    end = index_of(records, keys.RUN_STOP)
    now = {"time_ms": records[behind - 1]["time_ms"]}
    at = records[behind - 1]["metadata"]["samples_count"]
    stop = {**records[end], **now, "metadata": {**records[end]["metadata"], "samples_count": at}}
    stop["metadata"].update(status=keys.ABORTED, reason="interrupt")
    tail = [{**each, **now, "metadata": dict(each["metadata"])} for each in records[end + 1 :]]
    restart = restart_after(records[behind - 1], at)
    run.write([*records[:behind], stop, *tail, restart, *records[behind:]])
