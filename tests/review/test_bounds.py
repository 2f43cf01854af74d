"""What is dense beyond reason is refused before it takes memory, and what one run's checks needed is let go."""

import json
import shutil
from collections import Counter
from dataclasses import asdict

import pytest

from suite import config
from suite.errors import UserError
from suite.record import evidence
from suite.record.parsing import MalformedError, check_count, json_object
from suite.review.__main__ import main
from suite.rules import contents, finding, reading, seals, submission
from suite.rules.runs import path_of
from suite.rules.verdict import review
from tasks.language_modeling import AUDITED, CHUNK
from tests.measure import fakes
from tests.rules.mutants.registry import sum_of


def rewritten(run, content):
    """Predictions of somebody's own, with the sums that the log and the manifest have of them."""
    path = run.folder / evidence.PREDICTIONS
    path.write_bytes(content)
    run.edit("eval_accuracy", lambda record: record["metadata"].update(predictions_sha256=sum_of(path)), at=-1)


def found(run, name):
    return {f.found for f in review(run.folder).findings if f.file == name and f.rule == "package.3"}


def test_a_review_that_lacks_memory_is_an_error_as_json_too(run, monkeypatch, capsys):
    def lacking(*_, **__):
        raise MemoryError

    monkeypatch.setattr("suite.review.__main__.report", lacking)
    with pytest.raises(MemoryError):  # of which `command` makes a line and exit code 2
        main([str(run.folder), "--json"])
    made = json.loads(capsys.readouterr().out)
    assert (made["verdict"], made["error"]) == ("error", "the memory is not enough")


def test_predictions_of_too_many_values_are_not_parsed(run, monkeypatch):
    monkeypatch.setattr(contents, "MAX_PREDICTED", 5000)
    rewritten(run, (b"[" + b"[]," * 2000 + b"0]\n") * 2)
    assert found(run, evidence.PREDICTIONS) == {"more than 5000 values"}


def test_predictions_that_are_not_those_that_were_sealed_are_not_parsed(run, monkeypatch):
    monkeypatch.setattr(contents, "json_value", lambda text: pytest.fail("parsed"))
    (run.folder / evidence.PREDICTIONS).write_text("[1]\n")
    assert {"package.4"} <= {f.rule for f in review(run.folder).findings}


@pytest.mark.parametrize(("name", "content"), [("system.json", b'{"a": [%s0]}'), ("config.yaml", b"a: [%s0]\n")])
def test_descriptions_of_too_many_values_are_not_parsed(run, name, content):
    (run.folder / name).write_bytes(content % (b"[]," * 3000))
    run.seal()
    assert any("values" in said for said in found(run, name))


def test_the_description_of_two_thousand_nodes_is_read(run):
    node = asdict(fakes.machine(*["NVIDIA H100 80GB HBM3"] * 8))
    run.edit_system(lambda values: values.update(other_nodes=[node] * 2000))
    assert reading.Evidence.read(run.folder).parsed(evidence.SYSTEM)


def test_a_text_is_as_dense_as_the_suite_s_own_at_most():
    check_count(b'{"key": "a value of some words"},\n' * 100_000)
    for dense in ("[],", '{"":0},', "1,", "a\n"):
        with pytest.raises(MalformedError, match="values"):
            check_count(dense.encode() * 10_000)
    with pytest.raises(MalformedError, match="values"):
        json_object(b'{"a": [' + b"1," * 10_000 + b"1]}")


def test_logs_and_descriptions_of_all_runs_fit_in_memory(sound_result, monkeypatch):
    monkeypatch.setattr(submission, "MAX_KEPT_BYTES", 1 << 16)
    with pytest.raises(UserError, match="logs and descriptions, is of more than"):
        review(sound_result)
    named = (evidence.LOG, evidence.CONFIG, evidence.SYSTEM)
    kept = sum((each / name).stat().st_size for each in sound_result.glob("run_*") for name in named)
    monkeypatch.setattr(submission, "MAX_KEPT_BYTES", kept)
    assert review(sound_result).verdict == "pass"


def test_predictions_of_five_results_of_a_large_model_are_read(tmp_path):
    for number in range(1, 16):
        (tmp_path / f"run_{number}").mkdir()
        with (tmp_path / f"run_{number}" / evidence.PREDICTIONS).open("wb") as file:
            file.truncate(90_000_000)
    submission.check_size(tmp_path, submission.survey(tmp_path))


def test_many_runs_have_as_many_findings_as_one(tmp_path):
    for number in range(1, 101):
        (tmp_path / f"run_{number}").mkdir()
        (tmp_path / f"run_{number}" / evidence.LOG).write_text("x\n" * 1000)
    made = review(tmp_path)
    assert made.verdict == "fail"
    malformed = [each for each in made.findings if each.rule == "log.1"]
    assert len(malformed) == 1000
    assert len({each.file for each in malformed}) == 100


def test_many_results_have_as_many_findings_as_one(tmp_path):
    for run in (f"result_{result}/run_{index}" for result in range(5) for index in (1, 2)):
        (tmp_path / run).mkdir(parents=True)
        software = {f"package_{number}": run for number in range(1000)}
        (tmp_path / run / evidence.SYSTEM).write_text(json.dumps({"software": software}))
    found = Counter(each.file for each in review(tmp_path).findings if each.rule == "system.5")
    assert found == {f"result_{result}/run_2/{evidence.SYSTEM}": 200 for result in range(5)}


def test_no_number_of_notes_hides_a_breach():
    checks = finding.Checks()
    severities = [*["note"] * 5000, *["fail"] * 5000]
    checks.rule("x.1")(lambda _: [finding.Finding("log.txt", None, "", "", "", each) for each in severities])
    found = [each.severity for each in checks.findings(None)]
    assert found == [*["note"] * finding.MAX_FINDINGS, *["fail"] * finding.MAX_FINDINGS]


def test_no_package_hides_what_is_found_in_another(tmp_path):
    for name, files in (("first", 3000), ("second", 1)):
        made = tmp_path / name
        (made / "results" / "cpu_torch" / "speech-small" / "run_1").mkdir(parents=True)
        (made / "results" / "cpu_torch" / "speech-small" / "run_1" / evidence.LOG).touch()
        (made / seals.SEAL).write_text("{}")
        for file in range(files):
            (made / f"{file}.txt").touch()
    found = [each.file for each in review(tmp_path).findings if each.rule == "package.8"]
    assert found.count("second/0.txt") == 1


def test_no_run_hides_what_is_found_in_another(tmp_path, monkeypatch):
    def many(runs):
        return [finding.Finding(path_of(run, evidence.LOG), None, "", "", "") for run in runs for _ in range(2000)]

    for name in ("first", "second"):
        (tmp_path / name / "run_1").mkdir(parents=True)
    monkeypatch.setitem(reading.PACKAGE.by_rule, "runs.8", many)
    found = Counter(each.file for each in review(tmp_path).findings if each.rule == "runs.8")
    assert found == {"first/run_1/log.txt": 500, "second/run_1/log.txt": 500}


def test_no_link_hides_another_in_another_result(tmp_path):
    for name, links in ("first", finding.MAX_FINDINGS + 1), ("second", 1):
        (tmp_path / name / "run_1").mkdir(parents=True)
        for link in range(links):
            (tmp_path / name / f"{link}.txt").symlink_to("elsewhere")
    found = [each.file for each in review(tmp_path).findings if each.rule == "package.1"]
    assert found.count("second/0.txt") == 1


def test_what_refuses_the_review_of_all_is_named(tmp_path, monkeypatch):
    for name, deep in (("honest", "run_1"), ("other", "/".join("d" * 20))):
        (tmp_path / name / deep).mkdir(parents=True)
    with pytest.raises(UserError, match=f"other{'/d' * submission.MAX_DEPTH} is nested more than"):
        review(tmp_path)
    shutil.rmtree(tmp_path / "other")
    for index in range(1, 5):
        (tmp_path / "other" / f"run_{index}").mkdir(parents=True)
        (tmp_path / "other" / f"run_{index}" / evidence.LOG).write_text("line\n")
    for bound, said in (
        ("MAX_RUNS", "more than 4 runs"),
        ("MAX_ENTRIES", "more than 4 files and folders"),
        ("MAX_KEPT_BYTES", "its evidence, logs and descriptions, is of more than 0 MiB"),
        ("MAX_BYTES", "its evidence, all, is of more than 0 MiB"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(submission, bound, 4)
            with pytest.raises(UserError, match=f"{said}, the largest part in other"):
                review(tmp_path)


def test_a_finding_stays_in_what_it_is_of():
    checks = finding.Checks()
    checks.rule("x.1")(lambda names: [finding.Finding(name, None, "", "", "") for name in names])
    found = checks.findings(["../other", ".", "log.txt"], "result")
    assert [each.file for each in found] == ["result/../other", "result", "result/log.txt"]


def test_what_the_checks_of_one_run_needed_is_let_go(run):
    made = reading.Evidence.read(run.folder)
    assert made.samples
    assert made.predictions
    made.release()
    assert {len(each.lines) for each in (*made.digests.values(), *made.sealed.values())} == {64}
    assert (made.samples, made.predictions, set(made.contents)) == (None, None, {evidence.CONFIG, evidence.SYSTEM})
    assert made.intact(evidence.LOG, evidence.POWER, evidence.PREDICTIONS)


def test_power_is_parsed_from_the_bytes_that_were_hashed(run, monkeypatch):
    """A file that is another one when it is read again would be held to another one's sum."""
    path, read = run.folder / evidence.POWER, reading.read_safely

    def swapped(at, limit):
        content = read(at, limit)
        if at == path:
            path.write_text(path.read_text().replace("0.5000", "0.1000"))
        return content

    before = reading.Evidence.read(run.folder).samples
    monkeypatch.setattr(reading, "read_safely", swapped)
    assert reading.Evidence.read(run.folder).samples == before


@pytest.mark.parametrize("scale", config.scales("language_modeling"))
def test_the_longest_text_s_predictions_are_read(scale):
    """A number of four decimals for each word, and the distributions at the audited places."""
    benchmark = config.benchmark("language_modeling", scale)
    values = benchmark.dataset.eval_samples + AUDITED * (1 << 16)
    assert values + values // CHUNK < contents.MAX_PREDICTED
    assert values * len("-10.1234,") < reading.LIMITS[evidence.PREDICTIONS][0]
