"""Reading a stranger's folder and files within bounds and through no link; writing a file whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from suite.errors import UserError

MAX_FILE_BYTES = 1 << 30
LINK = "a symbolic link"
_NO_LOCKS = errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, 524  # a file system without; 524 is the kernel's ENOTSUPP


class UnsafeFile(ValueError):
    """A file of a submission that must not be read: a link, not a plain file, or too large."""


def reason(error: Exception) -> str:
    """Why a file cannot be read, in words: what the system says without the path, else the error's text."""
    return (error.strerror or "cannot be read") if isinstance(error, OSError) else str(error)


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` so that a reader, or a restart after a kill or a power cut, sees the old file or the new one,
    never a part. Where it cannot be written nothing is left, least of all on a disk that is full.
    """
    part = partial(path)
    try:
        part.write_bytes(content)
        sync(part)
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise


def sync(path: Path) -> None:
    """Return when what was written to a file, or the names in a folder, are on the disk. Raises OSError.

    Some file systems (9p, shared folders of virtual machines) cannot do it for a folder: there it is left to them.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a file that the user asked for, and the folders above it. Raises UserError where it cannot be."""
    with _within(path):
        write = Path.write_bytes if _is_special(path) else write_atomically
        write(path, text.encode(errors="replace"))


def refuse_unwritable(*paths: Path | None) -> None:
    """Raise UserError unless each file, which is written after long work, can be; the folders above it are made."""
    for path in filter(None, paths):
        with _within(path):
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not _is_special(path):
                part = partial(path)
                part.touch()
                part.unlink()


def _is_special(path: Path) -> bool:
    """Whether it is a link, a device or a pipe, such as /dev/null: it is written to, where a file is replaced."""
    return path.is_symlink() or (path.exists() and not path.is_file())


@contextmanager
def _within(path: Path) -> Iterator[None]:
    """With the folders above a file; what the system refuses is the user's mistake."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def partial(path: Path) -> Path:
    """Where what is to become the file `path` is written first."""
    return path.with_name(path.name + ".part")


def read_safely(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of a plain file of at most `limit` bytes; see `open_safely`."""
    with open_safely(path, limit) as file:
        return file.read(limit + 1)


def read_json(path: Path, limit: int, what: str) -> Any:
    """What the JSON of a plain file of at most `limit` bytes holds. Raises UserError, that it is no `what`, and why."""
    try:
        return json.loads(read_safely(path, limit))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is no {what}: {reason(error)}") from error


@contextmanager
def open_safely(path: Path, limit: int = MAX_FILE_BYTES) -> Iterator[BinaryIO]:
    """A plain file of at most `limit` bytes, to be read. Raises UnsafeFile for anything else, OSError if unreadable.

    A symbolic link in the last component is refused; the caller gives a folder that holds no links.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if path.is_symlink():
            raise UnsafeFile("is a symbolic link") from error
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeFile("is not a plain file")
        if status.st_size > limit:
            raise UnsafeFile(f"is {status.st_size} bytes, more than {limit}")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


@contextmanager
def holding(lock: Path, blocking: bool = True) -> Iterator[None]:
    """Hold the file `lock` for as long as the block lasts; where the file system has no locks, go on without.

    Raises OSError where it cannot be written, Timeout where another process holds it and it is not waited for.
    """
    with ExitStack() as stack:
        try:  # a soft lock is a file, which stays when its holder is killed
            stack.enter_context(FileLock(lock, blocking=blocking, fallback_to_soft=False).acquire())
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        yield


@contextmanager
def alone(lock: Path, busy: str) -> Iterator[None]:
    """The same, and leave no file. Raises UserError(busy) where another process holds it."""
    with ExitStack() as stack:
        try:
            stack.enter_context(holding(lock, blocking=False))
        except Timeout as error:
            raise UserError(busy) from error
        stack.callback(lock.unlink, missing_ok=True)
        yield


def odd(entry: os.DirEntry[str]) -> str:
    """What is odd about an entry: that it is a link, or neither file nor folder; empty if nothing is."""
    if entry.is_symlink():
        return LINK
    return "" if entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False) else "a special file"


def entries(folder: Path) -> Iterator[tuple[str, str]]:
    """Each entry below `folder` as its path relative to it and what is odd about it; no link is followed."""
    pending = [""]
    while pending:
        parent = pending.pop()
        try:
            with os.scandir(folder / parent) as listed:
                for entry in listed:
                    path = os.path.join(parent, entry.name)
                    yield path, odd(entry)
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(path)
        except OSError:  # a folder that cannot be entered holds nothing that is read
            continue
