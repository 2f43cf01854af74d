"""What a package says of its runs is held to these, also where its seal was made anew."""

import json

import pytest

from suite.review.model import report
from suite.rules.seals import SEAL
from tests.submit.conftest import PLACE, resealed

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


FORGERIES = {
    "package.7": {
        "another submitter": lambda folder: resealed(folder, org="another"),
        "another division": lambda folder: resealed(folder, division="open"),
        "a category of its own": lambda folder: resealed(folder, category="best"),
        "a result left out": lambda folder: resealed(folder, results=[]),
        "a result made up": lambda folder: claimed(folder, path="results/cpu_torch/speech-small"),
        "another benchmark": lambda folder: claimed(folder, benchmark="speech/small"),
        "another system": lambda folder: claimed(folder, system="h200_torch"),
        "another framework": lambda folder: claimed(folder, framework="tensorflow"),
        "more runs": lambda folder: claimed(folder, runs=30),
        "another result": lambda folder: claimed(folder, result_id="0" * 32),
        "another revision": lambda folder: claimed(folder, revision="0" * 40),
        "the folder of another benchmark": moved,
        "no description": without_description,
        "a description without fields": without_fields,
        "a description that is no object": lambda folder: ((folder / SYSTEM).write_text("[]"), resealed(folder)),
        "another processor": lambda folder: described(folder, host_processor_model_name="a faster one"),
        "another status": lambda folder: described(folder, status="Available cloud"),
        "a field that is no text": lambda folder: described(folder, cooling=1),
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
        "a log less": lambda folder: ((folder / PLACE / "result_1.txt").unlink(), resealed(folder)),
    },
}
ALL = [(rule, name) for rule, forgeries in FORGERIES.items() for name in forgeries]


@pytest.mark.parametrize(("rule", "name"), ALL, ids=[name for _, name in ALL])
def test_forgery_breaks_its_rule_alone(rule, name, submit, told):
    submit(f"description={told}")
    FORGERIES[rule][name](submit.folder)
    made = report(submit.folder.parent)
    assert {finding.rule for finding in made.findings if finding.severity != "note"} == {rule}, made.findings


def test_what_only_a_person_knows_is_free(submit, told):
    submit(f"description={told}")
    described(submit.folder, cooling="by the sea", hw_notes="a fan is broken")
    assert report(submit.folder.parent).verdict == "pass"
