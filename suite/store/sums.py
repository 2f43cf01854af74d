"""sha256 sums of files, remembered in the user's cache folder so that an unchanged file is not read again."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from pathlib import Path

import platformdirs

from suite.errors import UserError
from suite.store.disk import write_atomically

SETTLED_NS = 2_000_000_000  # a file changed more recently could change again within one tick of the file system's clock


def cache_dir() -> Path:
    """The user's cache folder for this suite. What it holds is made again when it is deleted.

    Raises UserError for a user without a home.
    """
    try:
        return Path(platformdirs.user_cache_dir("time-to-accuracy"))
    except RuntimeError as error:
        raise UserError(
            "this user has no home folder: set HOME, or XDG_CACHE_HOME for what is kept between runs"
        ) from error


def sha256(path: Path) -> str:
    """The sha256 of a file's content, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class RememberedSums:
    """The sums of files that have been read before; what is new is remembered when the `with` block ends."""

    def __enter__(self) -> RememberedSums:
        self._notes = cache_dir() / "sums.json"
        self._memory = _read(self._notes)
        self._new: dict[str, str] = {}
        return self

    def __exit__(self, *_: object) -> None:
        if self._new:
            with suppress(OSError):
                self._notes.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self._notes, json.dumps(_read(self._notes) | self._new, indent=1).encode())

    def sha256(self, path: Path) -> str:
        """Like `sha256`, but reads the file only if its size, times or inode have changed since it was last read."""
        status = path.stat()
        identity = [str(each) for each in (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)]
        key = str(path.resolve())
        *known, known_sum = str(self._memory.get(key)).split()
        if known == identity:
            return known_sum
        found = sha256(path)
        if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > SETTLED_NS:
            self._new[key] = " ".join([*identity, found])
        return found


def _read(notes: Path) -> dict[str, str]:
    with suppress(OSError, ValueError):
        memory = json.loads(notes.read_bytes())
        if isinstance(memory, dict):
            return memory
    return {}
