import pytest

from tests.rules.evidence_maker import isolate, write_run

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
        for index in range(1, 6):
            write_run(_FOLDERS[0] / f"run_{index}", index, runs=5)
    return _FOLDERS[0]
