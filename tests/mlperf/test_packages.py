"""Folders of logs: which belong together, their score, and what stands around them."""

from __future__ import annotations

import json
import os
import platform
import shutil
from pathlib import Path

import pytest

from suite import mlperf
from suite.errors import UserError
from suite.mlperf import packages
from suite.mlperf.logs import LogReview
from suite.mlperf.scores import score
from suite.review.__main__ import main
from tests.mlperf import maker
from tests.mlperf.maker import BENCHMARK, ORG, RULESET, SYSTEM, entries, find, missed, text


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return maker.package(tmp_path / "round")


def minutes_of(review: mlperf.Review) -> list[float]:
    return sorted(log.minutes for log in review.logs if log.minutes is not None)


def test_every_level_can_be_given(results: Path) -> None:
    for up, at in enumerate((results, *results.parents[:4])):
        review = mlperf.review(at, RULESET)
        assert review.verdict == "pass", review.findings
        assert len(review.logs) == 10
        assert [(score.org, score.system, score.benchmark) for score in review.scores] == [(ORG, SYSTEM, BENCHMARK)]
        assert (at / review.logs[0].path).exists(), up
        assert not review.all_findings


def test_the_score_is_the_olympic_mean(results: Path) -> None:
    review = mlperf.review(results, RULESET)
    times = minutes_of(review)
    assert review.scores[0].minutes == pytest.approx(sum(times[1:-1]) / 8, abs=1e-12)
    assert review.scores[0].needed == 10


@pytest.mark.parametrize("runs", [1, 9, 11])
def test_a_submission_of_another_number_of_logs_fails(tmp_path: Path, runs: int) -> None:
    results = maker.package(tmp_path, runs)
    review = mlperf.review(tmp_path / ORG, RULESET)
    found = [(each.rule, each.severity, each.found) for each in review.findings]
    assert (review.verdict, found) == ("fail", [(f"{RULESET}/runs", "fail", str(runs))])
    assert mlperf.review(results, RULESET).verdict == "pass"


def test_the_committee_s_scaling(results: Path) -> None:
    plain = mlperf.review(results, RULESET).scores[0].minutes
    (results / "scaling.json").write_text(json.dumps({"scaling_factor": 1.25}))
    review = mlperf.review(results, RULESET)
    assert review.scores[0].minutes == pytest.approx(plain * 1.25)
    assert review.verdict == "pass"
    (noted,) = review.findings
    assert (noted.rule, noted.severity, noted.file) == (f"{RULESET}/scaling", "note", "scaling.json")
    assert noted.found == "1.25"
    (results / "scaling.json").write_text('{"scaling_factor": 1.0}')
    assert mlperf.review(results, RULESET).findings == []


@pytest.mark.parametrize(
    "content",
    [
        *("[]", "{}", "[" * 60_000, "x", "\ud800"),
        *(f'{{"scaling_factor": {factor}}}' for factor in ('"NaN"', "NaN", "1e999", "0", "-1", "true", "null", "[1]")),
        *(f'{{"scaling_factor": 1{"0" * zeros}}}' for zeros in (400, 5000)),
    ],
)
def test_a_factor_that_no_time_can_be_multiplied_by(results: Path, content: str) -> None:
    (results / "scaling.json").write_text(content, errors="surrogatepass")
    review = mlperf.review(results.parent, RULESET)
    assert [(f.rule, f.severity, f.file) for f in review.findings] == [
        (f"{RULESET}/scaling", "fail", f"{BENCHMARK}/scaling.json")
    ]
    assert (review.verdict, review.scores[0].minutes) == ("fail", None)


def test_a_time_that_is_not_finite_is_none(results: Path) -> None:
    (results / "scaling.json").write_text('{"scaling_factor": 1e308}')
    assert mlperf.review(results, RULESET).scores[0].minutes is None


@pytest.mark.parametrize("name", ["\x1b[31mred\x1b]0;title\x07", "\u202efdp", "\udcff\udcfe"])
def test_names_of_folders_are_safe_in_every_output(
    results: Path, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")  # that no name is folded
    org = results.parents[2]
    (org / "systems" / f"{SYSTEM}.json").rename(org / "systems" / f"{name}.json")
    system = results.parent.rename(results.parent.with_name(name))
    (system / BENCHMARK).rename(system / name)
    org.rename(org.with_name(name))
    page = tmp_path / "page.html"
    for option in ("--json", "--strict"):
        assert main([str(org.parent), "--ruleset", RULESET, "--html", str(page), option]) in (0, 1)
        printed = capsys.readouterr().out
        for output in (printed, page.read_text()):
            output.encode()
            assert all(c.isprintable() or c == "\n" for c in output)
            assert ascii(name)[1:-1] in output.replace("\\\\", "\\")


def test_one_run_that_misses_the_target_is_dropped_as_the_slowest(results: Path) -> None:
    (results / "result_4.txt").write_text(text(missed(seed=5)))
    review = mlperf.review(results, RULESET)
    others = sorted(log.minutes for log in review.logs if log.verdict == "pass")
    assert review.scores[0].minutes == pytest.approx(sum(others[1:]) / 8)
    assert [log.path for log in review.logs if log.verdict == "fail"] == ["result_4.txt"]
    assert review.verdict == "pass"
    assert [(f.rule, f.severity) for f in review.findings] == [(f"{RULESET}/dropped", "note")]


def test_a_second_one_makes_the_result_invalid(results: Path) -> None:
    (results / "result_4.txt").write_text(text(missed(seed=5)))
    (results / "result_5.txt").write_text(text(missed(seed=6)))
    review = mlperf.review(results, RULESET)
    assert review.scores[0].minutes is None
    assert review.verdict == "fail"


def test_of_unet3d_four_runs_are_left_out_at_each_end() -> None:
    group = packages.Group(Path("/"), Path("/"), [])
    passed = [LogReview(str(at), "pass", [], "pass", "unet3d", minutes=at) for at in (1, 2, 3, 4, 10, 20, 90, 91)]
    failed = [LogReview(str(at), "fail", [], "fail", "unet3d", minutes=5) for at in range(3)]
    assert score(group, passed[:-1] + failed[:2], 1.0).minutes == 10.0
    assert score(group, passed[:-1] + failed, 1.0).minutes == 15.0
    assert score(group, passed + failed[:2], 1.0).minutes == 15.0
    assert score(group, passed + failed[:2] * 2, 1.0).minutes == 52.75
    assert score(group, passed + failed[:2] * 3, 1.0).minutes is None


def test_a_log_that_cannot_be_read_is_not_dropped(results: Path) -> None:
    (results / "result_4.txt").unlink()
    os.mkfifo(results / "result_4.txt")
    review = mlperf.review(results, RULESET)
    assert (review.verdict, review.scores[0].compliant) == ("error", 9)


def test_logs_of_no_submission_are_noted_if_they_are_fewer_than_asked_for(results: Path, tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    for name in ("result_0.txt", "result_1.txt"):
        shutil.copy(results / name, tmp_path / "some")
    found = [(each.rule, each.severity) for each in mlperf.review(tmp_path / "some", RULESET).findings]
    assert found == [(f"{RULESET}/runs", "note")]
    assert mlperf.review(tmp_path / "some" / "result_0.txt", RULESET).findings == []


def test_what_is_wrong_with_a_description_is_told_once(results: Path) -> None:
    shutil.copytree(results, results.with_name("again"))
    maker.describe(results, status="onprem")
    assert len(mlperf.review(results.parents[2], RULESET).findings) == 1


def test_a_log_is_of_the_benchmark_that_it_names_first(results: Path) -> None:
    made = entries()
    made.insert(-1, {**find(made, "submission_benchmark"), "value": "bert"})
    (results / "result_0.txt").write_text(text(made))
    assert mlperf.review(results / "result_0.txt", RULESET).scores[0].benchmark == BENCHMARK


def test_a_log_without_a_benchmark_belongs_to_the_others(results: Path) -> None:
    (results / "result_3.txt").write_text("no log\n")
    review = mlperf.review(results, RULESET)
    assert [(score.logs, score.compliant) for score in review.scores] == [(10, 9)]


def test_the_logs_of_each_benchmark_in_a_folder_have_a_score_of_their_own(results: Path) -> None:
    log = results / "result_0.txt"
    log.write_text(log.read_text().replace(BENCHMARK, "bert"))
    review = mlperf.review(results, RULESET)
    assert {(score.benchmark, score.logs) for score in review.scores} == {(BENCHMARK, 9), ("bert", 1)}


def test_the_benchmark_s_folder_may_be_missing(results: Path) -> None:
    for log in results.iterdir():
        log.rename(results.parent / log.name)
    results.rmdir()
    (score,) = mlperf.review(results.parents[3], RULESET).scores
    assert (score.org, score.system, score.benchmark, score.logs) == (ORG, SYSTEM, BENCHMARK, 10)


def test_names_of_logs(results: Path) -> None:
    (results / "result_1.txt").rename(results / "result_run1.txt")
    (results / "result_2.txt").rename(results / "result_4952-240509_02.txt")
    (results / "result_3.txt").rename(results / "run_3.log")
    (results / "power" / "result_0").mkdir(parents=True)
    (results / "power" / "result_0" / "result_x.txt").write_text("")
    assert len(mlperf.review(results, RULESET).logs) == 9


def test_nothing_is_written(results: Path) -> None:
    def state() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in results.parents[3].rglob("*") if path.is_file()}

    before = state()
    mlperf.review(results.parents[3], RULESET, strict=True)
    assert state() == before


@pytest.mark.parametrize("kernel", ["Linux", "Darwin"])  # by processes that are forked, and that are begun anew
def test_many_logs_come_in_order_and_as_they_are_done(
    kernel: str, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: kernel)
    for at in range(10, 40):
        (results / f"result_{at}.txt").write_text(text(entries(at + 1)))
    told: list[tuple[int, int]] = []
    review = mlperf.review(results, RULESET, progress=lambda done, of: told.append((done, of)))
    assert told == [(at + 1, 40) for at in range(40)]
    assert [log.path for log in review.logs] == sorted(path.name for path in results.iterdir())


@pytest.mark.parametrize("content", [None, "{", "[" * 100_000, "[]", json.dumps({"submitter": ORG})])
def test_a_system_description_that_is_none(results: Path, content: str | None) -> None:
    description = results.parents[2] / "systems" / f"{SYSTEM}.json"
    description.unlink()
    if content is not None:
        description.write_text(content)
    review = mlperf.review(results.parents[2], RULESET)
    assert review.verdict == "fail"
    assert {(f.rule, f.file) for f in review.findings} == {(f"{RULESET}/system", f"systems/{SYSTEM}.json")}
    before_the_checker = mlperf.review(results.parents[2], "mlperf-0.7").findings
    assert {f.severity for f in before_the_checker if f.rule == "mlperf-0.7/system"} == {"note"}


def test_another_spelling_of_the_status_is_a_note(results: Path) -> None:
    maker.describe(results, status="onprem")
    review = mlperf.review(results.parents[2], RULESET)
    assert review.verdict == "pass"
    assert [f.severity for f in review.findings] == ["note"]
    assert not any("/system" in f.rule for f in mlperf.review(results.parents[2], "mlperf-0.7").findings)


def test_what_lies_outside_is_not_read(results: Path, tmp_path: Path) -> None:
    (results.parents[2] / "systems" / f"{SYSTEM}.json").write_text("{")
    assert mlperf.review(results, RULESET).verdict == "pass"  # the systems folder is above what was given
    shutil.move(results / "result_0.txt", tmp_path / "result_0.txt")
    (results / "result_0.txt").symlink_to(tmp_path / "result_0.txt")
    review = mlperf.review(results, RULESET)
    assert review.verdict == "error"
    assert len(review.logs) == 9
    systems = results.parents[2] / "systems"
    systems.rename(tmp_path / "systems")
    systems.symlink_to(tmp_path / "systems")
    found = mlperf.review(results.parents[2], RULESET).findings
    assert {each.file for each in found if each.rule != f"{RULESET}/runs"} == {
        "systems",
        f"results/{SYSTEM}/{BENCHMARK}/result_0.txt",
    }


def test_no_log(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="result_"):
        mlperf.review(tmp_path / "folder", RULESET)
    with pytest.raises(UserError, match="no such"):
        mlperf.review(tmp_path / "nowhere", RULESET)
