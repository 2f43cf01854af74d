"""Submissions that come as an archive: unpacked to a temporary folder within hard bounds, or refused as a whole."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from suite.errors import UserError

ZIP = (".zip",)
TAR = {
    ".tar": None,
    ".tar.gz": gzip.open,
    ".tgz": gzip.open,
    ".tar.bz2": bz2.open,
    ".tbz2": bz2.open,
    ".tar.xz": None,
    ".txz": None,
}
SUFFIXES = (*ZIP, *TAR)

MAX_BYTES = 4 << 30  # unpacked
FREE_BYTES = 64 << 20  # unpacked, whatever the archive's size
MAX_RATIO = 100  # unpacked to packed, beyond that
MAX_ENTRIES = 50_000
MAX_DEPTH = 20
MAX_NAME_BYTES = 255
_MAX_HEADER_BYTES = 64 << 10  # of one extended tar header
_MAX_DIRECTORY_BYTES = 16 << 20  # of a zip's table of contents
_MAX_XZ_MEMORY = 256 << 20
_CHUNK = 1 << 20


class UnsafeArchive(Exception):
    """An archive that must not be unpacked, and why."""


def is_archive(path: Path) -> bool:
    """Whether `path` is a file that bears the name of an archive."""
    return path.name.lower().endswith(SUFFIXES) and path.is_file()


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """A temporary folder with the content of the archive `path`, removed afterwards.

    Only plain files and folders, by their names: no mode, owner or time of the archive is taken over. Raises UserError
    in one line for what is damaged, holds anything else, or exceeds a bound; nothing is reviewed then.
    """
    with tempfile.TemporaryDirectory(prefix="suite-review-") as name:
        folder = Path(name)
        try:
            _unpack(path, folder)
        except UnsafeArchive as error:
            raise UserError(f"{path.name} was not unpacked: {error}; give a folder, or an archive of it") from error
        except OSError as error:
            raise UserError(f"cannot unpack {path.name}: {error}") from error
        except Exception as error:  # a library's parser met bytes that it did not foresee
            found = str(error) or type(error).__name__
            raise UserError(f"{path.name} is damaged, or not the archive that its name says: {found}") from error
        yield folder


def _unpack(path: Path, folder: Path) -> None:
    bound = min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * path.stat().st_size))
    entries, written = 0, 0
    seen: set[PurePosixPath] = set()
    for name, content in _members(path, bound):
        entries += 1
        if entries > MAX_ENTRIES:
            raise UnsafeArchive(f"it has more than {MAX_ENTRIES} entries")
        member = _inside(name)
        target = folder / member
        if content is None:
            target.mkdir(parents=True, exist_ok=True)
            continue
        if member in seen:
            raise UnsafeArchive(f"two files are called {name!r:.100}")
        seen.add(member)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            while chunk := content.read(_CHUNK):
                written += len(chunk)
                if written > bound:
                    raise _too_large(bound)
                file.write(chunk)


def _inside(name: str) -> PurePosixPath:
    """The name of a member as a path that cannot leave the folder it is joined to. Raises UnsafeArchive."""
    path = PurePosixPath(name)
    long = any(len(part.encode(errors="surrogateescape")) > MAX_NAME_BYTES for part in path.parts)
    if path.is_absolute() or ".." in path.parts or "\0" in name or "\\" in name:
        raise UnsafeArchive(f"the name {name!r:.100} could lead out of the folder")
    if long or len(path.parts) > MAX_DEPTH:
        raise UnsafeArchive(f"the name {name!r:.100} is too long or too deep")
    return path


def _members(path: Path, bound: int) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Each member's name and content, None for a folder. Raises UnsafeArchive for what is neither file nor folder."""
    if path.name.lower().endswith(ZIP):
        _check_directory(path)
        with zipfile.ZipFile(path) as zipped:
            for info in zipped.infolist():
                kind = stat.S_IFMT(info.external_attr >> 16)
                usual = kind in (0, stat.S_IFREG, stat.S_IFDIR)
                if (
                    not usual
                    or info.flag_bits & 1
                    or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
                ):
                    raise UnsafeArchive(
                        f"{info.filename!r:.100} is a link, a device, encrypted or of a rare compression"
                    )
                if info.is_dir():
                    yield info.filename, None
                else:
                    with zipped.open(info) as content:
                        yield info.filename, content
        return
    with path.open("rb") as packed, _decompressed(path, packed) as stream:
        source: Any = _Bounded(stream, bound)
        with tarfile.open(fileobj=source, mode="r|", tarinfo=_Header) as tar:
            for member in tar:
                if member.isdir():
                    yield member.name, None
                elif member.isreg() and not member.issparse() and (plain := tar.extractfile(member)):
                    yield member.name, plain
                else:
                    raise UnsafeArchive(f"{member.name!r:.100} is a link, a device or a sparse file")


def _check_directory(path: Path) -> None:
    """Raise UnsafeArchive where a zip's table of contents is too large to be read at once."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - (1 << 16) - 42))
        tail = file.read()
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or len(tail) - end < 22:
        raise zipfile.BadZipFile("no table of contents")
    if int.from_bytes(tail[end + 12 : end + 16], "little") > _MAX_DIRECTORY_BYTES or b"PK\x06\x07" in tail[:end][-20:]:
        raise UnsafeArchive("its table of contents is too large")


def _decompressed(path: Path, packed: IO[bytes]) -> IO[bytes]:
    suffix = next(suffix for suffix in TAR if path.name.lower().endswith(suffix))
    if suffix in (".tar.xz", ".txz"):
        return io.BufferedReader(_Xz(packed))
    reader: Any = TAR[suffix]
    return reader(packed) if reader else packed


class _Header(tarfile.TarInfo):
    """A tar header; one that announces a long name or attribute list of many bytes, all read at once, is refused."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        header = super().frombuf(buf, encoding, errors)
        if not (header.isreg() or header.isdir()) and header.size > _MAX_HEADER_BYTES:
            raise UnsafeArchive("a header is too large")
        return header


class _Bounded:
    """A stream of which at most `bound` bytes, headers included, are read."""

    def __init__(self, stream: IO[bytes], bound: int) -> None:
        self._stream, self._bound = stream, bound
        self._left = bound + (MAX_ENTRIES << 12)

    def read(self, size: int) -> bytes:
        content = self._stream.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise _too_large(self._bound)
        return content


class _Xz(io.RawIOBase):
    """Decompressed xz with bounded memory: the dictionary's size stands in the stranger's file."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed, self._decoder = packed, self._fresh()

    @staticmethod
    def _fresh() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_XZ_MEMORY)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            packed = b""
            if self._decoder.eof:
                packed = self._decoder.unused_data or self._packed.read(_CHUNK)
                if not packed.strip(b"\0"):
                    return 0
                self._decoder = self._fresh()
            elif self._decoder.needs_input and not (packed := self._packed.read(_CHUNK)):
                raise EOFError("it ends too early")
            if content := self._decoder.decompress(packed, len(buffer)):
                buffer[: len(content)] = content
                return len(content)


def _too_large(bound: int) -> UnsafeArchive:
    return UnsafeArchive(f"it unpacks to more than {bound >> 20} MiB, the most for an archive of its size")
