"""Archives in the form of ImageNet's, of made-up pictures of its sizes: its own may not be passed on."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
from PIL import Image
from scipy.io import savemat

from tasks.image_classification import shards


def jpeg(random: np.random.Generator) -> bytes:
    """Of a picture of some 450 pixels a side and 100 kB, one in ten grey or CMYK: patches of three sizes, and noise."""
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


def archives(folder: Path, like: shards.Pictures) -> dict[str, bytes]:
    """Write archives as the authors give them, of as many pictures and classes as `like` has.

    Returns the pictures: `0/1` is one of class 0, `test/0` the first of the test; and the latter's class, `label/0`.
    """
    random = np.random.default_rng(0)
    names = [f"n{number:08}" for number in sorted(random.permutation(10**6)[: like.classes])]
    pictures: dict[str, bytes] = {}
    with tarfile.open(folder / shards.TRAIN[0], "w") as train:
        for label in random.permutation(like.classes):
            inner = io.BytesIO()
            with tarfile.open(fileobj=inner, mode="w") as of_class:
                for i in random.permutation(like.train // like.classes + (label < like.train % like.classes)):
                    content = pictures[f"{label}/{i}"] = jpeg(random)
                    add(of_class, f"{names[label]}_{i}.JPEG", content)
            add(train, f"{names[label]}.tar", inner.getvalue())
    numbers = random.permutation(like.classes) + 1  # the kit's own, of each name
    truth = random.integers(0, like.classes, like.test)
    with tarfile.open(folder / shards.TEST[0], "w") as test:
        for i in random.permutation(like.test):
            content = pictures[f"test/{i}"] = jpeg(random)
            add(test, f"ILSVRC2012_val_{i + 1:08}.JPEG", content)
    synsets = [(numbers[i], names[i], "words", "gloss", 0) for i in range(like.classes)] + [
        (like.classes + 1, "n9", "all", "above", 5)
    ]
    fields = [("ILSVRC2012_ID", "i4"), ("WNID", "O"), ("words", "O"), ("gloss", "O"), ("num_children", "i4")]
    meta = io.BytesIO()
    savemat(meta, {"synsets": np.array(synsets, fields).reshape(-1, 1)})
    with tarfile.open(folder / shards.DEVKIT[0], "w:gz") as kit:
        add(kit, "ILSVRC2012_devkit_t12/data/meta.mat", meta.getvalue())
        lines = "".join(f"{numbers[label]}\n" for label in truth)
        add(kit, "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", lines.encode())
    return pictures | {f"label/{i}": bytes([label]) for i, label in enumerate(truth)}


@contextmanager
def in_the_place_of_imagenet(folder: Path, like: shards.Pictures) -> Iterator[dict[str, bytes]]:
    """`archives` in `folder`, which are taken for ImageNet's meanwhile, as `like` tells of."""
    pictures = archives(folder, like)
    with ExitStack() as stack:
        for name in ("TRAIN", "TEST", "DEVKIT"):
            file, _ = getattr(shards, name)
            md5 = hashlib.md5((folder / file).read_bytes()).hexdigest()
            stack.enter_context(mock.patch.object(shards, name, (file, md5)))
        stack.enter_context(mock.patch.dict(shards.PICTURES, full=like))
        yield pictures


def make_all(folder: Path) -> dict[str, np.ndarray]:
    """Make all files of `full`; its shards, mapped, by their arrays' names."""
    like = shards.PICTURES["full"]
    (folder / like.folder).mkdir()
    names = ["index", *(f"train_{i:04d}" for i in range(like.shards)), "test_0000"]
    for name in names:
        shards.make("full", folder, f"{like.folder}/{name}.bin", folder / like.folder / f"{name}.bin")
    return {name.replace("_", "_jpegs_"): np.memmap(folder / like.folder / f"{name}.bin") for name in names[1:]}
