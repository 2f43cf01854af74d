from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from suite import config, data
from suite.config.dataset import Dataset, File, Remote, Shards
from suite.config.models import Benchmark
from suite.errors import UserError
from suite.store import arrays, files, shards, sums
from suite.store.disk import partial
from suite.store.download import DownloadError, download
from tests.store.conftest import Server

PILOT = config.benchmark("language_modeling", "pilot")
NUMBERS = [np.arange(first, first + 10 * (first + 1), dtype=np.uint16) for first in range(4)]


def sharded(root: Path, sha256: bool = True) -> Dataset:
    """A dataset of four shards with 8 bytes before the numbers, and a file that is none."""
    (root / "set").mkdir(parents=True, exist_ok=True)
    contents = {f"set/train_{i}.bin": b"8 bytes." + each.tobytes() for i, each in enumerate(NUMBERS)}
    contents["set/test.bin"] = b"test"
    for path, content in contents.items():
        (root / path).write_bytes(content)
    return Dataset(
        name="Numbers",
        licence="CC0-1.0",
        citation="Nobody (2020).",
        source="https://example.org/set",
        train_samples=100,
        eval_samples=1,
        files=tuple(
            File(path=path, bytes=len(each), sha256=sums.sha256(root / path) if sha256 else None)
            for path, each in reversed(contents.items())
        ),
        shards={"train_numbers": Shards(files="set/train_", dtype="uint16", offset=8)},
        arrays={},
    )


def benchmark_of(dataset: Dataset) -> Benchmark:
    return PILOT.model_copy(update={"dataset": dataset})


def test_shards_are_mapped_in_order(tmp_path: Path) -> None:
    mapped = shards.mapped(benchmark_of(sharded(tmp_path)), tmp_path)
    assert list(mapped) == [f"train_numbers_000{i}" for i in range(4)]
    for found, right in zip(mapped.values(), NUMBERS, strict=True):
        assert isinstance(found, np.memmap)
        assert not found.flags.writeable
        assert np.array_equal(found, right)


def test_a_shard_of_half_an_element_is_named(tmp_path: Path) -> None:
    made = sharded(tmp_path)
    (tmp_path / "set/train_2.bin").write_bytes(b"8 bytes.odd")
    with pytest.raises(UserError, match=r"train_2\.bin is no shard of uint16"):
        shards.mapped(benchmark_of(made), tmp_path)


@pytest.mark.parametrize(("share", "left"), [(0.01, 1), (0.25, 1), (0.5, 2), (0.6, 3)])
def test_a_pilot_takes_the_first_shards_and_all_other_files(tmp_path: Path, share: float, left: int) -> None:
    part = sharded(tmp_path).part(share)
    assert [file.path for file in part.shards_of("train_numbers")] == [f"set/train_{i}.bin" for i in range(left)]
    assert "set/test.bin" in {file.path for file in part.members}
    assert part.train_samples == sum(map(len, NUMBERS[:left]))


def test_the_command_takes_a_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert data.main(["path", "language_modeling/pilot", "subset=0.01", f"data_dir={tmp_path}"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [path for path in shown if "train" in path] == [f"{tmp_path}/wikitext-2-bpe/train_000000.bin"]


def test_the_command_that_mends_a_pilot_takes_the_same_share(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert data.main(["verify", "language_modeling/pilot", "subset=0.01234567", f"data_dir={tmp_path}"]) == 1
    assert "fetch BENCHMARK subset=0.01234567 data_dir=" in capsys.readouterr().out


def test_what_scores_needs_no_shard(tmp_path: Path) -> None:
    assert [file.path for file in sharded(tmp_path).evaluation.members] == ["set/test.bin"]


@pytest.mark.parametrize("share", [0, 1, -0.5, 2, float("nan")])
def test_a_share_is_a_part(share: float) -> None:
    with pytest.raises(UserError, match="more than 0 and less than 1"):
        PILOT.of_subset(share)


def test_without_shards_there_is_no_part() -> None:
    with pytest.raises(UserError, match=r"subset=0\.5 takes a part of a dataset's shards, and CIFAR-10 has none"):
        config.benchmark("image_classification", "small").of_subset(0.5)


def test_sums_that_nobody_declared_are_found(tmp_path: Path) -> None:
    made = sharded(tmp_path, sha256=False)
    assert files.faults(made, tmp_path) == []
    mapped = shards.mapped(benchmark_of(made), tmp_path)
    found = arrays.sums(made, mapped)
    assert found == {f"train_numbers_000{i}": sums.sha256(tmp_path / f"set/train_{i}.bin") for i in range(4)}
    assert arrays.sums(sharded(tmp_path), mapped) == {}


def test_a_file_in_the_place_of_another_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same size and times: the inode tells."""
    monkeypatch.setattr(sums, "SETTLED_NS", -1)
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_bytes(b"one")
    stat = path.stat()
    with sums.RememberedSums() as memory:
        first = memory.sha256(path)
    notes = sums.cache_dir() / "sums.json"
    assert str(stat.st_ino) in notes.read_text()
    other.write_bytes(b"two")
    changed = notes.read_text().replace(f"{path.stat().st_ctime_ns}", f"{other.stat().st_ctime_ns}")
    notes.write_text(changed)
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    other.replace(path)
    with sums.RememberedSums() as memory:
        assert memory.sha256(path) != first


def test_a_disk_without_room_is_told_before_anything_is_brought(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sharded(tmp_path / "there").model_copy(update={"mirror": None})
    remote = made.model_copy(
        update={"files": tuple(file.model_copy(update={"url": server.url}) for file in made.members)}
    )
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100, 90, 10))  # type: ignore[attr-defined]
    with pytest.raises(UserError, match=r"Numbers needs .* GB in .*, which has 0\.0 GB free: .*data_dir="):
        files.ensure(remote, tmp_path / "data")
    assert server.ranges == []
    for file in remote.members:  # what has come already has its room
        part = partial(tmp_path / "data" / file.path)
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(bytes(file.bytes))
    files.require_room(remote, tmp_path / "data")


def test_a_sum_that_the_server_names_holds_the_file(server: Server, tmp_path: Path) -> None:
    remote = Remote(path="set.tar", bytes=len(server.content), url=server.url)
    server.tag = "0" * 64
    with pytest.raises(DownloadError, match=f"expected {'0' * 64}"):
        download(remote, tmp_path / "set.tar", progress=False)
    server.busy = 1
    (tmp_path / "set.tar").unlink(missing_ok=True)
    with pytest.raises(DownloadError, match=f"expected {'0' * 64}"):  # the sum is asked for again
        download(remote, tmp_path / "set.tar", progress=False)
    for tag in ("0" * 40, None):  # of a small file it is git's sum, which is none of its content alone
        server.tag = tag
        (tmp_path / "set.tar").unlink(missing_ok=True)
        download(remote, tmp_path / "set.tar", progress=False)
    assert (tmp_path / "set.tar").read_bytes() == server.content


def test_a_pilot_is_no_submission() -> None:
    full: Benchmark = config.benchmark("language_modeling", "full")
    assert full.submittable
    assert not full.of_subset(0.01).submittable
    assert not PILOT.submittable
