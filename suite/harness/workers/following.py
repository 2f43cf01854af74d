"""A follower's side: do what the leader says, and end when it ends."""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from suite import config
from suite.config.models import Benchmark
from suite.errors import UserError, WorkerLost, complain, shown
from suite.harness import contract
from suite.harness.cache import clear_cache
from suite.harness.contestant import OwnImplementation, read
from suite.harness.contract import Checked
from suite.harness.implementation import Device, ImplementationModule, load_implementation
from suite.harness.interrupt import SIGNALS
from suite.harness.memory import let_go
from suite.harness.workers.channel import CONNECT_S, ENDED, OWN_CONNECT_S, Channel, at, connect, reserved_port
from suite.harness.workers.place import Place
from suite.harness.workers.sameness import told
from suite.harness.workers.watching import NodeWatch
from suite.measure.machine import detect
from suite.record.states import state_sha256
from suite.store.arrays import prepared, sums
from suite.store.code import differing
from suite.store.task import Task, for_run, load_task

LEFT = 1  # the exit code of a follower whose leader has gone


def follow(place: Place) -> NoReturn:
    """Obey the leader until it says stop or is lost, then end the process. Signals are left to the leader to handle.

    Raises UserError if the leader cannot be reached.
    """
    within_s = OWN_CONNECT_S if place.launcher == "suite" else CONNECT_S
    try:
        connection = connect(place.host, place.port, place.key, within_s)
    except Exception as error:
        raise UserError(
            f"rank {place.rank} on {socket.gethostname()} cannot reach the leader at {at(place.host, place.port)} "
            f"within {within_s:.0f} s ({error}): see what the leader says, and whether this machine reaches that "
            "address"
        ) from error
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    worker = _Worker(place, connection)
    while True:
        worker.obey(worker.channel.inbox.get())


class _Worker:
    def __init__(self, place: Place, connection: Connection) -> None:
        self.place, self.leader, self.advice = place, f"rank 0 at {place.host}", ""
        self.benchmark: Benchmark
        self.task: Task
        self.module: ImplementationModule
        self.arrays: Mapping[str, np.ndarray]
        self.data: Mapping[str, np.ndarray]
        self.implementation: Checked
        self.channel = Channel(connection, self._left)
        # torchrun starts a node's workers again only if one of them fails.
        elsewhere = place.launcher == "torchrun" and place.node
        self.channel.at_once["stop"] = lambda message: _end(message["code"] if elsewhere else 0)
        self.reserved = reserved_port()
        address, port = self.channel.local_host(), self.reserved.getsockname()[1]
        self.channel.send("hello", rank=place.rank, node=place.node, address=address, port=port, **told())
        self.watch = NodeWatch(place.node, detect(), self.channel)

    def obey(self, message: Mapping[str, Any]) -> None:
        """Do what a message says, and answer."""
        given = {name: value for name, value in message.items() if name != "kind"}
        try:
            self._answer(**(getattr(self, f"_{message['kind']}")(**given) or {}))
        except Exception as error:
            mistake = isinstance(error, UserError)
            why = str(error) if mistake else shown(f"{type(error).__name__}: {error}")
            self.channel.send("failed", why=why, traceback="" if mistake else traceback.format_exc())

    def _answer(self, **answer: Any) -> None:
        try:
            self.channel.send("done", **answer)
        except (TypeError, ValueError, RecursionError):  # JSON cannot hold the answer; nothing was sent
            contract.check_json(answer.get("predictions", ()))
            raise

    def _left(self, why: str) -> None:
        """End the process: the leader is gone or cannot be reached, so whatever this waits for will not come."""
        if self.place.rank == 1 or why != ENDED:  # one follower is enough to report that the leader's process ended
            complain(WorkerLost(f"{self.leader}, which leads the workers: {why}{self.advice}"))
        _end(LEFT)

    def _prepare(
        self, benchmark: dict[str, Any], framework: str, implementation: str | None, files: dict[str, str],
        data_dir: str | None, data_sums: dict[str, str], leader: str,
    ) -> None:  # fmt: skip
        self.leader = leader
        self.benchmark = config.checked(Benchmark, benchmark, "the leader's benchmark")
        own = _own(implementation, framework, files) if implementation else None
        name = self.benchmark.task
        self.module = own.load(name) if own else load_implementation(name, config.framework(framework))
        self.task = load_task(name)
        self.arrays = prepared(self.benchmark, self.task, data_dir)
        dataset = self.benchmark.dataset
        if stray := differing(data_sums, sums(dataset, self.arrays)):
            raise UserError(f"{stray[0]} of {dataset.name} is not the leader's, by its sum: bring the same data to all")

    def _clear_cache(self) -> dict[str, Any]:
        return {"cleared": clear_cache(self.arrays)}

    def _build(
        self, seed: int, evaluation_seed: int | None, device: str, precision: str, memory_gb: float | None,
        addresses: list[str], advice: str,
    ) -> None:  # fmt: skip
        self.advice = advice
        self.reserved.close()
        self.data = for_run(self.benchmark, self.task, self.arrays, evaluation_seed)
        vars(self).pop("implementation", None)  # the previous run's: there may be no room for two
        let_go(device)
        place = Device(device, precision, self.place.rank, self.place.local_rank, tuple(addresses), memory_gb)
        self.implementation = contract.build(self.module, self.benchmark, self.data, seed, place)

    def _train_until(self, samples: int) -> dict[str, Any]:
        stats = self.implementation.train_until(samples)
        return {"samples": stats.samples, "loss": None if stats.loss is None else float(stats.loss)}

    def _predict(self) -> dict[str, Any]:
        return {"predictions": self.implementation.predict(self.data)}

    def _state_dict(self) -> dict[str, Any]:
        return {"sha256": state_sha256(self.implementation.state_dict())}

    def _before(self, workers: list[int]) -> dict[str, Any]:
        return {"reasons": self.watch.before(workers)}

    def _watch(self, device: str, workers: list[int], clock_ms: int) -> None:
        self.watch.start(device, workers, clock_ms)

    def _watched(self) -> dict[str, Any]:
        return {"reasons": self.watch.stop()}

    def _load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        self.implementation.load_state_dict(state)


def _own(path: str, framework: str, files: Mapping[str, str]) -> OwnImplementation:
    own = read(Path(path), framework)
    if others := differing(files, own.told.files):
        raise UserError(f"implementation={path} has another {others[0]} than the leader's: bring the same code to all")
    return own


def _end(code: int) -> NoReturn:
    """End the process, whatever its main thread waits for."""
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)
