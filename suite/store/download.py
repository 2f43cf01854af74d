"""Downloads of files: pooch fetches them, and this module resumes a download where it broke off."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import IO, Any

import pooch
import requests
from tqdm import tqdm

from suite.config.dataset import Remote
from suite.store.disk import partial
from suite.store.sums import sha256

ATTEMPTS = 3  # in a row that bring nothing new
WAIT_S = 1.0  # before the second attempt; twice that before the third
TIMEOUT_S = 30.0
CONNECTIONS = 8
CHUNK_BYTES = 1 << 16  # a connection that breaks loses at most this much


class DownloadError(Exception):
    """What could not be downloaded and why, in a few words."""


class _WrongContentError(Exception):
    """The partial file is neither the remote file nor a beginning of it."""


def download_all(remotes: Sequence[Remote], root: Path, token: str = "") -> None:
    """Download each of `remotes` to its place in `root`, several at a time. Raises as `download` does."""

    stopped = threading.Event()

    def bring(remote: Remote) -> None:
        download(remote, root / remote.path, progress=False, token=token, stopped=stopped)

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        brought = [pool.submit(bring, remote) for remote in remotes]
        try:
            for future in tqdm(as_completed(brought), total=len(brought), unit="file", disable=not sys.stderr.isatty()):
                future.result()
        finally:
            stopped.set()  # after Ctrl-C, or if one failed: a later call resumes the others
            pool.shutdown(cancel_futures=True)


def download(
    remote: Remote, target: Path, progress: bool = True, token: str = "", stopped: threading.Event | None = None
) -> None:
    """Download `remote` to `target`, which appears only when its size and sha256 are right.

    If no sum is declared, the one that the server names, if any, is taken (`_named_sum`). `token` is sent to the server
    that the address names, but to no other that it redirects to.
    What has come so far lies in `partial(target)` and is resumed by HTTP Range, in this process or a later one. The
    caller keeps other processes away. Raises DownloadError, also once `stopped` is set, and OSError if `target` cannot
    be written.
    """
    stopped = stopped or threading.Event()
    target.parent.mkdir(parents=True, exist_ok=True)
    part, named = partial(target), remote.sha256 is not None
    farthest = idle = 0
    while True:
        start = _size(part)
        try:
            if not named:
                remote, named = remote.model_copy(update={"sha256": _named_sum(remote.url)}), True
            if start < remote.bytes:  # else an earlier process ended just before it renamed the file
                _fetch(remote, part, start, progress, token, stopped)
            _check(remote, part)
            part.replace(target)
            return
        except _WrongContentError as error:
            part.unlink()
            if not start:
                raise DownloadError(f"{remote.url}: {error}") from None
        except requests.RequestException as error:
            idle = 0 if _size(part) > farthest else idle + 1
            farthest = max(farthest, _size(part))
            if idle == ATTEMPTS:
                raise DownloadError(f"{remote.url}: {_reason(error)}") from None
            stopped.wait(WAIT_S * idle)


def authorized(token: str) -> dict[str, str]:
    """The header that carries `token`, none if it is empty."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def _fetch(remote: Remote, part: Path, start: int, progress: bool, token: str, stopped: threading.Event) -> None:
    """Append to `part`, which holds `start` bytes, the rest that the server sends."""
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {}) | authorized(token)
    with part.open("ab") as file:
        body = _Body(file, remote, stopped)
        fetch = pooch.HTTPDownloader(
            progressbar=progress and sys.stderr.isatty(),
            chunk_size=CHUNK_BYTES,
            timeout=TIMEOUT_S,
            headers=headers,
            hooks={"response": body.begin},
        )
        fetch(remote.url, body, None)


class _Body:
    """The file to which pooch writes a response's body, until `stopped` is set; never longer than `remote`."""

    def __init__(self, file: IO[bytes], remote: Remote, stopped: threading.Event) -> None:
        self.file, self.remote, self.stopped, self.flush = file, remote, stopped, file.flush

    def begin(self, response: requests.Response, **_: Any) -> None:
        """Called by requests before the body is read. Statuses of 500 and above are left to pooch, and tried again."""
        status = response.status_code
        if status == requests.codes.range_not_satisfiable:
            raise _WrongContentError(f"HTTP {status} {response.reason}")
        if 400 <= status < 500 and status not in (requests.codes.timeout, requests.codes.too_many_requests):
            raise DownloadError(f"{self.remote.url}: HTTP {status} {response.reason}")
        if status == requests.codes.ok:  # the whole file, whether a part was asked for or not
            told = response.headers.get("Content-Length", "")
            if self.file.tell() and told.isdecimal() and int(told) != self.remote.bytes:  # a proxy's own page
                raise DownloadError(f"{self.remote.url}: {told} bytes came, expected {self.remote.bytes}")
            self.file.seek(0)
            self.file.truncate()
        response.raw.headers.pop("Content-Encoding", None)  # some servers call a .tar.gz "gzip": keep it packed

    def write(self, chunk: bytes) -> None:
        if self.stopped.is_set():
            raise DownloadError(f"{self.remote.url}: another download failed, or a signal ended all")
        if self.file.tell() + len(chunk) > self.remote.bytes:
            raise _WrongContentError(f"it holds more than the expected {self.remote.bytes} bytes")
        self.file.write(chunk)


def _check(remote: Remote, part: Path) -> None:
    if (size := _size(part)) != remote.bytes:
        raise _WrongContentError(f"it holds {size} bytes, expected {remote.bytes}")
    if remote.sha256 and (found := sha256(part)) != remote.sha256:
        raise _WrongContentError(f"its content has sha256 {found}, expected {remote.sha256}")


def _named_sum(url: str) -> str | None:
    """The sha256 of the file at `url` by the Hugging Face hub's header X-Linked-ETag; None if there is none.

    It is that of the large file itself, and comes with the redirect to it. Raises requests.RequestException if the
    server is too busy to answer.
    """
    answer = requests.head(url, timeout=TIMEOUT_S)
    if answer.status_code >= 500 or answer.status_code in (requests.codes.timeout, requests.codes.too_many_requests):
        answer.raise_for_status()
    tag = answer.headers.get("X-Linked-ETag", "").strip('"')
    return tag if re.fullmatch("[0-9a-f]{64}", tag) else None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _reason(error: BaseException) -> str:
    """The text of the innermost cause: the errors around it repeat the URL and Python's class names."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"HTTP {error.response.status_code} {error.response.reason}"
    while inner := error.__cause__ or error.__context__:
        error = inner
    return getattr(error, "strerror", None) or str(error)
