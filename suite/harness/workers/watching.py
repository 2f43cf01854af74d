"""Measures noise, power and load on every node; the first worker of each other node sends them to the leader."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from suite.harness.workers.channel import Channel
from suite.harness.workers.leading import Follower, Followers
from suite.measure import noise
from suite.measure.machine import Machine
from suite.measure.noise import Environment
from suite.measure.sampler import Beat, Meter
from suite.measure.samples import Sample


class NodeWatch:
    """Measures a follower's node, on which the run has the processes `workers` beside this one."""

    def __init__(self, node: int, machine: Machine, channel: Channel) -> None:
        self._node, self._machine, self._channel = node, machine, channel
        self._quiet: Environment
        self._beat: Beat

    def before(self, workers: Sequence[int]) -> tuple[str, ...]:
        """Why the node is noisy before the run."""
        self._quiet = noise.before(self._machine, workers)
        return self._quiet.reasons

    def start(self, device: str, workers: Sequence[int], clock_ms: int) -> None:
        """Send samples from now on; the time now is `clock_ms` by the leader's clock."""
        began = time.monotonic()
        meter = Meter(device, workers)

        def send() -> None:
            sample = meter.sample(clock_ms + round((time.monotonic() - began) * 1000))
            self._channel.send("sample", row=sample._replace(node=self._node))

        send()
        self._beat = Beat(send)

    def stop(self) -> tuple[str, ...]:
        """Send the last sample; return why the node's CPUs were slower than they can be."""
        self._beat.stop()
        return noise.during(self._machine, self._quiet, []).reasons


def measuring(followers: Followers) -> dict[int, Follower]:
    """The follower that measures each node but the leader's: the first of that node."""
    first: dict[int, Follower] = {}
    for each in followers.each:
        first.setdefault(each.hello["node"], each)
    first.pop(0, None)
    return first


def before(followers: Followers) -> dict[int, list[str]]:
    """Why each other node is noisy before the run."""
    for node, each in measuring(followers).items():
        each.channel.send("before", workers=followers.processes(node))
    return _answers(followers)


def start(followers: Followers, device: str, clock: Callable[[], int], add: Callable[[Sample], None]) -> None:
    """Let all other nodes send their samples, timed by the leader's `clock`, to `add`."""

    def take(message: Mapping[str, Any]) -> None:
        with suppress(OSError):  # an error of the leader's disk, not of the connection
            add(Sample(*message["row"]))

    for node, each in measuring(followers).items():
        each.channel.at_once["sample"] = take
        each.channel.send("watch", device=device, workers=followers.processes(node), clock_ms=clock())
    _answers(followers)


def stop(followers: Followers) -> dict[int, list[str]]:
    """Stop the samples, the last thing a run needs its followers for; return why each node's CPUs were slower than
    they can be.
    """
    for each in measuring(followers).values():
        each.channel.send("watched")
    found = _answers(followers)
    followers.needed = False
    return found


def _answers(followers: Followers) -> dict[int, list[str]]:
    return {node: each.answer().get("reasons", []) for node, each in measuring(followers).items()}
