"""Archives, folders and parquet files in ImageNet's formats, with made-up pictures: its own may not be passed on."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow.parquet
from PIL import Image
from scipy.io import savemat

from tasks.image_classification import archives, folders, hub, index, shards


def jpeg(random: np.random.Generator) -> bytes:
    """A JPEG of some 450 pixels a side and 100 kB, one in ten grey or CMYK, of patches of three sizes and noise."""
    width, height = (int(side) for side in np.clip(random.lognormal(6.1, 0.25, 2), 75, 1500))
    pixels = random.normal(-64, 9, (height, width, 3))
    for scale in (100, 25, 6):
        patches = random.integers(0, 256, (max(height // scale, 2), max(width // scale, 2), 3), np.uint8)
        pixels += np.asarray(Image.fromarray(patches).resize((width, height), Image.Resampling.BICUBIC)) / 2
    mode = str(random.choice(["RGB", "L", "CMYK"], p=[0.9, 0.05, 0.05]))
    file = io.BytesIO()
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).convert(mode).save(file, "JPEG", quality=90)
    return file.getvalue()


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    """Put a file into an archive."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def write_archives(folder: Path, like: index.Pictures) -> dict[str, bytes]:
    """Write archives as the authors publish them, with as many pictures and classes as `like` has.

    Returns the pictures, `0/1` for one of class 0 and `test/0` for the first test picture, and `label/0`, its class.
    """
    random = np.random.default_rng(0)
    names = [f"n{number:08}" for number in sorted(random.permutation(10**6)[: like.classes])]
    pictures: dict[str, bytes] = {}
    with tarfile.open(folder / archives.TRAIN, "w") as train:
        for label in random.permutation(like.classes):
            inner = io.BytesIO()
            with tarfile.open(fileobj=inner, mode="w") as of_class:
                for i in random.permutation(like.train // like.classes + (label < like.train % like.classes)):
                    content = pictures[f"{label}/{i}"] = jpeg(random)
                    add(of_class, f"{names[label]}_{7 * i}.JPEG", content)  # 14 before 7
            add(train, f"{names[label]}.tar", inner.getvalue())
    numbers = random.permutation(like.classes) + 1  # the kit's own number of each name
    truth = random.integers(0, like.classes, like.test)
    with tarfile.open(folder / archives.TEST, "w") as test:
        for i in random.permutation(like.test):
            content = pictures[f"test/{i}"] = jpeg(random)
            add(test, f"ILSVRC2012_val_{i + 1:08}.JPEG", content)
    synsets = [(numbers[i], names[i], "words", "gloss", 0) for i in range(like.classes)] + [
        (like.classes + 1, "n9", "all", "above", 5)
    ]
    fields = [("ILSVRC2012_ID", "i4"), ("WNID", "O"), ("words", "O"), ("gloss", "O"), ("num_children", "i4")]
    meta = io.BytesIO()
    savemat(meta, {"synsets": np.array(synsets, fields).reshape(-1, 1)})
    with tarfile.open(folder / archives.DEVKIT, "w:gz") as kit:
        add(kit, "ILSVRC2012_devkit_t12/data/meta.mat", meta.getvalue())
        lines = "".join(f"{numbers[label]}\n" for label in truth)
        add(kit, "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", lines.encode())
    return pictures | {f"label/{i}": bytes([label]) for i, label in enumerate(truth)}


@contextmanager
def in_the_place_of_imagenet(folder: Path, like: index.Pictures) -> Iterator[None]:
    """Within the block, have the archives in `folder`, which `like` describes, taken for ImageNet's."""
    md5 = {name: hashlib.md5((folder / name).read_bytes()).hexdigest() for name in archives.MD5}
    with mock.patch.dict(archives.MD5, md5), mock.patch.dict(index.PICTURES, full=like):
        yield


def write_folders(archived: Path, pictures: dict[str, bytes], into: Path) -> None:
    """Write the pictures of the archives in `archived` to `into`/imagenet, as torchvision's ImageFolder has them."""
    folder = into / folders.NAME
    with tarfile.open(archived / archives.TRAIN) as outer:
        for member in outer:
            with tarfile.open(fileobj=outer.extractfile(member)) as of_class:
                of_class.extractall(folder / "train" / member.name.removesuffix(".tar"), filter="data")
    classes = sorted(path.name for path in (folder / "train").iterdir())
    for name, content in pictures.items():
        split, number = name.split("/")
        if split == "test":
            wnid = classes[pictures[f"label/{number}"][0]]
            (folder / "val" / wnid).mkdir(parents=True, exist_ok=True)
            (folder / "val" / wnid / f"ILSVRC2012_val_{int(number) + 1:08}.JPEG").write_bytes(content)


def write_parquet(unpacked: Path, into: Path) -> list[Path]:
    """Write the pictures of `unpacked`/imagenet as the Hub has them: shuffled, in files of 8, in row groups of 3."""
    random, written = np.random.default_rng(1), list[Path]()
    (into / hub.NAME / "data").mkdir(parents=True)
    for split, called in (("train", "train"), ("val", "validation")):
        found = [(path.stem, path.parent.name, path) for path in (unpacked / folders.NAME / split).glob("*/*.JPEG")]
        rows = [
            {"path": f"{found[i][0]}_{found[i][1]}.JPEG", "bytes": found[i][2].read_bytes()}
            for i in random.permutation(len(found))
        ]
        parts = [rows[i : i + 8] for i in range(0, len(rows), 8)]
        for i, part in enumerate(parts):
            path = into / hub.NAME / "data" / f"{called}-{i:05}-of-{len(parts):05}.parquet"
            pyarrow.parquet.write_table(
                pyarrow.table({"image": part, "label": [0] * len(part)}), path, row_group_size=3
            )
            written.append(path)
    return written


def make_all(folder: Path) -> dict[str, np.ndarray]:
    """Make all files of `full`; return its shards, memory-mapped, by their arrays' names."""
    like = index.PICTURES["full"]
    shards.bring("full", folder)
    (folder / like.folder).mkdir()
    names = ["index", *(f"train_{i:04d}" for i in range(like.shards)), "test_0000"]
    for name in names:
        shards.make("full", folder, f"{like.folder}/{name}.bin", folder / like.folder / f"{name}.bin")
    return {name.replace("_", "_jpegs_"): np.memmap(folder / like.folder / f"{name}.bin") for name in names[1:]}
