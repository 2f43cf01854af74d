from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from suite.config.dataset import Dataset, File, Remote
from suite.store import download

MEMBERS = {"set/a.bin": bytes(range(256)) * 40, "set/sub/b.bin": b"b" * 3000}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SUITE_DATA", raising=False)
    monkeypatch.setattr(download, "WAIT_S", 0)
    monkeypatch.setattr(download, "CHUNK_BYTES", 100)


def tar(members: dict[str, bytes], mode: str = "w", first: Iterable[tarfile.TarInfo] = ()) -> bytes:
    """A tar archive of `first` and `members`; uncompressed, so that its size exceeds that of its members."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as file:  # type: ignore[call-overload]
        for info in first:
            file.addfile(info)
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def dataset(packed: bytes, url: str, archive: str = "set.tar", members: dict[str, bytes] = MEMBERS) -> Dataset:
    """A dataset of `members` that comes in the archive `packed`."""

    def sum_of(content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()

    return Dataset(
        name="Small Set",
        licence="CC0-1.0",
        citation="Nobody (2020).",
        source="https://example.org/set",
        eval_samples=1,
        files=tuple(File(path=n, bytes=len(c), sha256=sum_of(c)) for n, c in members.items()),
        archive=Remote(path=archive, bytes=len(packed), sha256=sum_of(packed), url=url),
        arrays={},
    )


@dataclass
class Raw:
    """An answer of this body with these headers and no Content-Length beside them."""

    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 200


def chunked(body: bytes) -> Raw:
    """An answer in one chunk and the end of all chunks."""
    return Raw(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body), {"Transfer-Encoding": "chunked"})


class Server:
    """Serves `content`. `answers` says how the next requests are answered; later ones go well, with Range honoured.

    "whole": Range ignored; ("drop", n): the connection ends after n bytes of the body; bytes: this body instead;
    "gzip": labelled Content-Encoding: gzip; an int: that status; a Raw: just that.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.answers: list[object] = []
        self.ranges: list[str | None] = []  # the Range header of each request
        self.tag: str | None = None  # the sha256 that it names
        self.busy = 0  # how many HEAD requests it refuses first, as too busy
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.ranges.append(asked := self.headers["Range"])
                answer = server.answers.pop(0) if server.answers else None
                if isinstance(answer, int):
                    self.send_error(answer)
                    return
                if isinstance(answer, Raw):
                    self.send_response(answer.status)
                    for name, value in answer.headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(answer.body)
                    return
                start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and answer != "whole" else 0
                body = answer if isinstance(answer, bytes) else server.content[start:]
                self.send_response(206 if start and not isinstance(answer, bytes) else 200)
                self.send_header("Content-Length", str(len(body)))
                if answer == "gzip":
                    self.send_header("Content-Encoding", "gzip")
                self.end_headers()
                self.wfile.write(body[: answer[1]] if isinstance(answer, tuple) else body)

            def do_HEAD(self) -> None:
                if server.busy:
                    server.busy -= 1
                    self.send_error(503)
                    return
                self.send_response(302)
                if server.tag:
                    self.send_header("X-Linked-ETag", f'"{server.tag}"')
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/set.tar"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    serving = Server(tar(MEMBERS))
    yield serving
    serving.http.shutdown()
    serving.http.server_close()
