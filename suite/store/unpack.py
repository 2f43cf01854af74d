"""Taking the expected files out of a tar or zip archive. No name from the archive is ever used as a path."""

from __future__ import annotations

import gzip
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO

from suite.errors import UserError

_UNREADABLE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,  # of zipfile, for a password or a compression that it lacks
)


def unpack(archive: Path, names: Collection[str], folder: Path) -> None:
    """Write each plain file of `archive` whose name is one of `names` to `folder/name`; ignore all other members.

    Links, devices and names that only resolve to an expected one (`x/../name`) are ignored, too. Raises UserError for
    what is no archive, or a damaged one.
    """
    try:
        for member, content in _plain_files(archive):
            name = member.removeprefix("./")
            if name in names:
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    shutil.copyfileobj(content, file, 1 << 20)
    except _UNREADABLE as error:
        raise UserError(
            f"{archive} cannot be unpacked: {error}. A name that ends in .zip is read as zip, any other as tar."
        ) from error


def _plain_files(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                yield info.filename, zipped.open(info)
    else:
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isreg() and (content := tar.extractfile(member)):
                    yield member.name, content
