"""Runs that were made on one machine at one time are found, by its boot or by their clocks, and others are not."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from suite.config import logkeys
from suite.rules import reading
from suite.rules.reading import PACKAGE
from suite.rules.verdict import review
from tests.rules.editor import Evidence
from tests.rules.evidence_maker import write_result
from tests.rules.found import rules_of
from tests.rules.mutants.registry import index_of
from tests.rules.mutants.runs import side_by_side
from tests.rules.restarted import signalled
from tests.rules.subject import BEGUN_MS


def test_simultaneous_runs_break_a_rule_in_a_package(result):
    side_by_side(result)
    runs = [reading.Evidence.read(path, str(path.relative_to(result))) for path in sorted(result.glob("*/run_*"))]
    for package, severity in ((None, "note"), ("", "fail")):
        for run in runs:
            run.package = package
        found = [each for each in PACKAGE.findings(runs) if each.rule == "timing.9"]
        assert {each.severity for each in found} == {severity}
        assert {each.file.rpartition("/")[0] for each in found} == {f"theirs/run_{index}" for index in range(1, 6)}


def test_runs_of_one_result_have_one_machine_at_a_time_by_its_boot(result):
    """Whatever their clocks say: all were begun as the first was."""
    for path in sorted(result.glob("run_*")):
        Evidence(path).boot()
    made = review(result)
    found = [(each.file, each.severity) for each in made.findings if each.rule == "timing.9"]
    assert found == [(f"run_{index}/log.txt", "fail") for index in range(2, 6)]


def test_results_of_one_run_each_are_others(sound_result, tmp_path):
    """And in no package: two runs at once on a machine of one's own are a note."""
    for name in "ab":
        Evidence(Path(shutil.copytree(sound_result / "run_1", tmp_path / "runs" / name))).boot()
    found = [(each.file, each.severity) for each in review(tmp_path / "runs").findings if each.rule == "timing.9"]
    assert found == [("b/log.txt", "note")]


def test_of_several_runs_at_one_time_that_of_the_package_is_named_and_once(result):
    side_by_side(result)
    ours, theirs = (reading.Evidence.read(result / name / "run_1", f"{name}/run_1") for name in ("ours", "theirs"))
    third = reading.Evidence.read(result / "ours" / "run_1", "another/run_1")
    ours.package, theirs.package, third.package = "", "", "of others"
    for run in (ours, theirs, third):  # gone on with after the machine was booted anew
        run.lines_of[logkeys.RESTART] = [replace(run.lines_of[logkeys.CONFIG][0], metadata={"clock": {"boot": "two"}})]
    for runs in ((ours, third, theirs), (third, ours, theirs)):
        found = [each for each in PACKAGE.findings(runs) if each.rule == "timing.9"]
        assert [each.severity for each in found if each.file.startswith("theirs")] == ["fail"]


@pytest.mark.parametrize(("later", "found"), [(0, set()), (3_600_000, {"theirs"})])
def test_a_clock_that_was_set_between_two_results_is_not_what_tells_their_times(later, found, result):
    """Set back by an hour after the first was made; or forward by an hour while it was made, to hide the second."""
    side_by_side(result)
    for path in result.glob("*/run_*"):
        since_boot = {"boot": "one boot", "offset_ms": BEGUN_MS - 10_000_000}
        since_boot["offset_ms"] += (2 * later - 3_600_000) * (path.parent.name == "theirs")
        Evidence(path).edit(logkeys.CONFIG, lambda record, told=since_boot: record["metadata"].update(clock=told))
        if path.parent.name == "theirs":
            moved = lambda records: [each.update(time_ms=each["time_ms"] + later) for each in records]  # noqa: E731
            Evidence(path).edit_log(moved)
    made = review(result)
    assert {each.file.partition("/")[0] for each in made.findings if each.rule == "timing.9"} == found


@pytest.mark.parametrize("offset", ["x", -1, None])
def test_a_run_that_does_not_tell_its_clock_hides_no_others(offset, result):
    """The second result was made while the first was, with its clock set forward by an hour."""
    side_by_side(result)
    for path in result.glob("*/run_*"):
        later = 3_600_000 * (path.parent.name == "theirs")
        told = {"boot": "one boot", "offset_ms": BEGUN_MS - 10_000_000 + later}
        if (path.parent.name, path.name) == ("ours", "run_1"):
            told["offset_ms"] = offset
        Evidence(path).edit(logkeys.CONFIG, lambda record, told=told: record["metadata"].update(clock=told))
        if later:
            moved = lambda records: [each.update(time_ms=each["time_ms"] + 3_600_000) for each in records]  # noqa: E731
            Evidence(path).edit_log(moved)
    found = {each.file for each in review(result).findings if each.rule == "timing.9"}
    assert found == {f"theirs/run_{index}/log.txt" for index in range(2, 6)}


def test_runs_of_less_than_a_second_follow_each_other_too(tmp_path):
    """So near each other that their ends tell nothing: a run begins after the one before did."""
    for number, run in enumerate(write_result(tmp_path, 2)):
        begun = run.records()[0]["time_ms"]
        run.retime(lambda time_ms, begun=begun, number=number: BEGUN_MS - 5 * number + (time_ms - begun) // 100)
    found = [each.file for each in review(tmp_path).findings if each.rule == "timing.6"]
    assert found == ["run_2/log.txt"]


def test_runs_after_another_boot_begin_sooner_after_it_than_those_before(result):
    for index, since_boot_ms in enumerate((600_000, 700_000, 5_000, 105_000, 205_000), 1):
        run = Evidence(result / f"run_{index}")
        offset_ms = run.records()[0]["time_ms"] - since_boot_ms
        clock = {"boot": "one" if index < 3 else "another", "offset_ms": offset_ms}
        run.edit(logkeys.CONFIG, lambda record, clock=clock: record["metadata"].update(clock=clock))
    assert "timing.6" not in rules_of(review(result).findings)


def test_a_run_that_was_gone_on_with_after_those_that_follow_it_was_made_in_its_turn(result):
    """An older suite left a run that Ctrl-C had ended, and made the others."""
    first = Evidence(result / "run_1")
    signalled(first)

    def later(records):
        for record in records[index_of(records, logkeys.RESTART) :]:
            record["time_ms"] += 3_600_000

    first.edit_log(later)
    assert "timing.6" not in rules_of(review(result).findings)


@pytest.mark.parametrize("before_ms", [1_000, 1_800_000])
def test_a_run_uses_its_machine_from_its_beginning_over_all_pauses_to_its_end(before_ms, run, tmp_path):
    """One that went on an hour later on the same boot; another was made in its first part, or in the pause."""
    runs = [run.copy(tmp_path / "runs" / name) for name in "ab"]
    for each in runs:
        each.boot()
    signalled(runs[0])
    clock = next(each for each in runs[1].records() if each["key"] == logkeys.CONFIG)["metadata"]["clock"]

    def later(records):
        at = index_of(records, logkeys.RESTART)
        records[at]["metadata"]["clock"] = clock
        for record in records[at:]:
            record["time_ms"] += 3_600_000

    runs[0].edit_log(later)
    runs[1].move(before_ms)
    runs[1].edit(logkeys.CONFIG, lambda record: record["metadata"].update(clock=clock))
    found = [each.file for each in review(tmp_path / "runs").findings if each.rule == "timing.9"]
    assert found == ["b/log.txt"]
