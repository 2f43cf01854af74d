"""A killed and resumed run: what was open is void, the clock goes on, and the review passes."""

from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from suite.record import evidence
from suite.rules.verdict import review
from tests.rules.found import ALWAYS, rules_of
from tests.rules.mutants.registry import index_of
from tests.rules.restarted import restart_after, restarted, signalled
from tests.rules.subject import accuracy, right_predictions


def reviewed(run, after, **options):
    restarted(run, after, **options)
    return review(run.folder)


def test_a_kill_at_any_line_of_a_block_passes(run, tmp_path):
    for number, after in enumerate(
        (keys.BLOCK_START, keys.EVAL_START, keys.EVAL_ACCURACY, keys.EVAL_STOP, keys.BLOCK_STOP)
    ):
        made = reviewed(run.copy(tmp_path / str(number)), after)
        assert rules_of(made.findings, but=ALWAYS) == set(), after
        assert made.runs[0].summary.restarts == 1
        assert made.converged


def test_more_lost_time_than_has_passed_is_found(run):
    restarted(run, keys.EVAL_STOP)
    run.edit(logkeys.RESTART, lambda record: record["metadata"].update(lost_ms=60_000))
    assert rules_of(review(run.folder).findings, but=ALWAYS) == {"timing.5"}


def test_a_restart_is_held_to_the_clock_of_the_one_before_it(run):
    """Its machine was booted anew before the first: the boot that the run began in tells nothing of the second."""
    booted = [
        {"boot": name, "offset_ms": 1, "source": "boot", "passed_ms": {}} for name in ("one", "two", "two", "two")
    ]
    booted[1]["source"] = "wall"
    restarted(run, keys.BLOCK_START)
    restarted(run, keys.EVAL_STOP)
    for change, found in (({}, 1), ({"offset_ms": 2}, 2)):
        clocks = [*booted[:3], booted[3] | change]

        def tell(records, clocks=clocks):
            lines = [record for record in records if record["key"] in (logkeys.CONFIG, logkeys.RESTART)]
            for record, clock in zip(lines, clocks, strict=True):
                record["metadata"]["clock"] = clock

        run.edit_log(tell)
        told = [each.expected for each in review(run.folder).findings if each.rule == "timing.7"]
        assert len(told) == found, told


def test_a_restart_whose_clock_has_no_name_is_noted(run):
    made = reviewed(run, keys.EVAL_STOP, clock={"source": ["boot"], "passed_ms": {"boot": 0}})
    assert rules_of(made.findings, but=ALWAYS) == {"timing.7"}


def test_an_evaluation_off_schedule_is_found_though_a_restart_voids_it(run):
    restarted(run, keys.EVAL_STOP)
    records = run.records()
    restart = index_of(records, logkeys.RESTART)
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
    restart = index_of(records, logkeys.RESTART)
    void = next(record for record in reversed(records[:restart]) if record["key"] == keys.EVAL_ACCURACY)
    void["value"] = score
    void["metadata"].update(metrics={"accuracy": score}, predictions_sha256=sha256)
    end = index_of(records, keys.RUN_STOP)
    samples = records[restart]["metadata"]["samples_count"]
    records[end]["metadata"].update(status=keys.ABORTED, reason="interrupt", samples_count=samples)
    run.write([*records[: restart + 1], *records[end:]])
    made = review(run.folder)
    assert rules_of(made.findings, but={*ALWAYS, "convergence.1", "log.8"}) == set()
    assert made.runs[0].summary.quality != score


def test_a_restart_does_not_skip_ahead(run):
    assert "log.5" in rules_of(reviewed(run, keys.BLOCK_START, samples=10_000_000).findings)


def test_a_block_repeated_without_a_restart_is_found(run):
    records = run.records()
    at = index_of(records, keys.BLOCK_STOP)
    run.write([*records[:at], *records[at + 1 :]])
    assert rules_of(review(run.folder).findings, but=ALWAYS) == {"log.3"}


def test_six_restarts_that_each_come_out_otherwise_are_noted_and_counted(run):
    records = run.records()
    first, begin = (index_of(records, key) for key in (keys.BLOCK_START, keys.RUN_START))
    end = index_of(records, keys.BLOCK_STOP) + 1
    made = records[: begin + 1]
    for attempt in range(6):
        block = [{**each, "metadata": dict(each["metadata"])} for each in records[first:end]]
        block[index_of(block, keys.EVAL_ACCURACY)]["value"] = 0.1 * attempt
        for each in (each for each in block if each["key"] == logkeys.TRACKED):
            each["value"] = {**each["value"], "throughput": 1e9}
        made += [*block, restart_after(block[-1], 0)]
        for each in records[end:]:
            each["time_ms"] = max(each["time_ms"], block[-1]["time_ms"])
    rest = [each | {"time_ms": made[-1]["time_ms"]} for each in records[first:end]]
    for each in (each for each in rest if each["key"] == logkeys.TRACKED):
        each["value"] = {**each["value"], "throughput": 1e9}
    times = sorted(each["time_ms"] for each in made)
    for each, time_ms in zip(made, times, strict=True):
        each["time_ms"] = time_ms
    run.write([*made, *rest, *records[end:]])
    reviewed = review(run.folder)
    noted = [finding for finding in reviewed.findings if finding.rule == "log.8"]
    assert len([finding for finding in noted if finding.expected.startswith("quality")]) == 6
    assert {finding.severity for finding in noted} == {"note"}
    assert reviewed.runs[0].summary.restarts == 6


def test_an_attempt_that_ended_before_the_clock_ran_is_counted_and_its_time_as_well(run):
    records = run.records()
    stop = index_of(records, keys.INIT_STOP)
    again = {**records[stop], "metadata": dict(records[stop]["metadata"])}
    run.write([*records[: stop + 1], restart_after(records[stop], 0), again, *records[stop + 1 :]])
    made = review(run.folder)
    assert rules_of(made.findings, but=ALWAYS) == set()
    assert (made.runs[0].summary.restarts, made.runs[0].summary.aborted) == (0, 1)

    records = run.records()
    for record in records[: index_of(records, logkeys.RESTART)]:
        record["time_ms"] -= 31 * 60 * 1000
    run.write(records)
    assert rules_of(review(run.folder).findings, but=ALWAYS) == {"timing.2"}


def test_a_run_that_went_on_after_a_signal_passes_and_its_last_stop_counts(run):
    seconds = review(run.folder).runs[0].summary.seconds
    signalled(run)
    made = review(run.folder)
    assert rules_of(made.findings, but=ALWAYS) == set()
    assert made.converged
    assert (made.runs[0].summary.seconds, made.runs[0].summary.restarts) == (seconds, 1)


def test_the_power_of_a_run_that_went_on_is_that_of_its_last_stop(run):
    """Whatever the energy said that a signal had sealed."""
    signalled(run)
    run.edit(logkeys.ENERGY, lambda record: record["metadata"].update(mean_w=0.0), at=-1)
    assert "measurement.7" in rules_of(review(run.folder).findings)


def test_only_a_run_that_a_signal_stopped_goes_on(run):
    signalled(run)
    run.edit(keys.RUN_STOP, lambda record: record["metadata"].update(reason="budget"))
    assert "log.3" in rules_of(review(run.folder).findings)


def test_a_checkpoint_is_not_to_be_deleted_before_the_run_goes_on(run):
    (run.folder / evidence.CHECKPOINT).write_bytes(b"")
    (finding,) = [finding for finding in review(run.folder).findings if finding.rule == "package.5"]
    assert finding.mend.startswith("go on from it by python -m suite.run resume=FOLDER")
