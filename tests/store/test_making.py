"""Files that a task makes of others: once, always the declared ones, and all again with what they are made from."""

from __future__ import annotations

import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import pytest
from filelock import FileLock

from suite import config
from suite.config.dataset import File, Shards
from suite.config.models import Benchmark
from suite.errors import UserError
from suite.store import files, shards
from tests.command import run
from tests.killed_making import killed_and_made
from tests.waiting import FOREVER_S, until

PILOT = config.benchmark("language_modeling", "pilot")


@pytest.mark.slow
@pytest.mark.data("language_modeling/small")
def test_shards_are_made_once_and_a_killed_making_goes_on(tmp_path: Path) -> None:
    killed_and_made(PILOT, tmp_path, "wikitext-2", 2)
    (tmp_path / "wikitext-2").unlink()  # of what is made nothing is made again
    assert shards.ensure(PILOT, tmp_path) == tmp_path


def test_what_is_made_must_be_what_is_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Maker:
        def make(self, scale: str, files: Path, path: str, into: Path) -> None:
            into.write_bytes(b"other")

    monkeypatch.setattr(shards, "load_sharding", lambda task: Maker())
    with pytest.raises(UserError, match=r"pilot: wikitext-2-bpe/tokenizer\.model was made with 5 bytes.*declared are"):
        shards._make_one("language_modeling", "pilot", tmp_path, PILOT.dataset.members[0])
    assert not (tmp_path / PILOT.dataset.members[0].path).exists()


def test_a_maker_that_is_killed_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise BrokenProcessPool

    monkeypatch.setattr(shards, "_make", killed)
    monkeypatch.setattr(files, "ensure", lambda *_: tmp_path)
    monkeypatch.setattr(shards, "load_bringing", lambda _: None)
    monkeypatch.setattr(files, "require_room", lambda *_: None)
    with pytest.raises(UserError, match="a process that makes its files was killed, perhaps for want of memory"):
        shards.ensure(PILOT, tmp_path)


INTERRUPTED = """
import os, signal, time
from pathlib import Path
from suite import config
from suite.errors import command
from suite.store import files, shards

if __name__ == "__main__":
    files.ensure = lambda *_: None
    command(lambda _: shards.ensure(config.benchmark("language_modeling", "pilot"), Path()))
else:  # a maker that starts
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        print("a maker was interrupted", flush=True)
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(FOREVER_S)
"""


def test_ctrl_c_while_the_makers_start_ends_them_at_once_and_silently(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(INTERRUPTED.replace("FOREVER_S", str(2 * FOREVER_S)))
    ended = run(tmp_path, "program")
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


@dataclass
class Numbering:
    """Makes four shards that repeat what the first file, the index, holds; without room it makes no index."""

    number: int
    full: bool = False
    asked: list[str] = field(default_factory=list)

    def make(self, scale: str, files: Path, path: str, into: Path) -> None:
        self.asked.append(path)
        if path != "made/index.bin":
            into.write_bytes((files / "made/index.bin").read_bytes() * 2)
        elif self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(into))
        else:
            into.write_bytes(b"%d" % self.number)


@pytest.fixture
def numbered(monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    """A benchmark whose files a `Numbering` makes, in threads; nobody has declared their sums, but of the last."""
    made = [File(path="made/index.bin", bytes=1), *(File(path=f"made/train_{i}.bin", bytes=2) for i in range(4))]
    declared = File(path="made/test.bin", bytes=2, sha256=sha256(b"11").hexdigest())
    form = {"train_numbers": Shards(files="made/train_", dtype="uint8")}
    dataset = PILOT.dataset.model_copy(
        update={"name": "Numbers", "files": (), "archive": None, "made": (*made, declared), "shards": form}
    )
    monkeypatch.setattr(shards, "Pool", ThreadPoolExecutor)
    monkeypatch.setattr(shards, "load_bringing", lambda _: None)
    return PILOT.model_copy(update={"dataset": dataset})


def test_every_file_is_made_once_while_other_commands_wait(
    numbered: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    maker, said = Numbering(1), list[str]()
    monkeypatch.setattr(shards, "load_sharding", lambda _: maker)

    def told() -> bool:
        said.append(capsys.readouterr().err)
        return "".join(said).count("\n") == 2

    with ThreadPoolExecutor() as pool:
        with FileLock(tmp_path / ".language_modeling-pilot.lock"):
            waiting = [pool.submit(shards.ensure, numbered, tmp_path) for _ in range(2)]
            until(told)
            assert maker.asked == []
        for each in waiting:
            each.result()
    assert "".join(said) == 2 * f"another command is making Numbers in {tmp_path}: waiting for it\n"
    assert sorted(maker.asked) == sorted(file.path for file in numbered.dataset.members)


def test_shards_are_made_again_with_the_file_that_they_are_made_from(
    numbered: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "load_sharding", lambda _: Numbering(1))
    shards.ensure(numbered, tmp_path)
    test = (tmp_path / "made/test.bin").stat()
    (tmp_path / "made/train_1.bin").unlink()
    monkeypatch.setattr(shards, "load_sharding", lambda _: Numbering(2))
    shards.ensure(numbered, tmp_path)
    assert [(tmp_path / f"made/train_{i}.bin").read_bytes() for i in range(4)] == [b"11"] * 4
    (tmp_path / "made/index.bin").unlink()
    shards.ensure(numbered.of_subset(0.5), tmp_path)
    found = {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()}
    assert found == {"index.bin": b"2", "train_0.bin": b"22", "train_1.bin": b"22", "test.bin": b"11"}
    assert (tmp_path / "made/test.bin").stat().st_mtime_ns == test.st_mtime_ns
    shards.ensure(numbered, tmp_path)
    assert [(tmp_path / f"made/train_{i}.bin").read_bytes() for i in range(4)] == [b"22"] * 4


def test_what_is_made_is_read_again_only_for_a_declared_sum(
    numbered: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, right = list[str](), shards.sha256
    monkeypatch.setattr(shards, "load_sharding", lambda _: Numbering(1))
    monkeypatch.setattr(shards, "sha256", lambda path: read.append(path.name) or right(path))
    shards.ensure(numbered, tmp_path)
    assert read == ["test.bin.part"]


def test_what_is_made_is_flushed_to_the_disk(
    numbered: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut ext4 has a file of the right length and of zeros, if `truncate` made it longer."""
    written, flush = set[int](), os.fsync

    def flushed(descriptor: int) -> None:
        flush(descriptor)
        written.add(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(shards, "load_sharding", lambda _: Numbering(1))
    monkeypatch.setattr(os, "fsync", flushed)
    shards.ensure(numbered, tmp_path)
    assert {(tmp_path / file.path).stat().st_ino for file in numbered.dataset.members} <= written


def test_a_disk_without_room_for_shards_is_told_before_any_is_made(
    numbered: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "load_sharding", lambda _: Numbering(1))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100, 90, 10))  # type: ignore[attr-defined]
    with pytest.raises(UserError, match=r" needs 0\.0 GB in .*name a folder on a larger disk"):
        shards.ensure(numbered, tmp_path)
    assert not (tmp_path / "made").exists()


def test_shards_stay_while_the_file_that_they_are_made_from_cannot_be_made(
    numbered: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "load_sharding", lambda _: Numbering(1))
    shards.ensure(numbered, tmp_path)
    (tmp_path / "made/index.bin").unlink()
    monkeypatch.setattr(shards, "load_sharding", lambda _: Numbering(2, full=True))
    with pytest.raises(UserError, match=r"cannot write to .*: .*/made/index\.bin\.part: No space left on device; name"):
        shards.ensure(numbered, tmp_path)
    assert [(tmp_path / f"made/train_{i}.bin").read_bytes() for i in range(4)] == [b"11"] * 4
