"""Downloading one archive: pooch fetches, what is ours is going on where a download broke off."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import IO, Any

import pooch
import requests

from suite.config import Archive
from suite.store.sums import sha256

ATTEMPTS = 3  # in a row that bring nothing new
WAIT_S = 1.0  # before the second attempt; twice that before the third
TIMEOUT_S = 30.0
CHUNK_BYTES = 1 << 16  # a connection that breaks loses at most this much


class DownloadError(Exception):
    """Why an archive could not be downloaded, in a few words."""


class _WrongContentError(Exception):
    """What lies in the partial file is not, or not a beginning of, the archive."""


def download(archive: Archive, target: Path) -> None:
    """Download `archive` to `target`, which appears only when its size and sha256 are right.

    What has come so far lies in `target`.part and is gone on with by HTTP Range, in this process or a later one.
    The caller keeps other processes away. Raises DownloadError, or OSError if `target` cannot be written.
    """
    part = target.with_name(target.name + ".part")
    farthest = idle = 0
    while True:
        start = _size(part)
        try:
            if start < archive.bytes:  # else an earlier process ended just before it renamed the file
                _fetch(archive, part, start)
            _check(archive, part)
            part.replace(target)
            return
        except _WrongContentError as error:
            part.unlink()
            if not start:
                raise DownloadError(str(error)) from None
        except requests.RequestException as error:
            idle = 0 if _size(part) > farthest else idle + 1
            farthest = max(farthest, _size(part))
            if idle == ATTEMPTS:
                raise DownloadError(_reason(error)) from None
            time.sleep(WAIT_S * idle)


def _fetch(archive: Archive, part: Path, start: int) -> None:
    """Append to `part`, which holds `start` bytes, what the server sends from there on."""
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    with part.open("ab") as file:
        body = _Body(file, archive.bytes)
        fetch = pooch.HTTPDownloader(
            progressbar=sys.stderr.isatty(),
            chunk_size=CHUNK_BYTES,
            timeout=TIMEOUT_S,
            headers=headers,
            hooks={"response": body.begin},
        )
        fetch(archive.url, body, None)


class _Body:
    """The file that pooch writes a response's body to; never longer than `limit` bytes."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self.file, self.limit, self.flush = file, limit, file.flush

    def begin(self, response: requests.Response, **_: Any) -> None:
        """Called by requests before the body is read. Statuses of 500 and above are left to pooch, and tried again."""
        status = response.status_code
        if status == requests.codes.range_not_satisfiable:
            raise _WrongContentError(f"HTTP {status} {response.reason}")
        if 400 <= status < 500 and status not in (requests.codes.timeout, requests.codes.too_many_requests):
            raise DownloadError(f"HTTP {status} {response.reason}")
        if status == requests.codes.ok:  # the whole file, whether a part was asked for or not
            self.file.seek(0)
            self.file.truncate()
        response.raw.headers.pop("Content-Encoding", None)  # some servers call a .tar.gz "gzip": keep it packed

    def write(self, chunk: bytes) -> None:
        if self.file.tell() + len(chunk) > self.limit:
            raise _WrongContentError(f"it holds more than the expected {self.limit} bytes")
        self.file.write(chunk)


def _check(archive: Archive, part: Path) -> None:
    if (size := _size(part)) != archive.bytes:
        raise _WrongContentError(f"it holds {size} bytes, expected {archive.bytes}")
    if (found := sha256(part)) != archive.sha256:
        raise _WrongContentError(f"its content has sha256 {found}, expected {archive.sha256}")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _reason(error: BaseException) -> str:
    """The words of the innermost cause: what lies around it repeats the URL and Python's class names."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"HTTP {error.response.status_code} {error.response.reason}"
    while inner := error.__cause__ or error.__context__:
        error = inner
    return getattr(error, "strerror", None) or str(error)
