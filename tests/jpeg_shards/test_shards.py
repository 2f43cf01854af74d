"""Images of a thousand classes: archives as ImageNet's are made into shards, and read from them."""

import io
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from suite import config
from suite.errors import UserError
from suite.store import shards as made_files
from suite.store.arrays import prepared
from tasks.image_classification import archives, index, shards
from tasks.image_classification.jpegs import Jpegs
from tasks.image_classification.requests import request
from tests.jpeg_shards.small import CLASSES, SMALL, TASK, TEST, TRAIN, make
from tests.killed_making import killed_and_made

PILOT = config.benchmark("image_classification", "pilot")
FULL = config.benchmark("image_classification", "full")
TRAIN_BYTES, TEST_BYTES = 147_897_477_120, 6_744_924_160  # of ImageNet's archives


def test_shards_hold_every_picture_once_with_its_class(tmp_path: Path, pictures: dict[str, bytes]) -> None:
    data = make(tmp_path)
    train, test = Jpegs(data, "train"), Jpegs(data, "test")
    assert TASK.split_sizes(data) == {"train_samples": TRAIN, "eval_samples": TEST}
    found = [(int(label), file.tobytes()) for label, file in zip(data["train_labels"], train, strict=True)]
    right = [(int(name.split("/")[0]), file) for name, file in pictures.items() if name[0].isdigit()]
    assert sorted(found) == sorted(right)
    assert [label for label, _ in found[:CLASSES]] == [*range(CLASSES)]  # the first of each class come first
    assert [file.tobytes() for file in test] == [pictures[f"test/{i}"] for i in range(TEST)]
    assert data["answer_labels"].tolist() == [pictures[f"label/{i}"][0] for i in range(TEST)]
    total = int(data["train_lengths"].sum())
    assert SMALL.shard_bytes < total < SMALL.shards * SMALL.shard_bytes  # some lie in two shards; zeros at the end
    assert not np.concatenate([data[f"train_jpegs_{i:04d}"] for i in range(SMALL.shards)])[total:].any()


def test_a_part_of_the_shards_holds_the_pictures_that_lie_whole_in_it(
    tmp_path: Path, pictures: dict[str, bytes]
) -> None:
    data = make(tmp_path)
    whole = Jpegs(data, "train")
    part = Jpegs({name: data[name] for name in ("train_jpegs_0000", "train_lengths")}, "train")
    assert 0 < len(part) < len(whole)
    assert all(np.array_equal(a, b) for a, b in zip(part, whole, strict=False))
    assert int(part.ends[-1]) <= SMALL.shard_bytes < int(whole.ends[len(part)])


def test_a_shard_is_opened_once_and_read_whole(
    tmp_path: Path, pictures: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, begin, opened = make(tmp_path), os.open, list[int]()
    read = os.pread
    monkeypatch.setattr("os.open", lambda *given: opened.append(begin(*given)) or opened[-1])
    monkeypatch.setattr("os.pread", lambda file, length, at: read(file, min(length, 1000), at))
    train = Jpegs(data, "train")
    assert {file.tobytes() for file in train} == {file for name, file in pictures.items() if name[0].isdigit()}
    assert len(opened) == -(-int(data["train_lengths"].sum()) // SMALL.shard_bytes) > 1
    del train
    for descriptor in opened:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_requests_for_single_pictures_are_a_split_of_them(tmp_path: Path, pictures: dict[str, bytes]) -> None:
    data = make(tmp_path)
    asked = [request(data, index) for index in (4, 0)]
    together = {name: np.concatenate([each[name] for each in asked]) for name in asked[0]}
    assert [file.tobytes() for file in Jpegs(together, "test")] == [pictures["test/4"], pictures["test/0"]]


def test_other_archives_are_refused(tmp_path: Path, pictures: dict[str, bytes]) -> None:
    kit = tmp_path / archives.DEVKIT
    kit.write_bytes(kit.read_bytes() + b"0")
    with pytest.raises(UserError, match=r"devkit_t12\.tar\.gz is corrupt: its md5 is \w+, not \w+"):
        shards.make("full", tmp_path, f"{SMALL.folder}/index.bin", tmp_path / "index.bin")


def test_what_full_declares_is_what_is_made() -> None:
    for benchmark in (PILOT, FULL):
        pictures, dataset = index.PICTURES[benchmark.scale], benchmark.dataset
        rows = index.ROW.itemsize * (pictures.train + pictures.test)
        sizes = [rows, *[pictures.shard_bytes] * pictures.shards, pictures.test_bytes]
        assert [file.bytes for file in dataset.members] == sizes
        assert (dataset.train_samples, dataset.eval_samples) == (pictures.train, pictures.test)
    full = index.PICTURES["full"]
    assert full.shards * full.shard_bytes >= TRAIN_BYTES - 512 * full.train  # a header beside each picture
    assert full.test_bytes >= TEST_BYTES - 512 * full.test


@pytest.mark.slow
def test_making_a_shard_of_full_takes_little_memory(tmp_path: Path) -> None:
    """With an index of ImageNet's size, of an archive that is a hole."""
    full = index.PICTURES["full"]
    with (tmp_path / archives.TRAIN).open("wb") as archive:
        archive.truncate(TRAIN_BYTES)
    rows = np.zeros(full.train + full.test, index.ROW)
    rows["place"], rows["length"] = np.arange(len(rows)) * 110_000, 110_000
    (tmp_path / full.folder).mkdir()
    rows.tofile(tmp_path / full.folder / "index.bin")
    tracemalloc.start()
    shards.make("full", tmp_path, f"{full.folder}/train_0300.bin", tmp_path / "made")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (tmp_path / "made").stat().st_size == full.shard_bytes
    assert peak < 128e6, peak


def test_a_pilot_takes_shards_of_full_and_all_test_pictures() -> None:
    part = FULL.of_subset(0.01).dataset
    assert len(part.shards_of("train_jpegs")) == 6
    assert len(part.shards_of("test_jpegs")) == 1
    assert part.train_samples is None


@pytest.mark.soak
@pytest.mark.data("image_classification/small")
def test_the_pilots_shards_are_made_once_and_a_killed_making_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_and_made(PILOT, tmp_path, "cifar-10-batches-py", 3)
    assert made_files.ensure(PILOT, tmp_path) == tmp_path
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = prepared(PILOT.of_subset(0.5), TASK, str(tmp_path))
    half = Jpegs(data, "train")
    assert TASK.split_sizes(data) == {"train_samples": len(half), "eval_samples": 10_000}
    assert 25_000 < len(half) < 27_000  # of eight shards, the last of which is not full
    assert np.asarray(Image.open(io.BytesIO(half[0].tobytes()))).shape == (32, 32, 3)
