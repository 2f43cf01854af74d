"""Where a command writes when its long work is done, is tried before the work begins."""

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

from suite.errors import UserError
from suite.store.disk import UnsafeFile, alone, having_room, read_safely, refuse_unwritable, sync, write_text

PROBE = ("level=throughput", "model=squeezenet1_1", "size=32", "batch=2", "precision=fp32")
FORECAST = ("task=recommendation", "scale=mini", "hw=cpu")


@pytest.mark.parametrize(
    ("command", "work", "words"),
    [
        ("probe", "sweep", (*PROBE, "out={}")),
        ("probe", "sweep", (*PROBE, "--html", "{}")),
        ("probe", "sweep", ("level=trace", *PROBE[1:], "trace={}")),
        ("bricks", "Bricks", ("make", "models=squeezenet1_1", "out={}")),
        ("bricks", "Bricks", ("make", "models=squeezenet1_1", "private=true", "out=bricks.json", "key={}")),
        ("results", "read", (".", "--curves", "{}")),
        ("results", "read", (".", "--html", "{}.html")),
        ("forecast", "needed", (*FORECAST, "--picture", "{}")),
    ],
)
def test_a_place_that_cannot_be_written_is_a_mistake_before_the_work(command, work, words, tmp_path, monkeypatch):
    def begun(*_: object, **__: object) -> None:
        raise AssertionError("the work has begun")

    module = import_module(f"suite.{command}.__main__")
    monkeypatch.setattr(module, work, begun)
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(UserError, match="cannot write file/place"):
        module.main([word.format("file/place") for word in words])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_two_things_are_not_written_to_one_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"/a\.html is to hold two things: give each a file of its own$"):
        refuse_unwritable(Path("a.html"), None, tmp_path / "a.html")
    refuse_unwritable(Path("/dev/null"), Path("/dev/null"))
    assert list(tmp_path.iterdir()) == []


def test_text_that_no_file_holds_is_written_all_the_same(tmp_path):
    """As of a file's name that is not UTF-8."""
    write_text(tmp_path / "page.html", "a\udcff")
    assert (tmp_path / "page.html").read_text() == "a?"


def test_a_file_takes_the_memory_of_its_size_and_not_of_what_it_may_have(tmp_path):
    (tmp_path / "log.txt").write_text("a line\n")
    assert read_safely(tmp_path / "log.txt", 1 << 60) == b"a line\n"


def test_of_a_stranger_only_plain_files_within_bounds_are_read(tmp_path):
    file, link, pipe = tmp_path / "file", tmp_path / "link", tmp_path / "pipe"
    file.write_bytes(b"12345")
    link.symlink_to(file)
    os.mkfifo(pipe)  # whose opening would wait for somebody to write
    assert read_safely(file, 5) == b"12345"
    for path, limit, said in (
        (file, 4, "is 5 bytes, more than 4"),
        (link, 5, "is a symbolic link"),
        (pipe, 5, "is not a plain file"),
        (tmp_path, 1 << 20, "is not a plain file"),
    ):
        with pytest.raises(UnsafeFile, match=f"^{said}$"):
            read_safely(path, limit)


def test_a_link_or_a_pipe_is_written_to_and_stays(tmp_path):
    pipe, link, file = tmp_path / "pipe", tmp_path / "link", tmp_path / "file"
    os.mkfifo(pipe)
    link.symlink_to(file)
    with ThreadPoolExecutor() as readers:
        read = readers.submit(pipe.read_text)
        for path in (pipe, link):
            refuse_unwritable(path)
            write_text(path, "told")
        assert read.result() == "told"
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert link.is_symlink()
    assert file.read_text() == "told"
    assert sorted(os.listdir(tmp_path)) == ["file", "link", "pipe"]


def test_what_cannot_be_written_leaves_the_old_file_and_no_part_of_the_new_one(tmp_path, monkeypatch):
    def full(_: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "page.html").write_text("old")
    monkeypatch.setattr("suite.store.disk.sync", full)
    with pytest.raises(UserError, match="No space left on device"):
        write_text(tmp_path / "page.html", "new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_full_disk_of_temporary_folders_is_named_and_another_error_is_not_taken_for_it(tmp_path):
    full, broken = (OSError(number, os.strerror(number)) for number in (errno.EDQUOT, errno.EIO))
    with pytest.raises(UserError, match=f"^{tmp_path}: Disk quota exceeded; name a folder"), having_room(str(tmp_path)):
        raise full
    with pytest.raises(OSError, match="Input/output error"), having_room(str(tmp_path)):
        raise broken


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, 524])
def test_where_there_are_no_locks_what_a_killed_command_left_blocks_none(number, tmp_path, monkeypatch):
    def missing(*_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", missing)
    lock = tmp_path / ".lock"
    lock.write_text("1\nanother-node\n")  # a soft lock, which such a file system has been given
    with alone(lock, "busy"):
        pass
    assert not lock.exists()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_lock_that_cannot_be_had_for_another_reason_is_not_gone_on_without(number, tmp_path, monkeypatch):
    def fail(*_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", fail)
    with pytest.raises(OSError, match=os.strerror(number)), alone(tmp_path / ".lock", "busy"):
        pytest.fail("it went on")


def test_a_file_system_that_cannot_force_a_folder_to_the_disk_is_no_hindrance(tmp_path, monkeypatch):
    def cannot(_: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", cannot)
    (tmp_path / "file").touch()
    sync(tmp_path)
    with pytest.raises(OSError, match="Invalid argument"):
        sync(tmp_path / "file")
