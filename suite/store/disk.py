"""Reading untrusted folders and files within bounds and through no link, and writing files atomically."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from suite.errors import UserError, warn

MAX_FILE_BYTES = 1 << 30
LINK = "a symbolic link"
FULL = errno.ENOSPC, errno.EDQUOT
_NO_LOCKS = errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, 524  # the file system has none; 524 is the kernel's ENOTSUPP
_SHORT_S = 1.0  # a wait that needs no words, as where workers that start together verify the same arrays


class UnsafeFile(ValueError):
    """A file of a submission that must not be read: a link, not a plain file, or too large."""


def reason(error: Exception) -> str:
    """Why a file cannot be read, in words: what the system says without the path, else the error's text."""
    return (error.strerror or "cannot be read") if isinstance(error, OSError) else str(error)


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` so that readers, even after a kill or a power cut, see the old file or the new one, never a part.

    If it cannot be written, such as on a full disk, no partial file is left.
    """
    with replacing(path) as part:
        part.write_bytes(content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """As `write_atomically`, for a block that writes the partial file and closes it."""
    part = partial(path)
    try:
        yield part
        sync(part)
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise


def sync(path: Path) -> None:
    """Flush what was written to a file, or the names in a folder, to the disk. Raises OSError.

    Some file systems (9p, shared folders of virtual machines) cannot flush a folder; there this does nothing.
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
    """Write a file that the user asked for, and create the folders above it. Raises UserError if that fails."""
    with _within(path):
        write = Path.write_bytes if _is_special(path) else write_atomically
        write(path, text.encode(errors="replace"))


def refuse_unwritable(*paths: Path | None) -> None:
    """Raise UserError, before long work, unless each of its files can be written. Creates the folders above them."""
    seen = set[Path]()
    for path in filter(None, paths):
        if (whole := path.resolve()) in seen and not _is_special(path):
            raise UserError(f"{path} is to hold two things: give each a file of its own")
        seen.add(whole)
        with _within(path):
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not _is_special(path):
                part = partial(path)
                part.touch()
                part.unlink()


def _is_special(path: Path) -> bool:
    """Whether `path` is a link, a device or a pipe, such as /dev/null, which is written to rather than replaced."""
    return path.is_symlink() or (path.exists() and not path.is_file())


@contextmanager
def _within(path: Path) -> Iterator[None]:
    """Create the folders above a file; an OSError, here or in the block, becomes a UserError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


@contextmanager
def having_room(folder: str) -> Iterator[None]:
    """Raise UserError that says how to get more room, if a block that writes to a temporary folder fills its disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise UserError(f"{folder}: {error.strerror}; name a folder on a larger disk as TMPDIR") from error


def partial(path: Path) -> Path:
    """The place where the file `path` is written until it is complete."""
    return path.with_name(path.name + ".part")


def read_safely(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of a plain file of at most `limit` bytes; see `open_safely`."""
    with open_safely(path, limit) as file:
        return file.read(min(limit, os.fstat(file.fileno()).st_size))  # it takes the memory of what it is asked for


def sum_or_reason(path: Path, limit: int) -> str:
    """The sha256 of a plain file of at most `limit` bytes, or why it has none."""
    try:
        return hashlib.sha256(read_safely(path, limit)).hexdigest()
    except (UnsafeFile, OSError) as error:
        return reason(error)


def read_json(path: Path, limit: int, what: str) -> Any:
    """The JSON value in a plain file of at most `limit` bytes. Raises UserError: the file is no `what`, and why."""
    try:
        return json.loads(read_safely(path, limit))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is no {what}: {reason(error)}") from error


@contextmanager
def open_safely(path: Path, limit: int) -> Iterator[BinaryIO]:
    """Open a plain file of at most `limit` bytes. Raises UnsafeFile for anything else, OSError if it is unreadable.

    A symbolic link in the last component is refused; the caller must give a folder whose path holds no links.
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
def holding(lock: Path, blocking: bool = True, busy: str = "") -> Iterator[None]:
    """Lock the file `lock` while the block runs; if the file system has no locks, go on without.

    If another process holds it, wait for it, and tell that after the words `busy`, if there are any and it takes long;
    raise Timeout instead if `blocking` is false. Raises OSError if it cannot be written.
    """
    with ExitStack() as stack:
        try:  # a soft lock is a file, which stays when its holder is killed
            held = FileLock(lock, fallback_to_soft=False)
            try:
                stack.enter_context(held.acquire(_SHORT_S if busy else None, blocking=blocking))
            except Timeout:
                if not blocking:
                    raise
                warn(f"{busy}: waiting for it\n")
                stack.enter_context(held.acquire())
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        yield


@contextmanager
def alone(lock: Path, busy: str) -> Iterator[None]:
    """Like `holding` without waiting, but leave no file. Raises UserError(busy) if another process holds the lock."""
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
