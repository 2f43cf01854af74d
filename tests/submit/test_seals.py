"""A stranger's submission.json: whatever it holds, what is wrong is a finding, and nothing outside is read."""

import hashlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.record.evidence import LOG
from suite.rules.seals import RESULTS, SEAL, findings
from suite.rules.verdict import review
from tests.json_values import FINITE_JSON
from tests.rules.evidence_maker import SOUND_SEAL, write_seal


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "package"
    made.mkdir()
    (made / "file").write_text("content")
    return made


def sum_of(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_sound_seal_has_no_breach(folder):
    write_seal(folder, files={"file": sum_of("content")})
    assert list(findings(folder)) == []


def test_a_result_that_is_named_twice_is_a_breach(folder):
    write_seal(folder, results=[{"path": "results/cpu_torch/speech-small"}] * 2)
    assert [finding.file for finding in findings(folder)] == [SEAL]


@pytest.mark.parametrize("told", [{"version": 2}, {"org": "ex\u0430mple"}, {"org": ""}, {"division": "a/b"}])
def test_a_seal_of_another_version_or_of_no_name_is_a_breach(folder, told):
    write_seal(folder, files={"file": sum_of("content")}, **told)
    (finding,) = findings(folder)
    assert (finding.file, finding.expected) == (SEAL, "a seal of version 1")


def test_a_package_within_another_is_a_breach(folder):
    within = folder / RESULTS / "more"
    (within / "run_1").mkdir(parents=True)
    (within / "run_1" / LOG).touch()
    for place in (within, folder):
        write_seal(place)
    found = [(each.file, each.found) for each in review(folder).findings if each.rule == "package.6"]
    assert (f"{RESULTS}/more/{SEAL}", "one within it") in found
    assert (SEAL, "one within it") not in found


@given(st.binary(max_size=200))
def test_any_bytes_are_a_breach(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("package")
    (folder / SEAL).write_bytes(content)
    assert [finding.file for finding in findings(folder)] == [SEAL]


@given(st.sampled_from(sorted(SOUND_SEAL)), FINITE_JSON)
def test_any_value_is_read_or_is_a_breach(tmp_path_factory, name, value):
    folder = tmp_path_factory.mktemp("package")
    write_seal(folder, **{name: value})
    for finding in findings(folder):
        assert finding.severity == "fail"
        assert finding.mend


@pytest.mark.parametrize(
    "path", ["../secret", "/etc/hostname", "a/../../secret", ".", "", "a//b", "./file", "a/..", "file/"]
)
def test_no_path_leads_out(folder, path):
    (folder.parent / "secret").write_text("content")
    write_seal(folder, files={"file": sum_of("content"), path: sum_of("content")})
    (finding,) = findings(folder)
    assert (finding.file, finding.line) == (SEAL, None)
    assert "is no path within the submission" in finding.found


def test_link_is_not_followed(folder):
    (folder.parent / "secret").write_text("content")
    (folder / "link").symlink_to("../secret")
    (folder / "folder").symlink_to("..")
    write_seal(folder, files={"file": sum_of("content"), "link": sum_of("content"), "folder/secret": sum_of("content")})
    assert {finding.file: finding.found for finding in findings(folder)} == {
        "link": "no such file",
        "folder/secret": "no such file",
    }


def test_link_for_a_seal_is_not_followed(folder):
    (folder / SEAL).symlink_to("file")
    assert [(finding.file, finding.found) for finding in findings(folder)] == [(SEAL, "is a symbolic link")]


def test_pipe_does_not_stall(folder):
    os.mkfifo(folder / "pipe")
    write_seal(folder, files={"file": sum_of("content"), "pipe": sum_of("")})
    assert [(finding.file, finding.found) for finding in findings(folder)] == [("pipe", "is not a plain file")]


def test_every_file_is_named_and_no_other(folder):
    (folder / "more").mkdir()
    (folder / "more" / "file").write_text("")
    write_seal(folder, files={"file": sum_of("other"), "gone": sum_of("")})
    found = {finding.file: finding.found for finding in findings(folder)}
    assert found == {"file": sum_of("content"), "gone": "no such file", "more/file": "another file"}


def test_files_without_end_are_not_read(folder, monkeypatch):
    monkeypatch.setattr("suite.rules.seals.MAX_FILES", 3)
    for name in "abc":
        (folder / name).write_text("")
    write_seal(folder, files={})
    assert [(finding.file, finding.expected) for finding in findings(folder)] == [(".", "at most 3 files")]
