"""What a package says of its runs is held to these, also where its seal was made anew."""

import json
import shutil

import pytest

from suite.audit import auditing
from suite.record import git
from suite.record.evidence import LOG
from suite.review.model import report
from suite.rules.seals import SEAL, SIGNATURE
from tests.rules.editor import Evidence
from tests.submit.conftest import ORG, PLACE, resealed

SYSTEM = "systems/cpu_torch.json"


def described(folder, **changes):
    values = json.loads((folder / SYSTEM).read_text())
    (folder / SYSTEM).write_text(json.dumps({**values, **changes}))
    resealed(folder)


def claimed(folder, **changes):
    (result,) = json.loads((folder / SEAL).read_text())["results"]
    resealed(folder, results=[{**result, **changes}])


def without_fields(folder):
    (folder / SYSTEM).write_text("{}")
    resealed(folder)


def without_description(folder):
    (folder / SYSTEM).unlink()
    resealed(folder)


def moved(folder):
    place = "results/cpu_torch/speech-small"
    (folder / PLACE).rename(folder / place)
    claimed(folder, path=place)


def implementation(folder):
    (revision,) = (folder / "benchmarks" / "image_classification-small" / "implementations").iterdir()
    return revision


def edited(path, text="# faster\n"):
    """A change to a file of the packed code."""

    def change(folder):
        file = implementation(folder) / path
        file.write_bytes(file.read_bytes() + text.encode())
        resealed(folder)

    return change


def written(path):
    """A file of somebody's own."""

    def change(folder):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("print('PASS')")
        resealed(folder)

    return change


def without_code(folder):
    shutil.rmtree(folder / "benchmarks")
    resealed(folder)


def changed_code(folder):
    """The runs say that their code was changed since its revision."""
    for run in (folder / PLACE).glob("run_*"):
        Evidence(run).recode(dirty=True)
        at = int(run.name.removeprefix("run_")) - 1
        (folder / PLACE / f"result_{at}.txt").write_bytes((run / LOG).read_bytes())
    resealed(folder)


def renamed_code(folder):
    here = implementation(folder)
    here.rename(here.with_name("0" * 12))
    claimed(folder, implementation=str(here.with_name("0" * 12).relative_to(folder)))


def less_code(folder):
    (implementation(folder) / "tasks" / "image_classification" / "__init__.py").unlink()
    resealed(folder)


def more_code(folder):
    written(implementation(folder).relative_to(folder) / "reference_impls" / "image_classification" / "data.py")(folder)


def seal_moved(folder, to):
    (folder / to).parent.mkdir(parents=True, exist_ok=True)
    (folder / SEAL).rename(folder / to)


FORGERIES = {
    "package.7": {
        "another submitter": lambda folder: resealed(folder, org="another"),
        "another submitter than the logs alone have": lambda folder: (
            described(folder, submitter="another"),
            resealed(folder, org="another"),
        ),
        "another division": lambda folder: resealed(folder, division="open"),
        "another division than the logs alone have": lambda folder: (
            described(folder, division="open"),
            resealed(folder, division="open"),
        ),
        "a category of its own": lambda folder: resealed(folder, category="best"),
        "a result left out": lambda folder: resealed(folder, results=[]),
        "a result made up": lambda folder: claimed(folder, path="results/cpu_torch/speech-small"),
        "another benchmark": lambda folder: claimed(folder, benchmark="speech/small"),
        "another system": lambda folder: claimed(folder, system="h200_torch"),
        "another framework": lambda folder: claimed(folder, framework="tensorflow"),
        "more runs": lambda folder: claimed(folder, runs=30),
        "another result": lambda folder: claimed(folder, result_id="0" * 32),
        "another revision": lambda folder: claimed(folder, revision="0" * 40),
        "no revision": lambda folder: claimed(folder, revision=None),
        "the folder of another benchmark": moved,
        "no description": without_description,
        "a description without fields": without_fields,
        "a description that is no object": lambda folder: ((folder / SYSTEM).write_text("[]"), resealed(folder)),
        "another processor": lambda folder: described(folder, host_processor_model_name="a faster one"),
        "another status": lambda folder: described(folder, status="Available cloud"),
        "a field that is no text": lambda folder: described(folder, cooling=1),
        "a machine of no run": written("systems/h100x8_torch.json"),
    },
    "package.6": {
        "a log of another spelling": lambda folder: (
            (folder / PLACE / "result_00.txt").write_text("forged"),
            resealed(folder),
        ),
        "a log of another name": lambda folder: (
            (folder / PLACE / "result_5x.txt").write_text("forged"),
            resealed(folder),
        ),
        "no seal": lambda folder: (folder / SEAL).unlink(),
        "no seal, and folders of another case": lambda folder: (
            (folder / SEAL).unlink(),
            (folder / "results").rename(folder / "Results"),
        ),
        "a seal above": lambda folder: seal_moved(folder, f"../{SEAL}"),
        "a seal of one result": lambda folder: seal_moved(folder, f"{PLACE}/{SEAL}"),
        "two seals": lambda folder: (
            (folder / PLACE / SEAL).write_bytes((folder / SEAL).read_bytes()),
            resealed(folder),
        ),
        "a log less": lambda folder: ((folder / PLACE / "result_1.txt").unlink(), resealed(folder)),
    },
    "package.8": {
        "a module for the reviewer": written("suite/review.py"),
        "a file": written("notes.txt"),
        "results in capitals": written("Results/notes.txt"),
        "an empty folder": lambda folder: (folder / "extra").mkdir(),
        "a folder for a signature": lambda folder: (folder / SIGNATURE).mkdir(),
        "a module among the systems": written("systems/suite/review.py"),
        "a module among the benchmarks": written("benchmarks/suite/review.py"),
        "a module among the results": written("results/suite/__init__.py"),
        "notes of no result": written("results/spare/bench/notes.txt"),
    },
    "package.9": {
        "no code": without_code,
        "code that was changed": changed_code,
        "an altered implementation": edited("reference_impls/image_classification/torch.py"),
        "altered shared code": edited("reference_impls/torch_shared.py"),
        "altered values": edited("conf/task/image_classification.yaml"),
        "code of another name": renamed_code,
        "a file of the code less": less_code,
        "a file of the code more": more_code,
        "no implementation named": lambda folder: claimed(folder, implementation=None),
        "code that is said to be missing": lambda folder: claimed(folder, code_missing="lost"),
        "code of no result": written("benchmarks/speech-small/implementations/1/run.py"),
        "an altered implementation behind a thousand notes": lambda folder: (
            resealed(folder, missing=["nothing"] * 1000),
            edited("reference_impls/image_classification/torch.py")(folder),
        ),
    },
}
# Which break others as well.
MORE = {
    *("a result left out", "a result made up", "a seal above", "a seal of one result", "two seals"),
    "a module among the benchmarks",
}
ALL = [(rule, name) for rule, forgeries in FORGERIES.items() for name in forgeries]
_FOLDERS = []  # of the submission, made once


@pytest.fixture
def submission(small, request, tmp_path):
    """A complete submission, to be forged."""
    if not _FOLDERS:
        submit, told = map(request.getfixturevalue, ("submit", "told"))
        submit(f"description={told}")
        _FOLDERS.append(submit.folder)
    return shutil.copytree(_FOLDERS[0], tmp_path / "forged" / ORG)


@pytest.mark.parametrize(("rule", "name"), ALL, ids=[name for _, name in ALL])
def test_forgery_breaks_its_rule_alone(rule, name, submission):
    FORGERIES[rule][name](submission)
    made = report(submission.parent)
    found = {finding.rule for finding in made.findings if finding.severity != "note"}
    assert rule in found
    assert name in MORE or found == {rule}, made.findings


def test_what_only_a_person_knows_is_free(submission):
    described(submission, cooling="by the sea", hw_notes="a fan is broken")
    assert report(submission.parent).verdict == "pass"


def test_code_that_the_reviewer_s_repository_does_not_have_is_a_note(submit, told):
    """Of a revision that is known elsewhere alone, and of a file that is needed at any revision."""
    submit(f"description={told}")
    revision = "a" * 40
    for run in (submit.folder / PLACE).glob("run_*"):
        Evidence(run).edit_system(lambda values: values["git"].update(revision=revision))
    here = implementation(submit.folder)
    place = here.rename(here.with_name(revision[:12])).relative_to(submit.folder)
    edited("reference_impls/image_classification/torch.py")(submit.folder)
    claimed(submit.folder, revision=revision, implementation=str(place))
    found = [finding for finding in report(submit.folder).findings if finding.rule == "package.9"]
    files = [str(place), f"{place}/reference_impls/image_classification/torch.py"]
    assert [(finding.file, finding.severity) for finding in found] == [(file, "note") for file in files]
    for name, severities in (("torch_muon.py", {"note"}), ("image_classification/torch.py", {"fail", "note"})):
        (submit.folder / place / "reference_impls" / name).unlink()
        resealed(submit.folder)
        found = [finding for finding in report(submit.folder).findings if finding.rule == "package.9"]
        assert {each.severity for each in found} == severities
        missing = {each.file for each in found if each.found == "no such file"}
        assert f"{place}/reference_impls/{name}" in missing


def test_code_of_a_fork_that_the_reviewer_fetched_is_a_note_and_is_held_to_their_own(
    submit, told, runs, monkeypatch, tmp_path
):
    """Its bytes are those of its revision, which is in no history of the suite's, and none is that of the copy."""
    planned = lambda path: auditing.planned(path, auditing.Asked(blocks=1, entropy="0a")).parts[0]  # noqa: E731
    assert not planned(runs).strange
    monkeypatch.setattr(git, "descends_from", lambda revision: False)
    monkeypatch.setattr("suite.rules.code.ROOT", tmp_path / "other")
    assert submit(f"description={told}") == 0
    made = report(submit.folder)
    place = implementation(submit.folder).relative_to(submit.folder)
    assert made.verdict == "pass"
    assert {"model.4", "package.9"} <= {finding.rule for finding in made.findings}
    assert f"{place}/reference_impls/image_classification/torch.py" in {finding.file for finding in made.findings}
    for path in (runs, submit.folder):
        assert planned(path).strange
        assert "reference_impls/image_classification/torch.py" in planned(path).code.others


def test_what_a_partial_package_lacks_is_noted(submit):
    submit("partial=true")
    made = report(submit.folder)
    found = [finding.found for finding in made.findings if finding.rule == "package.9"]
    assert made.verdict == "pass"
    assert "missing: systems/cpu_torch.json: cooling" in found
