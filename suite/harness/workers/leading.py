"""The leader's side: letting followers join, telling them what to do, and noticing when one is lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from queue import Empty
from typing import Any, TypeVar

import numpy as np

from suite.config.plan import Plan
from suite.errors import LOST, Stopped, UserError, WorkerLost, complain, warn
from suite.harness.workers.channel import CONNECT_S, ENDED, OWN_JOIN_S, Channel, at, listen, packed, reserved_port
from suite.harness.workers.place import PORT, Place
from suite.harness.workers.sameness import difference, told
from suite.store.arrays import sums

GRACE_S = 5.0  # for the leader to return from a collective operation with a lost worker
_SETTLE_S = 3.0  # for news that a worker has ended, which may come after the errors that this raises in the others
Answer = TypeVar("Answer")


class Follower:
    """One of the followers. `hello` is what it reported of itself when it joined."""

    def __init__(self, connection: Connection, followers: Followers) -> None:
        self.hello: dict[str, Any] = {}
        self._followers = followers
        self.channel = Channel(connection, self._lost)
        self.channel.at_once["failed"] = self._failed

    @property
    def name(self) -> str:
        """Its rank and host, for messages."""
        return f"rank {self.hello.get('rank', '?')} on {self.hello.get('host', '?')}"

    def answer(self) -> dict[str, Any]:
        """Wait for its next message. Raises WorkerLost if any worker is lost or has failed."""
        while True:
            try:
                return self.channel.inbox.get(timeout=0.2)
            except Empty:
                self._followers.raise_if_lost()

    def _lost(self, why: str) -> None:
        self._followers.lose(f"{self.name}: {why}")

    def _failed(self, message: dict[str, Any]) -> None:
        if not self._followers.wait_lost(_SETTLE_S):
            warn(message["traceback"])
            self._lost(message["why"])


class Followers:
    """The followers of the leader at `place`, in the order of their ranks.

    If one is lost while they are `needed`, until the end of a run's training, and the leader does not return from a
    collective operation within GRACE_S, the process ends.
    Once they have joined, `addresses` holds `HOST:PORT` of each worker by rank, the leader included, for messages of
    their framework; the leader's port stays `reserved` until it builds. `advice` says what to do if one is lost.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.addresses: tuple[str, ...] = ()
        self.advice = ""
        self.needed = True
        self._fault: str | None = None
        self._closing = threading.Event()
        self._joined: dict[int, Follower] = {}
        self._news = threading.Condition()
        own = place.launcher == "suite"
        self._join_s = OWN_JOIN_S if own else CONNECT_S
        host = place.host if own else None  # other machines may resolve the name to another address
        try:
            self._listener = listen(host, place.port, place.world_size)
        except OSError as error:
            raise UserError(
                f"the leader of the workers cannot listen at {at(place.host, place.port)} "
                f"({os.strerror(error.errno or 0)}): give another port, {PORT}=NUMBER, to all of them"
            ) from error
        self.reserved = reserved_port()
        threading.Thread(target=self._accept, name="workers join", daemon=True).start()

    def join(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        """Wait for all of them to join; `processes` are theirs if the leader has started them.

        Raises UserError that names the ranks that did not join, or one that differs; WorkerLost if one has ended.
        """
        missing = self.wait_joined(processes)
        self.raise_if_lost()
        if missing:
            ranks = ", ".join(map(str, missing))
            raise UserError(
                f"of {self.place.world_size} workers rank {ranks} did not join the leader at "
                f"{at(self.place.host, self.place.port)} within {self._join_s:.0f} s: see what they say, and whether "
                "they reach that address"
            )
        leader, here = told(), self.place.local_size
        of_node = Counter([0, *(each.hello["node"] for each in self.each)])
        for each in self.each:
            if (there := of_node[each.hello["node"]]) != here:
                raise UserError(
                    f"{each.name} is one of {there} on its node, the leader of {here}: start as many on each"
                )
            if problem := difference(leader, each.hello):
                raise UserError(f"{each.name} has {problem}")
        self.addresses = tuple(self._addresses())

    def _addresses(self) -> Iterator[str]:
        """Each worker's address; on the leader's node all have the host under which other nodes reached it."""
        elsewhere = [each for each in self.each if each.hello["node"]]
        here = (elsewhere or self.each)[0].channel.local_host()
        yield at(here, self.reserved.getsockname()[1])
        for each in self.each:
            yield at(each.hello["address"] if each.hello["node"] else here, each.hello["port"])

    def wait_joined(self, processes: Sequence[subprocess.Popen[bytes]] = ()) -> list[int]:
        """Wait until all have joined, one is lost, or time is up; return the ranks that have not joined."""
        expected, until = set(range(1, self.place.world_size)), time.monotonic() + self._join_s
        while time.monotonic() < until:
            with self._news:
                if self._news.wait_for(lambda: self._fault or self._joined.keys() == expected, 0.5):
                    break
            for rank, process in enumerate(processes, 1):
                if process.poll() is not None:
                    self.lose(f"rank {rank} on {socket.gethostname()}: {ENDED}")
        return sorted(expected - self._joined.keys())

    @property
    def each(self) -> list[Follower]:
        """The followers, by rank."""
        return [self._joined[rank] for rank in sorted(self._joined)]

    def processes(self, node: int) -> list[int]:
        """The process ids of the followers on a node."""
        return [each.hello["pid"] for each in self.each if each.hello["node"] == node]

    def machines(self) -> list[dict[str, Any]]:
        """What was detected on each node but the leader's."""
        nodes = {each.hello["node"]: each.hello["machine"] for each in reversed(self.each)}
        return [nodes[node] for node in sorted(nodes) if node]

    def prepare(
        self, plan: Plan, implementation: str | None, data_dir: str | None, data: Mapping[str, np.ndarray]
    ) -> None:
        """Let them load the plan's implementation, that at the path `implementation` if given, and the same `data`."""
        self.tell(
            "prepare",
            benchmark=plan.benchmark.model_dump(mode="json"),
            framework=plan.framework.name,
            implementation=implementation,
            files=dict(plan.contestant.files) if plan.contestant else {},
            data_dir=data_dir,
            data_sums=sums(plan.benchmark.dataset, data),
            leader=f"rank 0 on {socket.gethostname()}",
        )
        self.answers()

    def tell(self, kind: str, state: Mapping[str, np.ndarray] | None = None, **values: Any) -> None:
        """Send all of them a message."""
        message = packed(kind, state, **values)  # once: a large state takes seconds
        for each in self.each:
            each.channel.send_packed(message)

    def answers(self) -> list[dict[str, Any]]:
        """The next message of each."""
        return [each.answer() for each in self.each]

    def with_own(self, own: Callable[[], Answer]) -> tuple[Answer, list[dict[str, Any]]]:
        """Make the leader's own part of a call that the followers have been told; return its result and their answers.

        Raises WorkerLost in place of what the leader's collective operations raise when a worker is lost.
        """
        try:
            made = own()
        except UserError:  # all make the same mistakes, but another's end may also make building fail
            if self.wait_lost(_SETTLE_S) and ENDED in str(self._fault):
                self.raise_if_lost()
            raise
        except Exception as error:
            if self.wait_lost(2 * _SETTLE_S):
                self.raise_if_lost()
            raise error
        return made, self.answers()

    def lose(self, why: str) -> None:
        """Record the first worker that was lost, and end the process after GRACE_S if its main thread has not."""
        with self._news:
            if self._fault is None and not self._closing.is_set():
                self._fault = why
                watch = threading.Timer(GRACE_S, self._abort)
                watch.daemon = True
                watch.start()
            self._news.notify_all()

    def wait_lost(self, seconds: float) -> bool:
        """Wait up to that time for a worker to be lost; return whether one is."""
        with self._news:
            return bool(self._news.wait_for(lambda: self._fault, seconds))

    def raise_if_lost(self) -> None:
        """Raise WorkerLost if a worker is lost."""
        if self._fault:
            raise WorkerLost(self._fault)

    def close(self, code: int = 0) -> None:
        """Let them go, by torchrun those of other nodes with this exit code, and close the connections."""
        self._closing.set()
        self.tell("stop", code=code)
        for each in self.each:
            each.channel.close()
        self._listener.close()
        self.reserved.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            with suppress(OSError):
                connection = Connection(self._listener.accept()[0].detach())
                threading.Thread(target=self._admit, args=(connection,), daemon=True).start()

    def _admit(self, connection: Connection) -> None:
        """Admit a follower, in a thread of its own so that a silent connection keeps no other waiting."""
        key = self.place.key.encode()
        try:
            deliver_challenge(connection, key)
            answer_challenge(connection, key)
        except (OSError, EOFError, AuthenticationError):  # a worker of another run, or no worker
            connection.close()
            return
        follower = Follower(connection, self)
        follower.hello = follower.channel.inbox.get()
        with self._news:
            self._joined[follower.hello["rank"]] = follower
            self._news.notify_all()

    def _abort(self) -> None:
        if self.needed and not self._closing.is_set():
            if sys.stderr.isatty():
                warn("\x1b[?25h\n")  # the cursor that the live line hides
            complain(WorkerLost(f"{self._fault}{self.advice}"))
            self._release()
            os._exit(LOST)

    def _release(self) -> None:
        """Let the followers go that can still be reached, then kill those that the suite has started itself."""
        letting = threading.Thread(target=self.tell, args=("stop",), kwargs={"code": LOST}, daemon=True)
        letting.start()
        letting.join(1.0)  # one that is suspended or cut off may not take it
        if self.place.launcher == "suite":
            for process in self.processes(0):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)


@contextmanager
def followed(place: Place, processes: Sequence[subprocess.Popen[bytes]]) -> Iterator[Followers | None]:
    """All followers of the leader at `place`, which are let go when the block ends; None for a single worker.

    `processes` are theirs if the leader has started them.

    Raises UserError if one does not join, or differs from the leader where a run's workers must be alike.
    """
    if place.world_size == 1:
        yield None
        return
    followers, code = Followers(place), LOST
    try:
        followers.join(processes)
        yield followers
        code = 0
    except Stopped:  # torchrun and srun end the leader when another worker has ended
        if followers.wait_lost(_SETTLE_S):
            followers.raise_if_lost()
        raise
    except UserError as error:
        if isinstance(error.__cause__, OSError):
            raise UserError(f"rank 0 on {socket.gethostname()}: {error}") from error
        raise
    finally:
        followers.close(code)
