"""The Hugging Face Hub's gated copy of ImageNet: parquet files, which are unpacked into the folders of `folders`.

Their rows have an order of their own, with a few pictures of each class in every file, and none can be read without
those around it. A picture's file is called `n01440764_10026_n01440764.JPEG` there, with its WordNet ID once more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from tqdm import tqdm

from suite.config.dataset import Remote
from suite.errors import UserError
from suite.store.disk import partial
from suite.store.download import TIMEOUT_S, DownloadError, authorized, download_all
from suite.store.files import require_free
from tasks.image_classification import folders
from tasks.image_classification.index import Pictures

NAME = "imagenet-1k"  # the folder in the data folder
HUB = "https://huggingface.co"
SET = "datasets/ILSVRC/imagenet-1k"
ACCESS = (
    f"the Hub's copy, which is gated: accept its terms at {HUB}/{SET} and set HF_TOKEN to a token of yours, by which "
    "it is downloaded"
)
NAMED = re.compile(r"(?:(?P<wnid>n\d{8})_(?P<number>\d+)|ILSVRC2012_val_(?P<test>\d{8}))_(?P<of>n\d{8})\.JPEG")
THREADS = 4  # each holds a row group
BATCH = 64  # pictures


def there(files: Path) -> bool:
    """Whether any of its parquet files are there."""
    return any(_files(files, split) for split in folders.SPLITS)


def token() -> str:
    """The user's token for the Hub's gated sets, from HF_TOKEN; empty if there is none.

    White space, as that of a line's end, is no part of it: the error of a header that cannot be sent would tell it.
    """
    return "".join(os.environ.get("HF_TOKEN", "").split())


def bring(files: Path, pictures: Pictures) -> None:
    """Unpack the parquet files; first download those that are not there or cannot be read, if there is a token.

    Resumes where it was interrupted. Raises UserError for files that are not ImageNet's or cannot be read or
    downloaded, or if there is no room for them unpacked and as shards.
    """
    if token() and not _complete(files, pictures):
        _download(files)
    if (found := _rows(files)) != (pictures.train, pictures.test):
        raise UserError(
            f"the parquet files in {files / NAME / 'data'} have {found[0]} training pictures and {found[1]} of "
            f"validation, not {pictures.train} and {pictures.test}: bring train-*.parquet and validation-*.parquet "
            f"whole. To have {ACCESS}"
        )
    unpacked = partial(files / folders.NAME)
    packed = {split: _files(files, split) for split in folders.SPLITS}
    need = 2 * sum(path.stat().st_size for paths in packed.values() for path in paths)
    there = sum(path.stat().st_size for path in unpacked.rglob("*") if path.is_file())
    require_free(files, need - there, "ImageNet")
    with ThreadPoolExecutor(THREADS) as pool:
        given = [(path, split) for split, paths in packed.items() for path in paths]
        done = [pool.submit(_unpack, path, unpacked, split) for path, split in given]
        try:
            for future in tqdm(as_completed(done), total=len(done), desc=NAME, unit="file", disable=None):
                future.result()
        finally:
            pool.shutdown(cancel_futures=True)
    unpacked.replace(files / folders.NAME)


def _files(files: Path, split: str) -> list[Path]:
    return sorted((files / NAME / "data").glob({"train": "train-*.parquet", "test": "validation-*.parquet"}[split]))


def _complete(files: Path, pictures: Pictures) -> bool:
    """Whether the parquet files can be read and have all pictures."""
    try:
        return _rows(files) == (pictures.train, pictures.test)
    except UserError:
        return False


def _rows(files: Path) -> tuple[int, int]:
    """How many training and test pictures the parquet files have, by their metadata."""

    def of(split: str) -> int:
        rows = 0
        for path in _files(files, split):
            with _opened(path) as file:
                rows += file.metadata.num_rows
        return rows

    return of("train"), of("test")


def _unpack(path: Path, folder: Path, split: str) -> None:
    """Write the pictures of a parquet file to the folders of their classes, except those that are there."""
    for name, content in _pictures(path):
        place = folder / _place(path, split, name)
        if not place.exists() or place.stat().st_size != len(content):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)


def _pictures(path: Path) -> Iterator[tuple[str | None, bytes]]:
    """The names and JPEG files of a parquet file's rows."""
    with _opened(path) as file:
        for batch in file.iter_batches(BATCH, columns=["image"]):
            image = batch.column("image")
            yield from zip(image.field("path").to_pylist(), image.field("bytes").to_pylist(), strict=True)


def _place(path: Path, split: str, name: str | None) -> str:
    """The path in the folders of the picture that the Hub calls `name`."""
    found = NAMED.fullmatch(name or "")
    if not found or (found["wnid"] is not None) != (split == "train"):
        raise UserError(f"{path} has a picture called {name!r:.60}, which ImageNet has not: bring it again")
    called = folders.file_name(split, found["of"], int(found["number"] or found["test"]))
    return f"{folders.SPLITS[split]}/{found['of']}/{called}"


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowException, KeyError, OSError) as error:
        raise UserError(f"cannot read {path}: {str(error).splitlines()[0]:.100}; bring it again") from error


def _download(files: Path) -> None:
    """Download the parquet files that are missing, incomplete or unreadable."""
    remotes = [each for each in _listed() if not _is_whole(files / each.path, each.bytes)]
    require_free(files, 3 * sum(each.bytes for each in remotes), "ImageNet")
    try:
        download_all(remotes, files, token())
    except DownloadError as error:
        raise UserError(f"cannot download {error}. Does HF_TOKEN open it? To have {ACCESS}") from error


def _is_whole(path: Path, size: int) -> bool:
    """Whether a parquet file is there, of the size, and can be read as far as its metadata."""
    try:
        with _opened(path):
            return path.stat().st_size == size
    except UserError:
        return False


def _listed() -> list[Remote]:
    """The parquet files as the Hub lists them, with their sizes and sums."""
    try:
        answer = requests.get(f"{HUB}/api/{SET}/tree/main/data", headers=authorized(token()), timeout=TIMEOUT_S)
        answer.raise_for_status()
        listed = [each for each in answer.json() if re.search(r"/(train|validation)-[^/]*\.parquet$", each["path"])]
        return [
            Remote(
                path=f"{NAME}/{each['path']}",
                bytes=each["size"],
                sha256=each["lfs"]["oid"],
                url=f"{HUB}/{SET}/resolve/main/{each['path']}",
            )
            for each in listed
        ]
    except (requests.RequestException, ValueError, TypeError, KeyError) as error:  # some of a proxy's own answer
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(f"{HUB} does not list {SET}: {said:.300}. Does HF_TOKEN open it? To have {ACCESS}") from error
