import hashlib
import json
from functools import cache

import pytest
import yaml

from suite import config
from suite.record import git
from suite.record.system import KEYS
from suite.rules.seals import SEAL
from suite.submit.__main__ import main
from tasks import image_classification
from tests.rules import evidence_maker
from tests.rules.conftest import run, sound_run
from tests.rules.evidence_maker import isolate, write_result
from tests.rules.subject import BENCHMARK, CPU_ONLY

__all__ = ["run", "sound_run"]

ORG = "someone"  # the submitter that write_run logs
TOLD = {key: "as a person says" for key in KEYS if not key.startswith("accelerator")}
PLACE = "results/cpu_torch/image_classification-small"


@pytest.fixture
def small(tmp_path_factory, monkeypatch):
    """A benchmark of three runs that can be submitted, with the data of `mini`."""
    small = BENCHMARK.model_copy(update={"scale": "small", "runs": 3})
    prepare = image_classification.prepare
    monkeypatch.setattr(image_classification, "prepare", lambda scale, files: prepare("mini", files))
    monkeypatch.setenv("SUITE_DATA", str(tmp_path_factory.mktemp("data")))
    monkeypatch.setattr(evidence_maker, "BENCHMARK", small)
    isolate(monkeypatch, tmp_path_factory.mktemp("points"))
    monkeypatch.setattr(config, "benchmark", lambda task, scale: small)


@pytest.fixture
def runs(tmp_path, small):
    """The folder of three runs of `small`, as many as it asks for."""
    return write_committed(tmp_path / "runs")


def write_committed(folder, **parameters):
    """Write a result of three runs that were made by the code of this revision, and return its folder."""
    for each in write_result(folder, 3, **parameters):
        each.recode(revision=head())
    return folder


@cache
def head():
    return git.output("rev-parse", "HEAD").decode().strip()


@pytest.fixture
def told(tmp_path):
    """A file with what only a person knows of the machine: the fields that a run leaves empty."""
    described = evidence_maker.described("cpu", CPU_ONLY)["description"]
    path = tmp_path / "machine.yaml"
    path.write_text(yaml.safe_dump({key: text for key, text in TOLD.items() if not described[key]}))
    return path


@pytest.fixture
def submit(tmp_path, runs):
    """A function that submits the runs with further arguments; its `folder` is that of the submission."""

    def submitted(*words, org=ORG):
        return main([f"org={org}", "category=available", f"runs={runs}", f"out={tmp_path / 'out'}", *words])

    submitted.folder = tmp_path / "out" / ORG
    return submitted


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def resealed(folder, **changes):
    """Seal the folder as it is now, with `changes` to what the seal says."""
    seal = json.loads((folder / SEAL).read_text())
    seal["files"] = {
        name: hashlib.sha256(content).hexdigest() for name, content in files(folder).items() if name != SEAL
    }
    (folder / SEAL).write_text(json.dumps({**seal, **changes}))
