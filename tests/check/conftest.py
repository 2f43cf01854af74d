import shutil

import pytest

import reference_impls
import tasks
from suite.config import folder
from tests.eighth_task import HERE


@pytest.fixture
def parity(tmp_path, monkeypatch):
    """The eighth task in this process, with a conf/ and a cache of its own that a test may spoil."""
    conf = tmp_path / "conf"
    for source in (folder.CONF, HERE / "conf"):
        shutil.copytree(source, conf, dirs_exist_ok=True, ignore=shutil.ignore_patterns("rcp", "files"))
    monkeypatch.setattr(folder, "CONF", conf)
    for package in (tasks, reference_impls):
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(HERE / package.__name__)])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    folder.load.cache_clear()
    yield monkeypatch
    folder.load.cache_clear()
