"""How much room a dataset's files still need on the disk."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from suite import config
from suite.config.dataset import File
from suite.errors import UserError
from suite.store import files, shards
from tests.store.conftest import MEMBERS, dataset, tar

NOWHERE = "http://127.0.0.1:1/set.tar"  # nothing listens there


def test_what_came_before_a_download_broke_off_needs_no_more_room(tmp_path: Path) -> None:
    packed = tar(MEMBERS)
    wanted, unpacked = dataset(packed, NOWHERE), sum(map(len, MEMBERS.values()))
    assert files.needed_bytes(wanted, tmp_path) == unpacked + len(packed)
    (tmp_path / "set.tar.part").write_bytes(packed[:1000])
    assert files.needed_bytes(wanted, tmp_path) == unpacked + len(packed) - 1000
    (tmp_path / "set.tar").write_bytes(packed)
    assert files.needed_bytes(wanted, tmp_path) == unpacked
    for name, content in MEMBERS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert files.needed_bytes(wanted, tmp_path) == 0


def test_a_disk_that_is_too_small_is_told_before_the_download(tmp_path: Path, server, monkeypatch) -> None:
    wanted = dataset(tar(MEMBERS), server.url)
    need = files.needed_bytes(wanted, tmp_path)
    for free in (need - 1, need):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        if free < need:
            with pytest.raises(
                UserError, match=r"needs 0\.0 GB in .*, which has 0\.0 GB free: name a folder on a larger"
            ):
                files.ensure(wanted, tmp_path)
            assert server.ranges == []
        else:
            files.ensure(wanted, tmp_path)
            assert not files.faults(wanted, tmp_path)


def test_a_disk_without_room_for_what_is_made_is_told_before_the_download(tmp_path: Path, server, monkeypatch) -> None:
    wanted = dataset(tar(MEMBERS), server.url).model_copy(update={"made": (File(path="made/all.bin", bytes=100),)})
    benchmark = config.benchmark("language_modeling", "pilot").model_copy(update={"dataset": wanted})
    need = files.needed_bytes(wanted, tmp_path / "data")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=need - 1))
    with pytest.raises(UserError, match=r"Small Set needs .* free: name a folder on a larger disk"):
        shards.ensure(benchmark, tmp_path / "data")
    assert server.ranges == []


def test_room_is_looked_for_on_the_disk_where_the_files_will_lie(tmp_path: Path, monkeypatch) -> None:
    wanted = dataset(tar(MEMBERS), NOWHERE)
    (tmp_path / "large").mkdir()
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: SimpleNamespace(free=10**9 * (path.resolve().name == "large"))
    )
    with pytest.raises(UserError, match=rf"needs 0\.0 GB in {tmp_path}/set, which has 0\.0 GB free"):
        files.require_room(wanted, tmp_path)
    (tmp_path / "set").symlink_to("large")
    files.require_room(wanted, tmp_path)
