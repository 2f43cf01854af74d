"""Unpack a submission that is an archive to a temporary folder, within hard limits, or refuse it as a whole."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import tempfile
import unicodedata
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from suite.errors import UserError
from suite.store.disk import having_room

MAX_BYTES = 4 << 30  # unpacked
FREE_BYTES = 16 << 20  # unpacked, whatever the archive's size
MAX_RATIO = 100  # unpacked to packed, beyond that
MAX_MEMBERS = 10_000
MAX_FOLDERS = 5_000  # with those that occur in paths only
OF_MACOS = "__MACOSX"  # a zip by its Finder has attributes of each file below it
BESIDE_OF_MACOS = "._"  # a tar by its tar has them beside each file, in one that is called so
MAX_DEPTH = 20
MAX_NAME = 255  # characters between two slashes
MAX_HEADER_BYTES = 32 << 10  # in a tar, between two members
MEAN_HEADER_BYTES = 2 << 10
MAX_ATTRIBUTES = 20  # of a member of a tar
MAX_ATTRIBUTE_BYTES = 8 << 10  # of all of them; a path has 4 KiB at most
MAX_TABLE_BYTES = 4 << 20  # of a zip's table of contents
MAX_XZ_MEMORY = 256 << 20


def is_archive(path: Path) -> bool:
    """Whether `path` is a file with the suffix of an archive."""
    return path.name.lower().endswith((".zip", *_TAR)) and path.is_file()


def refuse_packed(path: Path) -> None:
    """Raise UserError if `path` is an archive, for commands that need a folder."""
    if is_archive(path):
        raise UserError(f"{path} is an archive: unpack it; suite review and suite audit alone take one as it is")


@contextmanager
def opened(path: Path) -> Iterator[Path]:
    """Yield `path`, or the folder that an archive is unpacked to. Raises UserError if `path` cannot be accessed.

    A path that does not exist is yielded too: the review reports it.
    """
    try:
        with suppress(FileNotFoundError):
            path.stat()
    except OSError as error:
        raise UserError(f"cannot review {path}: {error.strerror}") from error
    if is_archive(path):
        with unpacked(path) as folder:
            yield folder
    else:
        yield path


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Yield a temporary folder with the content of the archive `path`, and remove it afterwards.

    Only plain files and folders are unpacked, without their modes, owners and times. Raises UserError, in one line, if
    the archive is damaged, holds anything else or exceeds a limit; nothing is reviewed then. A UserError of the review
    names the archive in the folder's place.
    """
    with tempfile.TemporaryDirectory(prefix="suite-review-") as name:
        folder = Path(name)
        try:
            with having_room(name):
                (_unzip if path.name.lower().endswith(".zip") else _untar)(path, folder)
        except UserError as error:
            raise UserError(f"{path.name} was not unpacked: {error}; give a folder, or an archive of it") from error
        except OSError as error:
            raise UserError(f"cannot unpack {path.name}: {error}") from error
        except Exception as error:  # a library's parser met bytes that it did not foresee
            found = str(error) or type(error).__name__
            raise UserError(f"{path.name} is damaged, or not the archive that its name says: {found:.200}") from error
        try:
            yield folder
        except UserError as error:
            raise UserError(str(error).replace(name, str(path))) from error


def _unzip(path: Path, folder: Path) -> None:
    with _Zip(path) as file, zipfile.ZipFile(file) as zipped:
        members = [info for info in zipped.infolist() if PurePosixPath(info.filename).parts[:1] != (OF_MACOS,)]
        for info in members:
            plain = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG, stat.S_IFDIR)
            usual = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            if not plain or not usual or info.flag_bits & 1:
                raise UserError(f"{info.filename!r:.100} is a link, a device, encrypted or of a rare compression")
        # zipfile reads no more of a file than its stated size
        _check(path, ((info.filename, info.file_size, info.is_dir()) for info in members))
        zipped.extractall(folder, members)


def _untar(path: Path, folder: Path) -> None:
    _check(path, ((member.name, member.size, member.isdir()) for _, member in _tar_members(path)))
    for tar, member in _tar_members(path):
        if not PurePosixPath(member.name).name.startswith(BESIDE_OF_MACOS):
            tar.extract(member, folder, set_attrs=False, filter="data")


def _check(archive: Path, members: Iterable[tuple[str, int, bool]]) -> None:
    """Raise UserError, with the reason only, if these members (name, size, is a folder) exceed a limit."""
    most = left = min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * archive.stat().st_size))
    files, folders = set[PurePosixPath](), set[PurePosixPath]()
    for count, (name, size, is_folder) in enumerate(members, 1):
        path = PurePosixPath(name)
        if "\\" in name:
            raise UserError(f"the name {name!r:.100} holds a backslash: pack it again with / between folders")
        if path.is_absolute() or ".." in path.parts:
            raise UserError(f"the name {name!r:.100} could lead out of the folder")
        if len(path.parts) > MAX_DEPTH or any(len(part) > MAX_NAME for part in path.parts):
            raise UserError(f"the name {name!r:.100} is too long or too deep")
        alike = PurePosixPath(unicodedata.normalize("NFC", name).casefold())  # one file on some file systems
        if alike in files:
            raise UserError(f"two files are called {name!r:.100}, or alike but for capital letters")
        if is_folder:
            folders.add(path)
        else:
            files.add(alike)
        folders.update(path.parents)
        left -= size
        if count > MAX_MEMBERS or len(folders) > MAX_FOLDERS:
            raise UserError(f"it has more than {MAX_MEMBERS} members or {MAX_FOLDERS} folders")
        if size < 0 or left < 0:
            raise UserError(f"it unpacks to more than {most >> 20} MiB, the most for an archive of its size")


def _tar_members(path: Path) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Yield each plain file and folder as soon as its header is read. Raises UserError at anything else."""
    opened = next(opened for suffix, opened in _TAR.items() if path.name.lower().endswith(suffix))
    with opened(path) as file:
        stream: Any = _Stream(file)
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as tar:
            for member in tar:
                if not (member.isreg() or member.isdir()) or member.issparse():
                    raise UserError(f"{member.name!r:.100} is a link, a device or a sparse file")
                if tar.pax_headers.keys() - {"comment"}:  # `git archive` writes a comment; each member gets a copy
                    raise UserError("it has attributes of all members")
                if len(member.pax_headers) > MAX_ATTRIBUTES:
                    raise UserError(f"{member.name!r:.100} has more than {MAX_ATTRIBUTES} attributes")
                stream.left = min(stream.left + MEAN_HEADER_BYTES, MAX_HEADER_BYTES)
                stream.left += member.size if member.isreg() else 0
                yield tar, member
                tar.members.clear()  # type: ignore[attr-defined]  # else it keeps every header


class _Zip(io.FileIO):
    """A zip file that refuses a large table of contents, which zipfile would read at once."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > MAX_TABLE_BYTES:
            raise UserError("its table of contents is too large")
        return super().read(size)


class _Member(tarfile.TarInfo):
    """A tar member that refuses long attributes, which older Pythons read in quadratic time."""

    def _proc_pax(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.size > MAX_ATTRIBUTE_BYTES:
            raise UserError("its headers are too large")
        made: tarfile.TarInfo = super()._proc_pax(archive)  # type: ignore[misc]
        return made


class _Stream:
    """A tar file of which `left` more bytes may be read: tarfile reads headers of any size and number for a member."""

    def __init__(self, file: Any) -> None:
        self._file, self.left = file, MAX_HEADER_BYTES

    def read(self, size: int) -> bytes:
        content: bytes = self._file.read(size)
        self.left -= len(content)
        if self.left < 0:
            raise UserError("its headers are too large")
        return content


class _Xz(io.FileIO):
    """The content of an xz file, read in bounded memory. Its dictionary may have any size; lzma.open takes no limit."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_XZ_MEMORY)

    def read(self, size: int | None = -1) -> bytes:
        content = b""
        while not content and not self._decoder.eof:
            packed = super().read(size) if self._decoder.needs_input else b""
            if not packed and self._decoder.needs_input:
                raise EOFError("it ends too early")
            content = self._decoder.decompress(packed, -1 if size is None else size)
        if not content and (self._decoder.unused_data or super().read(1)):
            raise UserError("it is more than one xz stream")
        return content


_TAR: dict[str, Callable[[Path], Any]] = {".tar": io.FileIO, ".tar.xz": _Xz, ".txz": _Xz}
_TAR |= dict.fromkeys((".tar.gz", ".tgz"), gzip.open) | dict.fromkeys((".tar.bz2", ".tbz2"), bz2.open)
