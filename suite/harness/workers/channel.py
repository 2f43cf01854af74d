"""Messages between the leader and a follower: JSON, followed by the arrays of a state if any; nothing is unpickled."""

from __future__ import annotations

import io
import json
import math
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from queue import Queue
from typing import Any

import numpy as np

ALIVE_S = 2.0  # between two signs of life
SILENCE_S = 20.0  # allowed without a message: enough for a machine that swaps, or was suspended for a moment
START_SILENCE_S = 300.0  # the same until all have built: importing a framework from a cold disk holds the GIL
PART = 16 << 20  # bytes sent at a time: a second on a slow network, so that sending a large state is not silence
CONNECT_S = 300.0  # to reach the leader, and for all workers to join it: nodes may start minutes apart
OWN_JOIN_S = 45.0  # for all workers to join that the leader has started on its own machine
ENDED = "its process has ended"
OWN_CONNECT_S = 10.0  # to reach a leader that has started this worker: it listens by then, or has ended
_AGAIN_S = 0.2


class Channel:
    """One end of a connection. `inbox` holds the messages received, in order; those of the kinds in `at_once` go to its
    functions instead, on arrival. `on_lost` is called once, with the reason, when the connection is lost.

    Both ends send signs of life, so that a machine that is cut off is noticed too.
    """

    def __init__(self, connection: Connection, on_lost: Callable[[str], None]) -> None:
        self.inbox: Queue[dict[str, Any]] = Queue()
        self.at_once: dict[str, Callable[[dict[str, Any]], None]] = {
            "alive": lambda message: None,
            "built": lambda message: self._expect_words(),
        }
        self._silence_s = START_SILENCE_S
        self._connection, self._on_lost = connection, on_lost
        with socket.socket(fileno=os.dup(connection.fileno())) as same:  # else a send that nobody reads never ends
            same.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", math.ceil(SILENCE_S), 0))
        self._sending, self._heard, self._closed = threading.Lock(), time.monotonic(), threading.Event()
        for work in (self._read, self._live):
            threading.Thread(target=work, name=f"channel {work.__name__}", daemon=True).start()

    def send(self, kind: str, state: Mapping[str, np.ndarray] | None = None, **values: Any) -> None:
        """Send a message; see `packed`."""
        self.send_packed(packed(kind, state, **values))

    def send_packed(self, parts: Sequence[bytes | memoryview]) -> None:
        """Send what `packed` made."""
        try:
            with self._sending:
                for part in parts:
                    self._connection.send_bytes(part)
        except BlockingIOError:
            self._lose(f"it took nothing for {SILENCE_S:.0f} s: it hangs, or its network is down")
        except (OSError, ValueError) as error:
            self._lose(ENDED if isinstance(error, ConnectionError) else f"the connection to it broke ({error})")

    def built(self) -> None:
        """Apply SILENCE_S at both ends from now on, as all have built."""
        self._expect_words()
        self.send("built")

    def local_host(self) -> str:
        """The address by which the other end knows this machine."""
        with socket.socket(fileno=os.dup(self._connection.fileno())) as same:
            return str(same.getsockname()[0]).removeprefix("::ffff:")  # an IPv4 address as an IPv6 socket has it

    def close(self) -> None:
        """Close the connection without calling `on_lost`."""
        self._closed.set()
        self._connection.close()

    def _read(self) -> None:
        try:
            while True:
                message = json.loads(self._received())
                if parts := [self._received() for _ in range(message.pop("arrays"))]:
                    with np.load(io.BytesIO(b"".join(parts)), allow_pickle=False) as arrays:
                        message["state"] = {name.removeprefix("state/"): arrays[name] for name in arrays.files}
                self.at_once.get(message["kind"], self.inbox.put)(message)
        except (EOFError, OSError, ValueError, TypeError):
            self._lose(ENDED)

    def _received(self) -> bytes:
        content = self._connection.recv_bytes()
        self._heard = time.monotonic()
        return content

    def _live(self) -> None:
        began = time.monotonic()
        while not self._closed.wait(ALIVE_S):
            self.send("alive")
            stood_still, began = time.monotonic() - began > SILENCE_S / 2, time.monotonic()
            if stood_still:  # this process was suspended: what came meanwhile was not read
                self._heard = began
            elif (silent := time.monotonic() - self._heard) > self._silence_s:
                self._lose(f"nothing was heard of it for {silent:.0f} s: it hangs, or its network is down")

    def _expect_words(self) -> None:
        self._silence_s = SILENCE_S

    def _lose(self, why: str) -> None:
        if not self._closed.is_set():
            self._closed.set()
            self._on_lost(why)


def packed(kind: str, state: Mapping[str, np.ndarray] | None = None, **values: Any) -> Sequence[bytes | memoryview]:
    """Pack a message of that kind, with plain values and a state's arrays if any. It can be sent to many."""
    content = io.BytesIO()
    if state is not None:
        np.savez(content, allow_pickle=False, **{f"state/{name}": array for name, array in state.items()})
    arrays = content.getbuffer()
    parts = [arrays[at : at + PART] for at in range(0, len(arrays), PART)]
    return [json.dumps({"kind": kind, **values, "arrays": len(parts)}).encode(), *parts]


def listen(host: str | None, port: int, backlog: int) -> socket.socket:
    """Open the leader's listening socket, at `host` or at all addresses of this machine. Raises OSError."""
    if host is None and socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)
    return socket.create_server((host or "", port), backlog=backlog)


def connect(host: str, port: int, key: str, within_s: float) -> Connection:
    """Connect to the leader, trying again if it does not listen yet.

    Raises OSError, EOFError or AuthenticationError if it has not answered properly in that time.
    """
    until = time.monotonic() + within_s
    while True:
        try:
            return _connected(host, port, key.encode(), max(1.0, until - time.monotonic()))
        except (OSError, EOFError, AuthenticationError):
            if time.monotonic() > until:
                raise
            time.sleep(_AGAIN_S)


def _connected(host: str, port: int, key: bytes, within_s: float) -> Connection:
    """Connect as multiprocessing's Client does, which would wait forever for a listener that says nothing."""
    with socket.create_connection((host, port), within_s) as made:
        made.settimeout(None)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(within_s) + 1, 0))
        connection = Connection(os.dup(made.fileno()))
        answer_challenge(connection, key)
        deliver_challenge(connection, key)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))
    return connection


def at(host: str, port: int) -> str:
    """`HOST:PORT`, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reserved_port() -> socket.socket:
    """A socket that keeps a free port of this machine from being given to others until it is closed."""
    reserved = socket.socket()
    reserved.bind(("", 0))
    return reserved


def free_port() -> int:
    """A port of this machine that nothing listens at."""
    with reserved_port() as reserved:
        return int(reserved.getsockname()[1])
