"""A submission of runs of an implementation of one's own: its code is packed, as it trained, and looked at."""

import json
import shutil

import pytest

from suite.audit import auditing
from suite.errors import UserError
from suite.results.reading import Source, read
from suite.review.difference import differences
from suite.review.model import report
from suite.rules.seals import SEAL
from suite.store.code import CODE, sums
from tests.rules import evidence_maker
from tests.rules.subject import CONTESTANT, OWN_CODE
from tests.submit.conftest import PLACE, files, head, resealed, write_committed


@pytest.fixture
def own(runs):
    """The runs, made anew by an implementation of one's own."""
    return trained_anew(runs)


def trained_anew(runs):
    shutil.rmtree(runs)
    return write_committed(runs, own=True)


@pytest.fixture
def packed(own, submit, told):
    assert submit(f"description={told}") == 0
    name = f"{head()[:12]}-{CONTESTANT.sha256[:12]}"
    submit.code = submit.folder / "benchmarks" / "image_classification-small" / "implementations" / name / CODE
    return submit


def broken(folder):
    return {finding.rule for finding in report(folder).findings if finding.severity != "note"}


def test_its_code_lies_beside_the_suite_s(packed):
    assert files(packed.code) == OWN_CODE
    assert (packed.code.parent / "reference_impls/image_classification/torch.py").exists()
    assert not list((packed.folder / PLACE).glob(f"run_*/{CODE}"))
    (result,) = json.loads((packed.folder / SEAL).read_text())["results"]
    assert result["trained_by"] == "ours"
    assert broken(packed.folder) == set()


def test_code_may_bear_names_of_evidence_and_lie_deep(runs, submit, told, monkeypatch):
    named = ["config.yaml", "waivers.yaml", "submission.json", "run_1/log.txt", "result_0.txt", "a/b/c/d/e/f/g/h/i/j"]
    code = OWN_CODE | dict.fromkeys(named, b"MORE = 1\n")
    monkeypatch.setattr(evidence_maker, "OWN_CODE", code)
    monkeypatch.setattr(evidence_maker, "CONTESTANT", CONTESTANT.model_copy(update={"files": sums(code)}))
    trained_anew(runs)
    assert submit(f"description={told}") == 0
    assert broken(submit.folder.parent) == set()


def test_the_same_again_writes_nothing(packed, told, capsys):
    assert packed(f"description={told}") == 0
    assert "complete, nothing to add" in capsys.readouterr().out


def test_results_and_review_name_it(packed):
    (entry,) = read(Source(packed.folder)).entries
    assert (entry.implementation, entry.trained_by) == ("ours", "torch, ours")
    (made,) = differences(report(packed.folder), packed.folder)
    assert {file.name: file.problem for file in made.files} == dict.fromkeys(OWN_CODE, "")


def test_an_audit_takes_the_code_of_the_package(packed):
    (part,) = auditing.planned(packed.folder, auditing.Asked(blocks=1, entropy="0a")).parts
    assert {name: part.code.files[f"{CODE}/{name}"] for name in OWN_CODE} == OWN_CODE
    assert "reference_impls/image_classification/torch.py" in part.code.files
    assert packed.code.parent.name in part.code.source


def test_an_audit_takes_the_code_that_lies_with_the_evidence(own):
    (part,) = auditing.planned(own, auditing.Asked(blocks=1, entropy="0a")).parts
    assert {name: part.code.files[f"{CODE}/{name}"] for name in OWN_CODE} == OWN_CODE
    assert part.code.source == f"ours, kept with the evidence, and git revision {head()[:12]}"


def test_other_bytes_are_found_also_when_sealed_again(packed):
    (packed.code / "model.py").write_text("ACCELERATORS = 8\n")
    assert broken(packed.folder) == {"package.6"}
    resealed(packed.folder)
    assert broken(packed.folder) == {"package.9"}


@pytest.mark.parametrize(
    ("hidden", "said"),
    [
        (b"# coding: utf-7\n# nothing +AAo-import os\n", "names the encoding utf-7"),
        (b"# nothing\rimport os\n", "holds U+000D in line 1"),
        (b"import os\x1b[2K  # nothing\n", "holds U+001B in line 1"),
        ("x = 1  # \u202e nothing\n".encode(), "holds U+202E in line 1"),
    ],
)
def test_code_that_python_reads_otherwise_than_a_person_is_found(packed, own, hidden, said):
    for code in (packed.code, own / "run_1" / CODE):
        (code / "model.py").write_bytes(hidden)
    resealed(packed.folder)
    for folder, rule in ((packed.folder, "package.9"), (own, "implementation.2")):
        found = [each.found for each in report(folder).findings if each.rule == rule]
        assert any(each.startswith(said) for each in found)


def test_code_is_read_so_in_a_reference_of_an_unknown_revision_too(packed, monkeypatch):
    monkeypatch.setattr("suite.rules.code.blobs", lambda *_: {})
    (packed.code.parent / "reference_impls" / "trainer.py").write_bytes(b"# nothing\rimport os\n")
    resealed(packed.folder)
    found = [each.found for each in report(packed.folder).findings if each.severity == "fail"]
    assert len(found) == 1
    assert found[0].startswith("holds U+000D in line 1")


@pytest.mark.parametrize("change", ["less", "more"])
def test_files_less_and_more_are_found(packed, change):
    if change == "less":
        (packed.code / "model.py").unlink()
    else:
        (packed.code / "more.py").write_text("MORE = 1\n")
    resealed(packed.folder)
    assert broken(packed.folder) == {"package.9"}


def test_another_name_in_the_seal_is_found(packed):
    (result,) = json.loads((packed.folder / SEAL).read_text())["results"]
    resealed(packed.folder, results=[{**result, "trained_by": "reference"}])
    assert broken(packed.folder) == {"package.7"}


def test_code_that_is_gone_from_the_evidence_cannot_be_submitted(own, submit, told):
    shutil.rmtree(own / "run_1" / CODE)
    with pytest.raises(UserError, match=r"the code of ours, cannot be read: No such file"):
        submit(f"description={told}")
