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
        except (requests.RequestException, ValueError) as error:  # ValueError: an address or a header that is none
            idle = 0 if _size(part) > farthest else idle + 1
            farthest = max(farthest, _size(part))
            if idle == ATTEMPTS or stopped.is_set():
                raise DownloadError(f"{remote.url}: {_reason(error)}") from None
            stopped.wait(WAIT_S * idle)


def authorized(token: str) -> dict[str, str]:
    """The header that carries `token`, none if it is empty."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def _fetch(remote: Remote, part: Path, start: int, progress: bool, token: str, stopped: threading.Event) -> None:
    """Append to `part`, which holds `start` bytes, the rest that the server sends; or replace it by a longer one."""
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {}) | authorized(token)
    body = _Body(part, remote, stopped)
    fetch = pooch.HTTPDownloader(
        progressbar=progress and sys.stderr.isatty(),
        chunk_size=CHUNK_BYTES,
        timeout=TIMEOUT_S,
        headers=headers,
        hooks={"response": body.begin},
    )
    try:
        fetch(remote.url, body, None)
        body.end()
    finally:
        body.close()


class _Body:
    """Where pooch writes a response's body, until `stopped` is set; never longer than `remote`.

    That is `part`, or, if the server sends the whole file though `part` holds some of it, a file beside it, which
    replaces it if it has become longer.
    """

    def __init__(self, part: Path, remote: Remote, stopped: threading.Event) -> None:
        self.part, self.remote, self.stopped = part, remote, stopped
        self.file: IO[bytes] = part.open("ab")
        self.replaces = False  # whether `file` lies beside, and may become `part`
        self.may_be_cut = False  # where a body may end, though nothing is wrong with it, before the file does

    def begin(self, response: requests.Response, **_: Any) -> None:
        """Called by requests before the body is read. Statuses of 500 and above are left to pooch, and tried again."""
        status = response.status_code
        if status == requests.codes.range_not_satisfiable:
            raise _WrongContentError(f"HTTP {status} {response.reason}")
        if 400 <= status < 500 and status not in (requests.codes.timeout, requests.codes.too_many_requests):
            raise DownloadError(f"{self.remote.url}: HTTP {status} {response.reason}")
        told = response.headers.get("Content-Length", "")
        whole = status == requests.codes.ok  # whether a part was asked for or not
        if whole and self.file.tell():
            if told.isdecimal() and int(told) != self.remote.bytes:  # a proxy's own page
                raise self._wrong_size(told)
            self.file.close()
            self.file, self.replaces = partial(self.part).open("wb"), True
        # What came of a whole is kept only if a sum will tell: it may be the beginning of a page
        self.may_be_cut = not whole or not (told or response.raw.chunked or self.remote.sha256 is None)
        response.raw.headers.pop("Content-Encoding", None)  # some servers call a .tar.gz "gzip": keep it packed

    def write(self, chunk: bytes) -> None:
        if self.stopped.is_set():
            raise DownloadError(f"{self.remote.url}: another download failed, or a signal ended all")
        if self.file.tell() + len(chunk) > self.remote.bytes:
            if self.replaces:
                raise self._wrong_size(f"more than {self.remote.bytes}")
            raise _WrongContentError(f"it holds more than the expected {self.remote.bytes} bytes")
        self.file.write(chunk)

    def flush(self) -> None:
        self.file.flush()

    def end(self) -> None:
        """Raise unless all came, or `_check` is to tell what is wrong with it."""
        if (came := self.file.tell()) < self.remote.bytes:
            if self.may_be_cut:
                raise requests.ConnectionError(f"the connection ended at {came} of {self.remote.bytes} bytes")
            if self.replaces:
                raise self._wrong_size(str(came))

    def close(self) -> None:
        beside = partial(self.part)
        try:
            self.file.close()
        finally:
            if self.replaces and _size(beside) > _size(self.part):
                beside.replace(self.part)
            beside.unlink(missing_ok=True)

    def _wrong_size(self, came: str) -> DownloadError:
        self.replaces = False
        return DownloadError(f"{self.remote.url}: {came} bytes came, expected {self.remote.bytes}")


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
    if isinstance(error, ValueError):  # names the address or the value that is malformed; what caused it does not
        return str(error)
    while inner := error.__cause__ or error.__context__:
        error = inner
    return getattr(error, "strerror", None) or str(error)
