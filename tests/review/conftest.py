import tempfile

import pytest

from tests.rules.conftest import run, sound_result, sound_run

__all__ = ["run", "sound_result", "sound_run"]


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files, which must be empty after the test."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []
