"""Time-stamps (RFC 3161) of a log's lines by an external authority, requested while the run goes on.

The bytes of a line, without its newline, are stamped: their sha256 is what the next line carries as `prev`.
"""

from __future__ import annotations

import time
from pathlib import Path
from threading import Lock, Thread

import requests
from rfc3161_client import HashAlgorithm, PKIStatus, TimestampRequestBuilder, decode_timestamp_response

from suite.record.evidence import MAX_STAMP_BYTES, STAMPS
from suite.record.mllog import Line
from suite.record.names import host_of
from suite.store.disk import write_atomically

LATE_S = 1.0  # after the line: stamps are in whole seconds, so that two of them then give a duration to 2 s


class Witness:
    """Has the lines that begin and end a run's clock stamped, and keeps the stamps in the evidence `folder`.

    A thread asks for each; none of the methods raises because of the witness. `problems` says for which lines there is
    no stamp, and why.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.host = host_of(url)
        self.problems: list[str] = []
        self._url, self._folder = url, folder
        self._threads: dict[str, Thread] = {}
        self._lock, self._closed = Lock(), False

    def line(self, line: Line) -> None:
        """Take a line of the log: a listener of `Log`."""
        if line.key in STAMPS:
            self._threads[line.key] = Thread(target=self._stamp, args=(line, time.monotonic()), daemon=True)
            self._threads[line.key].start()

    def finish(self) -> dict[str, bool]:
        """Wait for answers that are not late yet; return by key whether each line has a stamp."""
        until = time.monotonic() + LATE_S
        for thread in self._threads.values():
            thread.join(max(0.0, until - time.monotonic()))
        with self._lock:
            self._closed = True
        self.problems += [f"{key}: no answer" for key, thread in self._threads.items() if thread.is_alive()]
        return {key: (self._folder / name).exists() for key, name in STAMPS.items()}

    def _stamp(self, line: Line, written_at: float) -> None:
        path = self._folder / STAMPS[line.key]
        try:
            path.unlink(missing_ok=True)  # a stamp of a run_start line that the log lost in a power cut
            answer = _ask(self._url, line.raw)
            late = time.monotonic() - written_at
            if late > LATE_S:
                raise _NotHad(f"the answer came {late:.1f} s after it, {LATE_S:g} s are allowed")
            with self._lock:
                if not self._closed:  # otherwise the evidence may be sealed
                    write_atomically(path, answer)
        except Exception as error:  # of many kinds: whatever a network and a stranger's server can do to a client
            why = str(error) if isinstance(error, _NotHad) else f"the witness cannot be asked ({type(error).__name__})"
            self.problems.append(f"{line.key}: {why}")


class _NotHad(Exception):
    """Why there is no stamp."""


def _ask(url: str, content: bytes) -> bytes:
    """Request a stamp of `content`; return the response in DER."""
    request = TimestampRequestBuilder().data(content).hash_algorithm(HashAlgorithm.SHA256).build()
    headers = {"Content-Type": "application/timestamp-query"}
    with requests.post(url, request.as_bytes(), headers=headers, timeout=LATE_S, stream=True) as response:
        if response.status_code != requests.codes.ok:
            raise _NotHad(f"the answer was HTTP {response.status_code}")
        answer = b""
        for chunk in response.iter_content(MAX_STAMP_BYTES):
            answer += chunk
            if len(answer) > MAX_STAMP_BYTES:
                raise _NotHad("the answer was longer than any stamp")
    stamp = decode_timestamp_response(answer)
    if stamp.status != PKIStatus.GRANTED:
        raise _NotHad(f"it was refused, with status {stamp.status}")
    info = stamp.tst_info
    if info.nonce != request.nonce or info.message_imprint.message != request.message_imprint.message:
        raise _NotHad("the answer was the stamp of something else")
    return answer
