"""A model over HTTP, and the client that asks it.

`POST /predict` takes the arrays of one request as numpy's .npz and answers `{"prediction": ...}`; 400 says what is
wrong with them, 413 that they are too large, 500 that the model failed, 503 that the queue is full, each as
`{"error": ...}`.
`GET /health` tells the benchmark, the server's process and how many requests were taken. There is no authentication.
"""

from __future__ import annotations

import asyncio
import errno
import io
import socket
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import numpy as np
import psutil
import requests
import uvicorn
from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.requests import Request as Asked
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from suite.errors import UserError, shown
from suite.harness.workers.channel import at
from suite.serve.asking import RequestCache
from suite.serve.batching import Batcher, Overloaded
from suite.serve.model import Examples, Request

MAX_BYTES = 16 << 20
CONNECTIONS = 64
QUEUED = 4 * CONNECTIONS  # requests with `wait` that may be unanswered
TIMEOUT_S = 60.0
_RETRY_S = 1  # that other clients are asked to wait
_AGAIN_S = 0.01  # between attempts of `Client` while the queue is full
_IDLE_S = round(2 * TIMEOUT_S)  # for which an idle connection is kept: a load on a slow model comes back to it late
_CLOCK_S = 2.0  # by which the kernel's clock may move while a process runs
_END_S = 5  # for requests in progress when the server ends


def app(examples: Examples, batcher: Batcher) -> Starlette:
    """The server application of a benchmark's model, whose requests `batcher` answers."""
    own = psutil.Process()
    known = {"benchmark": examples.plan.benchmark.name, "pid": own.pid, "began": own.create_time()}

    async def predict(asked: Asked) -> Response:
        body, future = b"", None
        try:
            async for part in asked.stream():
                body += part
                if len(body) > MAX_BYTES:
                    return JSONResponse({"error": f"more than {MAX_BYTES} bytes"}, 413)
            future = batcher.submit(examples.checked(unpacked(body)))
            return JSONResponse({"prediction": await asyncio.wrap_future(future)})
        except (ClientDisconnect, asyncio.CancelledError):  # the latter where the server ends
            return Response()  # to nobody
        except UserError as error:
            return JSONResponse({"error": str(error)}, 500 if future else 400)
        except Overloaded as error:
            return JSONResponse({"error": f"{error}: try again later"}, 503, {"Retry-After": str(_RETRY_S)})
        except Exception as error:  # whatever a task raises for arrays that are no example, else the model
            told = {"error": shown(f"{type(error).__name__}: {error}")}
            return JSONResponse(told, 500 if future else 400)

    async def health(asked: Asked) -> JSONResponse:
        return JSONResponse({**known, "taken": batcher.taken, "batches": batcher.batches, "shed": batcher.shed})

    return Starlette(routes=[Route("/predict", predict, methods=["POST"]), Route("/health", health)])


def bound(host: str, port: int) -> socket.socket:
    """Bind the socket for `serve`, without accepting anyone yet. Raises UserError if the address cannot be used."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with _asked_for(host, port):
        made.bind((host, port))
    return made


@contextmanager
def _asked_for(host: str, port: int) -> Iterator[None]:
    """Turn what is wrong with the address into a UserError of one line."""
    try:
        yield
    except (OSError, UnicodeError) as error:
        if isinstance(error, socket.gaierror | UnicodeError) or error.errno == errno.EADDRNOTAVAIL:
            raise UserError(f"listen={at(shown(host), port)}: {shown(host)} is no address of this machine") from error
        why = f"cannot be had ({error.strerror}): give another port"
        raise UserError(f"listen={at(shown(host), port)} {why}") from error


def serve(examples: Examples, batcher: Batcher, listening: socket.socket, what: str) -> None:
    """Serve on `listening`, made by `bound`, until a signal ends the process; `what` is printed first."""
    host, port, *_ = listening.getsockname()
    with _asked_for(host, port):
        listening.listen()
    # asyncio sets it only on sockets made with proto=IPPROTO_TCP; without it some answers wait 40 ms for an ACK
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(f"http://{at(shown(host), port)}   {what}", flush=True)
    config = uvicorn.Config(
        app(examples, batcher),
        log_level="warning",
        access_log=False,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=_END_S,
    )
    uvicorn.Server(config).run([listening])


def packed(request: Request) -> bytes:
    """A request as `POST /predict` takes it."""
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **request)
    return content.getvalue()


def unpacked(body: bytes) -> Mapping[str, np.ndarray]:
    """The arrays of an untrusted request. Raises UserError unless it is an .npz of plain arrays, at most MAX_BYTES."""
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            if sum(each.file_size for each in archive.infolist()) > MAX_BYTES:
                raise UserError(f"arrays of more than {MAX_BYTES} bytes")
        with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
    # NotImplementedError and RuntimeError are zipfile's, for compression that it does not know and for encryption
    except (OSError, EOFError, ValueError, NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
        raise UserError(f"no .npz of plain arrays: {error}") from error
    if strange := [name for name, array in found.items() if not isinstance(array, np.ndarray)]:
        raise UserError(f"no .npz of plain arrays: {shown(strange[0])} is none")
    return found


def here(told: Mapping[str, Any]) -> tuple[int, ...]:
    """The process of the server that answered `told` to `GET /health`; empty if it is on another machine."""
    try:
        process = psutil.Process(told["pid"])
        return (process.pid,) if abs(process.create_time() - told["began"]) < _CLOCK_S else ()
    except (LookupError, TypeError, ValueError, psutil.Error):
        return ()


class Client:
    """Asks a server for the answers to examples, over CONNECTIONS connections.

    Its threads are daemons: an executor's would be waited for where the command ends.
    """

    def __init__(self, url: str, examples: Examples) -> None:
        self._url = url.rstrip("/")
        self._bodies = RequestCache(lambda index: packed(examples.request(index)), len)
        self._submitted: SimpleQueue[tuple[Future[Any], int, bool]] = SimpleQueue()
        self._room = threading.BoundedSemaphore(QUEUED)
        name = examples.plan.benchmark.name
        try:
            told = _session().get(f"{self._url}/health", timeout=TIMEOUT_S).json()
            served = told["benchmark"]
        except (MissingSchema, InvalidSchema, InvalidURL) as error:
            raise UserError(f"url={url} is no address: write url=http://HOST:PORT") from error
        except requests.ConnectionError as error:
            raise UserError(f"url={url}: nobody answers there; start a server with listen=PORT") from error
        except (requests.RequestException, ValueError, KeyError, TypeError) as error:
            raise UserError(f"url={url} is no server of python -m suite.serve ({error})") from error
        if served != name:
            raise UserError(f"url={url} serves {shown(served)}, not {name}")
        self.processes = here(told)
        for _ in range(CONNECTIONS):
            threading.Thread(target=self._work, name="client", daemon=True).start()

    def submit(self, index: int, wait: bool = False) -> Future[Any]:
        """See `suite.serve.asking.Asked`. At most CONNECTIONS requests are in progress; a failed one raises UserError.

        With `wait`, block while QUEUED such requests are not answered yet.
        """
        if wait:
            self._room.acquire()
        future: Future[Any] = Future()
        if wait:
            future.add_done_callback(lambda _: self._room.release())
        self._submitted.put((future, index, wait))
        return future

    def _work(self) -> None:
        session = _session()
        while True:
            future, index, wait = self._submitted.get()
            try:
                answer = self._ask(session, index, wait)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(answer)

    def _ask(self, session: requests.Session, index: int, wait: bool) -> Any:
        body = self._bodies[index]
        while True:
            try:
                answer = session.post(f"{self._url}/predict", data=body, timeout=TIMEOUT_S)
            except requests.RequestException as error:
                raise UserError(f"url={self._url} does not answer: {error}") from error
            if answer.status_code != 503:
                break
            if not wait:
                raise Overloaded(self._url)
            time.sleep(_AGAIN_S)
        if not answer.ok:
            raise UserError(f"url={self._url} answers {answer.status_code}: {shown(answer.text)}")
        try:
            return answer.json()["prediction"]
        except (ValueError, LookupError, TypeError) as error:
            told = shown(answer.text)
            raise UserError(f'url={self._url} answers {told}; expected {{"prediction": ...}}') from error


def _session() -> requests.Session:
    """A session without proxies, and without .netrc, which would be looked for at each request."""
    made = requests.Session()
    made.trust_env = False
    return made
