import shutil
from pathlib import Path

import pytest

from tests.rules.evidence_maker import isolate, write_result, write_run

_FOLDERS = []  # the folder of the result, made once


@pytest.fixture(scope="session")
def sound_run(tmp_path_factory):
    """Evidence of one run that passes; copy it before editing."""
    return write_run(tmp_path_factory.mktemp("sound") / "run")


@pytest.fixture
def run(sound_run, tmp_path, tmp_path_factory, monkeypatch):
    """Evidence of one run that passes, to be edited."""
    isolate(monkeypatch, tmp_path_factory.mktemp("points"))
    return sound_run.copy(tmp_path / "evidence")


@pytest.fixture
def sound_result(tmp_path_factory, monkeypatch):
    """The folder of five runs that pass; copy it before editing."""
    isolate(monkeypatch, tmp_path_factory.mktemp("points"))
    if not _FOLDERS:
        _FOLDERS.append(tmp_path_factory.mktemp("sound") / "result")
        write_result(_FOLDERS[0], 5)
    return _FOLDERS[0]


@pytest.fixture
def result(sound_result, tmp_path):
    """The folder of five runs that pass, to be edited."""
    return Path(shutil.copytree(sound_result, tmp_path / "result"))
