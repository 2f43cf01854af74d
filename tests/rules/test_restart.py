"""A killed and resumed run: what was open is void, the clock goes on, and the review passes."""

from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from suite.record import evidence
from suite.rules.verdict import review
from tests.rules.evidence_maker import accuracy, right_predictions
from tests.rules.found import ALWAYS, rules_of


def restarted(run, after, count=1, samples=None):
    """Cut the log short `count` lines after the first `after`, and let a restart repeat the block."""
    records = run.records()
    begin = next(at for at, record in enumerate(records) if record["key"] == keys.BLOCK_STOP) + 1
    kill = next(at for at in range(begin, len(records)) if records[at]["key"] == after) + count
    behind = records[begin - 1]["metadata"]["samples_count"] if samples is None else samples
    restart = {
        "namespace": "",
        "time_ms": records[kill - 1]["time_ms"],
        "event_type": keys.POINT_IN_TIME,
        "key": logkeys.RESTART,
        "value": 1,
        "metadata": {"file": "session.py", "lineno": 1, "samples_count": behind, "lost_ms": 0, "torn_bytes": 0},
    }
    void = [{**record, "metadata": dict(record["metadata"])} for record in records[begin:kill]]
    again = [{**record, "time_ms": max(record["time_ms"], restart["time_ms"])} for record in records[begin:]]
    for record in (r for r in again if r["key"] == logkeys.TRACKED):
        record["value"] = {**record["value"], "throughput": 1e9}  # for no time has passed
    run.write([*records[:begin], *void, restart, *again])
    return review(run.folder)


def test_a_kill_at_any_line_of_a_block_passes(run, tmp_path):
    for number, after in enumerate(
        (keys.BLOCK_START, keys.EVAL_START, keys.EVAL_ACCURACY, keys.EVAL_STOP, keys.BLOCK_STOP)
    ):
        made = restarted(run.copy(tmp_path / str(number)), after)
        assert rules_of(made.findings, but=ALWAYS) == set(), after
        assert made.runs[0].summary.restarts == 1
        assert made.converged


def test_more_lost_time_than_has_passed_is_found(run):
    restarted(run, keys.EVAL_STOP)
    run.edit(logkeys.RESTART, lambda record: record["metadata"].update(lost_ms=60_000))
    assert rules_of(review(run.folder).findings, but=ALWAYS) == {"timing.5"}


def test_an_evaluation_off_schedule_is_found_though_a_restart_voids_it(run):
    restarted(run, keys.EVAL_STOP)
    records = run.records()
    restart = next(at for at, record in enumerate(records) if record["key"] == logkeys.RESTART)
    for record in records[restart - 4 : restart]:
        if record["key"] != keys.BLOCK_START:
            record["metadata"]["samples_count"] -= 100
        if record["key"] == keys.EVAL_ACCURACY:
            record["metadata"]["state_sha256"] = "0" * 64
    run.write(records)
    assert rules_of(review(run.folder).findings, but=ALWAYS) == {"quality.3"}


def test_an_interrupt_after_a_restart_keeps_the_predictions_of_the_void_evaluation(run):
    restarted(run, keys.EVAL_STOP)
    predictions = [0] * len(right_predictions())
    path = run.folder / evidence.PREDICTIONS
    sha256 = evidence.write_predictions(path, predictions)
    evidence.keep_predictions(path, sha256)
    score = accuracy(predictions)
    records = run.records()
    restart = next(at for at, record in enumerate(records) if record["key"] == logkeys.RESTART)
    void = next(record for record in reversed(records[:restart]) if record["key"] == keys.EVAL_ACCURACY)
    void["value"] = score
    void["metadata"].update(metrics={"accuracy": score}, predictions_sha256=sha256)
    end = next(at for at, record in enumerate(records) if record["key"] == keys.RUN_STOP)
    samples = records[restart]["metadata"]["samples_count"]
    records[end]["metadata"].update(status=keys.ABORTED, reason="interrupt", samples_count=samples)
    run.write([*records[: restart + 1], *records[end:]])
    made = review(run.folder)
    assert rules_of(made.findings, but={*ALWAYS, "convergence.1"}) == set()
    assert made.runs[0].summary.quality != score


def test_a_restart_does_not_skip_ahead(run):
    assert "log.5" in rules_of(restarted(run, keys.BLOCK_START, samples=10_000_000).findings)


def test_a_block_repeated_without_a_restart_is_found(run):
    records = run.records()
    at = next(at for at, record in enumerate(records) if record["key"] == keys.BLOCK_STOP)
    run.write([*records[:at], *records[at + 1 :]])
    assert rules_of(review(run.folder).findings, but=ALWAYS) == {"log.3"}
