"""What a framework says of the search for an accelerator is heard where there is one, and nowhere else."""

import os
import shutil

import pytest

from suite import config
from suite.bricks import frameworks
from suite.harness import contestant, lean
from suite.harness.implementation import load_implementation, source
from suite.probe import instruments

TORCH = config.framework("torch")
SAID = {"TF_CPP_MIN_LOG_LEVEL": "3", "KINETO_LOG_LEVEL": "5"}
LOADERS = {
    "reference": lambda folder: load_implementation("recommendation", TORCH),
    "own code": lambda folder: own_code(folder / "ours.py").load("recommendation"),
    "instruments": lambda folder: instruments.load("torch"),
    "bricks": lambda folder: frameworks.load("torch"),
}


def own_code(path):
    shutil.copyfile(source("recommendation", TORCH), path)
    return contestant.read(path)


@pytest.fixture
def devices(tmp_path, monkeypatch):
    for name in SAID:
        monkeypatch.setenv(name, "")  # so that it is put back afterwards
        monkeypatch.delenv(name)
    monkeypatch.setattr(lean, "DEVICES", tmp_path)
    return tmp_path


def set_now():
    return {name: os.environ[name] for name in SAID if name in os.environ}


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
def test_without_an_accelerator_frameworks_are_quiet(devices, load):
    load(devices)
    assert set_now() == SAID


@pytest.mark.parametrize("node", lean.NODES)
def test_with_one_all_is_shown(devices, node):
    (devices / node).touch()
    LOADERS["reference"](devices)
    assert set_now() == {}


def test_what_the_user_has_set_stays(devices, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    LOADERS["reference"](devices)
    assert set_now() == {**SAID, "TF_CPP_MIN_LOG_LEVEL": "0"}
