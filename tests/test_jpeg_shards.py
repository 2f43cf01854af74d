"""Images of a thousand classes: archives as ImageNet's are made into shards, and read from them."""

import hashlib
import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from suite import config
from suite.errors import UserError
from suite.store import files
from suite.store import shards as made_files
from suite.store.arrays import prepared
from suite.store.task import load_task
from tasks.image_classification import shards
from tasks.image_classification.jpegs import Jpegs
from tests.command import ENVIRONMENT

TASK = load_task("image_classification")
PILOT = config.benchmark("image_classification", "pilot")
FULL = config.benchmark("image_classification", "full")
CLASSES, TRAIN, TEST = 5, 42, 10
SMALL = shards.Pictures("imagenet-jpeg", TRAIN, TEST, CLASSES, 3, 1 << 19, 1 << 20)


def jpeg(random: np.random.Generator) -> bytes:
    """Of a picture of ImageNet's sizes, 500 pixels in the mean, some grey or CMYK; smooth, so that it has few bytes."""
    width, height = (int(side) for side in np.clip(random.lognormal(6.1, 0.25, 2), 75, 1500))
    coarse = Image.fromarray(random.integers(0, 256, (8, 8, 3), np.uint8))
    mode = str(random.choice(["RGB", "L", "CMYK"], p=[0.9, 0.05, 0.05]))
    file = io.BytesIO()
    coarse.resize((width, height), Image.Resampling.BICUBIC).convert(mode).save(file, "JPEG")
    return file.getvalue()


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def archives(folder: Path) -> dict[str, bytes]:
    """Archives as the authors give them, of a few pictures, and these by their names: `0/`, the class, first."""
    random = np.random.default_rng(0)
    names = [f"n{number:08}" for number in sorted(random.permutation(10**6)[:CLASSES])]
    pictures: dict[str, bytes] = {}
    with tarfile.open(folder / shards.TRAIN[0], "w") as train:
        for label in random.permutation(CLASSES):
            inner = io.BytesIO()
            with tarfile.open(fileobj=inner, mode="w") as of_class:
                for i in random.permutation(TRAIN // CLASSES + (label < TRAIN % CLASSES)):
                    content = pictures[f"{label}/{i}"] = jpeg(random)
                    add(of_class, f"{names[label]}_{i}.JPEG", content)
            add(train, f"{names[label]}.tar", inner.getvalue())
    numbers = random.permutation(CLASSES) + 1  # the kit's own, of each name
    truth = random.integers(0, CLASSES, TEST)
    with tarfile.open(folder / shards.TEST[0], "w") as test:
        for i in random.permutation(TEST):
            content = pictures[f"test/{i}"] = jpeg(random)
            add(test, f"ILSVRC2012_val_{i + 1:08}.JPEG", content)
    synsets = [(numbers[i], names[i], "words", "gloss", 0) for i in range(CLASSES)] + [(9, "n9", "all", "above", 5)]
    fields = [("ILSVRC2012_ID", "i4"), ("WNID", "O"), ("words", "O"), ("gloss", "O"), ("num_children", "i4")]
    meta = io.BytesIO()
    savemat(meta, {"synsets": np.array(synsets, fields).reshape(-1, 1)})
    with tarfile.open(folder / shards.DEVKIT[0], "w:gz") as kit:
        add(kit, "ILSVRC2012_devkit_t12/data/meta.mat", meta.getvalue())
        lines = "".join(f"{numbers[label]}\n" for label in truth)
        add(kit, "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", lines.encode())
    return pictures | {f"label/{i}": bytes([label]) for i, label in enumerate(truth)}


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Archives in `tmp_path`, taken for ImageNet's, and their pictures."""
    made = archives(tmp_path)
    for name in ("TRAIN", "TEST", "DEVKIT"):
        file, _ = getattr(shards, name)
        sums = hashlib.md5((tmp_path / file).read_bytes()).hexdigest()
        monkeypatch.setattr(shards, name, (file, sums))
    monkeypatch.setitem(shards.PICTURES, "full", SMALL)
    return made


def make(folder: Path) -> dict[str, np.ndarray]:
    """All files of `full`, and its arrays."""
    (folder / SMALL.folder).mkdir()
    names = ["index", *(f"train_{i:04d}" for i in range(SMALL.shards)), "test_0000"]
    for name in names:
        shards.make("full", folder, f"{SMALL.folder}/{name}.bin", folder / SMALL.folder / f"{name}.bin")
    mapped = {name.replace("_", "_jpegs_"): np.memmap(folder / SMALL.folder / f"{name}.bin") for name in names[1:]}
    return {**TASK.prepare("full", folder), **mapped}


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


def test_other_archives_are_refused(tmp_path: Path, pictures: dict[str, bytes]) -> None:
    kit = tmp_path / shards.DEVKIT[0]
    kit.write_bytes(kit.read_bytes() + b"0")
    index = (f"{SMALL.folder}/index.bin", tmp_path / "index.bin")
    with pytest.raises(UserError, match=r"devkit_t12\.tar\.gz is corrupt: its md5 is \w+, not \w+"):
        shards.make("full", tmp_path, *index)
    kit.unlink()
    with pytest.raises(UserError, match=r"cannot read .*devkit_t12\.tar\.gz: .*; bring it from https://image-net.org"):
        shards.make("full", tmp_path, *index)


def test_what_full_declares_is_what_is_made() -> None:
    for benchmark in (PILOT, FULL):
        pictures, dataset = shards.PICTURES[benchmark.scale], benchmark.dataset
        rows = shards.ROW.itemsize * (pictures.train + pictures.test)
        sizes = [rows, *[pictures.shard_bytes] * pictures.shards, pictures.test_bytes]
        assert [file.bytes for file in dataset.members] == sizes
        assert (dataset.train_samples, dataset.eval_samples) == (pictures.train, pictures.test)
    train, test = (file.bytes for file in FULL.dataset.source_files.members)
    full = shards.PICTURES["full"]
    assert full.shards * full.shard_bytes >= train - 512 * full.train  # a header beside each picture
    assert full.test_bytes >= test - 512 * full.test


def test_a_pilot_takes_shards_of_full_and_all_test_pictures() -> None:
    part = FULL.of_subset(0.01).dataset
    assert len(part.shards_of("train_jpegs")) == 6
    assert len(part.shards_of("test_jpegs")) == 1
    assert part.train_samples is None


@pytest.mark.slow
@pytest.mark.data("image_classification/small")
def test_the_pilots_shards_are_made_once_and_a_killed_making_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The declared sums hold them to the same bytes each time."""
    (tmp_path / "cifar-10-batches-py").symlink_to(Path(os.environ["SUITE_DATA"]) / "cifar-10-batches-py")
    command = [sys.executable, "-m", "suite.data", "fetch", "image_classification/pilot", f"data_dir={tmp_path}"]
    killed = subprocess.Popen(command, env=ENVIRONMENT, start_new_session=True)
    made = tmp_path / "cifar-10-jpeg"
    while killed.poll() is None and len(list(made.glob("*.bin"))) < 3:
        time.sleep(0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    kept = {path.name: path.stat().st_mtime_ns for path in made.glob("*.bin")}
    assert 3 <= len(kept) < 10
    subprocess.run(command, env=ENVIRONMENT, check=True)
    assert files.faults(PILOT.dataset, tmp_path, "sha256") == []
    assert {name: (made / name).stat().st_mtime_ns for name in kept} == kept
    assert made_files.ensure(PILOT, tmp_path) == tmp_path
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = prepared(PILOT.of_subset(0.5), TASK, str(tmp_path))
    half = Jpegs(data, "train")
    assert TASK.split_sizes(data) == {"train_samples": len(half), "eval_samples": 10_000}
    assert 25_000 < len(half) < 27_000  # of eight shards, the last of which is not full
    assert np.asarray(Image.open(io.BytesIO(half[0].tobytes()))).shape == (32, 32, 3)
