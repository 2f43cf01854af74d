"""Evidence from strangers: whatever a folder holds, the review ends with findings, not with an exception."""

import json
import os
import re
import shutil
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mlperf_logging.mllog import constants as keys

from suite import config
from suite.config.logkeys import IMPLEMENTATION
from suite.record import evidence
from suite.record.mllog import Line
from suite.record.parsing import json_object, yaml_mapping
from suite.review.__main__ import main
from suite.rules.hyperparameters import misfit
from suite.rules.reading import PACKAGE, RUN, Evidence
from suite.rules.verdict import review
from tests.json_values import JSON
from tests.rules import editor

# Mutations restore what they changed, so one copy serves all examples.
REUSED = settings(max_examples=60)
EVERY_FILE = st.sampled_from([*evidence.OF_EACH_RUN, evidence.MANIFEST])


def mutated(run, name, change, reseal=False):
    """The review of the evidence while one of its files is changed."""
    path, manifest = run.folder / name, run.folder / evidence.MANIFEST
    before, sealed = path.read_bytes(), manifest.read_bytes()
    try:
        path.write_bytes(change(before))
        if reseal:
            run.seal()
        return review(run.folder)
    finally:
        path.write_bytes(before)
        manifest.write_bytes(sealed)


@REUSED
@given(name=st.sampled_from(evidence.OF_EACH_RUN), where=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_a_changed_byte_is_found_and_its_line_named(run, name, where, flip):
    content = (run.folder / name).read_bytes()
    at = int(where * len(content))
    changed = content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :]
    assume(evidence.digest(changed).lines != evidence.digest(content).lines)  # one time in 65,536 they are alike
    made = mutated(run, name, lambda _: changed)
    line = content.count(b"\n", 0, at) + 1
    found = [f for f in made.findings if f.severity == "fail" and f.file == name]
    assert made.verdict == "fail"
    if b"\n" in (content[at : at + 1], changed[at : at + 1]):  # two lines were joined, or one was split
        assert any(f.line in (line, line + 1) for f in found)
    else:
        assert any(f.line == line for f in found)


@REUSED
@given(
    name=EVERY_FILE, where=st.floats(0, 1), junk=st.binary(max_size=40), cut=st.integers(0, 200), reseal=st.booleans()
)
def test_no_bytes_raise(run, name, where, junk, cut, reseal):
    def change(content):
        at = int(where * len(content))
        return content[:at] + junk + content[at + cut :]

    made = mutated(run, name, change, reseal and name not in (evidence.MANIFEST, evidence.LOG))
    assert made.verdict in ("pass", "fail", "error")


TEXTS = st.sampled_from(["ours", "../x", "a" * 300, "__init__.py", "0" * 64, "\x00", "reference", "torch"]) | st.text()
PLAIN = (
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
)
VALUES = st.recursive(PLAIN, lambda each: st.lists(each) | st.dictionaries(TEXTS, each), max_leaves=8)
TOLD = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("name", "entry", "files", "imports", "revision", "dirty", "more"), VALUES)
)


@REUSED
@given(told=TOLD | VALUES, logged=TOLD | VALUES)
def test_whatever_is_said_of_an_implementation_does_not_raise(told, logged):
    """In the configuration, and otherwise in the log and the system description."""
    line = Line(9, b"", IMPLEMENTATION, logged, metadata=logged if isinstance(logged, dict) else {})
    run = Evidence(label="", config={"implementation": told}, system={"implementation": logged}, lines=[line])
    run.digests = dict.fromkeys((evidence.CONFIG, evidence.SYSTEM), evidence.digest(b""))
    run.code = {"__init__.py": "0" * 64}
    for rule, check in RUN.by_rule.items():
        if rule.startswith("implementation."):
            list(check(run))
    list(PACKAGE.by_rule["implementation.2"]([run]))


ODD = (
    b"",
    b"\n",
    b"\0" * 100,
    b"\xff\xfe",
    b"[" * 50_000,
    b'{"a":' * 50_000,
    b"- " * 20_000,
    b"a: &a [*a]\n",
    b"1" * 10_000,
    b"a: 0x" + b"f" * 10_000 + b"\n",
    b"a: " + b"1:" * 20_000 + b"1.5\n",
    b"a: 2020-99-99\n",
    b"a: !!python/object/apply:os.system ['echo']\n",
    b"? [a]\n: b\n",
    b"null\n",
    b"{}",
    b"\n" * 200_000,
)


@pytest.mark.parametrize("size", [5e-324, 1e-308, 1e308])
def test_no_batch_size_is_too_small_or_large_for_a_formula(size):
    benchmark = config.benchmark("translation", "small")
    inverse = next(name for name, free in benchmark.free.items() if getattr(free, "power", 0) < 0)
    assert misfit(benchmark, inverse, 1, size) is None
    assert misfit(benchmark, "global_batch_size", size, None)


@REUSED
@given(data=st.data())
def test_no_value_in_the_log_raises(run, data):
    content = (run.folder / evidence.LOG).read_bytes()
    records = run.records()
    record = data.draw(st.sampled_from(records))
    place = data.draw(st.sampled_from([record, record["metadata"]]))
    place[data.draw(st.sampled_from(sorted(place)))] = data.draw(JSON)
    try:
        for each in records:
            if not isinstance(each["metadata"], dict):
                each["metadata"] = {"metadata": each["metadata"]}
        run.write(records)
        assert review(run.folder).verdict in ("pass", "fail")
    finally:
        (run.folder / evidence.LOG).write_bytes(content)
        run.seal()


@settings(max_examples=25)
@given(data=st.data())
def test_no_value_in_the_log_of_a_result_raises(sound_result, tmp_path_factory, data):
    folder = shutil.copytree(sound_result, tmp_path_factory.mktemp("hostile") / "result")
    run = editor.Evidence(folder / data.draw(st.sampled_from(["run_1", "run_2"])))
    records = run.records()
    for _ in range(3):
        record = data.draw(st.sampled_from(records))
        place = data.draw(st.sampled_from([record, record["metadata"]]))
        name = data.draw(st.sampled_from(sorted(set(place) - {"metadata"})))
        place[name] = data.draw(JSON | st.integers(-(2**63), 2**63))
    run.write(records)
    assert review(folder).verdict in ("pass", "fail")


@REUSED
@given(data=st.data(), name=st.sampled_from([evidence.CONFIG, evidence.SYSTEM, evidence.MANIFEST]))
def test_no_value_in_a_mapping_raises(run, data, name):
    def change(content):
        values = yaml_mapping(content)[0] if name == evidence.CONFIG else json_object(content)
        place = values
        for _ in range(data.draw(st.integers(1, 4))):
            key = data.draw(st.sampled_from(sorted(place)))
            if not isinstance(place[key], dict) or not place[key]:
                break
            parent, place = place, place[key]
        else:
            place, key = parent, key
        place[key] = data.draw(JSON)
        return json.dumps(values).encode()

    assert mutated(run, name, change, reseal=name != evidence.MANIFEST).verdict in ("pass", "fail")


class Long(list):
    """A value that counts how often it is written out."""

    written = 0

    def __repr__(self):
        Long.written += 1
        return super().__repr__()


@pytest.mark.parametrize(
    ("rule", "key"), [("log.8", keys.EVAL_ACCURACY), ("hyperparameters.1", keys.GLOBAL_BATCH_SIZE)]
)
def test_a_long_value_is_not_written_out_for_each_line_that_differs_from_it(run, rule, key):
    read = Evidence.read(run.folder)
    line = read.line(key)
    read.lines_of[key] = [replace(line, value=Long([1])), *[line] * 50]
    Long.written = 0
    assert sum(each.file == evidence.LOG for each in RUN.by_rule[rule](read)) == 50
    assert Long.written <= 1


def test_a_long_name_is_not_written_out_for_each_run_of_another(run):
    runs = [Evidence.read(run.folder, f"run_{index}") for index in (1, 2, 3)]
    for each in runs[1:]:
        each.lines_of[keys.SUBMISSION_ORG] = runs[0].lines_of[keys.SUBMISSION_ORG]
    runs[0].lines_of[keys.SUBMISSION_ORG] = [replace(runs[1].line(keys.SUBMISSION_ORG), value=Long([1]))]
    Long.written = 0
    assert len(list(PACKAGE.by_rule["division.6"](runs))) == 2
    assert Long.written == 0


def test_a_long_version_is_not_searched(run):
    """To match it takes a time that grows with the square of its length."""
    run.edit_config(lambda values: values.update(suite_version="1" + ".1" * 50))
    assert "system.8" in {f.rule for f in review(run.folder).findings if f.severity == "fail"}


@pytest.mark.parametrize("name", [*evidence.OF_EACH_RUN, evidence.MANIFEST])
@pytest.mark.parametrize("content", ODD, ids=range(len(ODD)))
def test_odd_file_is_a_finding(run, name, content):
    assert mutated(run, name, lambda _: content).verdict == "fail"


@pytest.mark.parametrize("name", [*evidence.OF_EACH_RUN, evidence.MANIFEST])
@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "sparse", "missing"])
def test_odd_entry_is_a_finding(run, name, kind):
    path = run.folder / name
    content = path.read_bytes()
    path.unlink()
    if kind == "link":
        (run.folder.parent / "outside").write_bytes(content)
        path.symlink_to(run.folder.parent / "outside")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "sparse":
        with path.open("wb") as file:
            file.truncate(10 << 30)
    made = review(run.folder)
    assert made.verdict == "fail"
    rules = {"package.2"} if kind == "missing" else {"package.1"}
    assert rules <= {f.rule for f in made.findings if f.file == name}


def test_run_that_is_a_link_is_not_followed(run, tmp_path):
    (tmp_path / "result").mkdir()
    (tmp_path / "result" / "run_1").symlink_to(run.folder)
    made = review(tmp_path / "result")
    assert made.verdict == "fail"
    assert "package.1" in {f.rule for f in made.findings}
    assert made.runs[0].summary.seconds is None


def test_what_is_reviewed_may_be_a_link_of_the_reviewer(run, tmp_path):
    (tmp_path / "latest").symlink_to(run.folder)
    assert review(tmp_path / "latest").verdict == "pass"


def test_long_log_is_reviewed_all_the_same(run):
    junk = b"noise\n" * 100_000
    made = mutated(run, evidence.LOG, lambda content: content + junk)
    assert made.verdict == "fail"
    assert sum(f.rule == "log.1" for f in made.findings) == 1000


def test_nothing_of_a_submission_reaches_the_terminal_as_it_is(run, capsys):
    evil = "\x1b[2J[bold]\u202ebidi\r\n\ud800"
    run.edit("seed", lambda record: record.update(value=evil))
    run.edit("run_stop", lambda record: record["metadata"].update(reason=evil))
    (run.folder / "\x1b[31mred").write_text("")
    assert main([str(run.folder)]) == 1
    printed = capsys.readouterr().out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800]", printed)
    assert "[bold]" in printed
    assert main([str(run.folder), "--json"]) == 1
    json.loads(capsys.readouterr().out)


def test_no_module_is_imported_by_a_submission_s_name(run, monkeypatch):
    def refuse(task):
        raise AssertionError(task)

    monkeypatch.setattr("suite.rules.quality.load_task", refuse)
    for name in ("os/path", "../tasks/mini", "image_classification.x/mini", "/", ""):
        run.edit("submission_benchmark", lambda record, name=name: record.update(value=name))
        assert "division.1" in {f.rule for f in review(run.folder).findings}
