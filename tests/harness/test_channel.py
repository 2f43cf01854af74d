"""Messages between a leader and a follower."""

import time
from multiprocessing import Pipe
from queue import Queue
from types import SimpleNamespace

import numpy as np
import pytest

from suite.harness.workers import channel
from suite.harness.workers.channel import Channel


class Slow:
    """A connection that takes its time for each byte."""

    def __init__(self, connection):
        self.recv_bytes, self.close, self._send = connection.recv_bytes, connection.close, connection.send_bytes
        self.fileno = connection.fileno

    def send_bytes(self, part):
        time.sleep(len(part) / 5000)
        self._send(part)


def test_a_state_that_takes_long_to_come_is_no_silence(monkeypatch):
    for name, value in {"ALIVE_S": 0.1, "SILENCE_S": 2.0, "PART": 1000}.items():
        monkeypatch.setattr(channel, name, value)
    state, lost = {"weight": np.arange(2000.0), "step": np.array(3)}, []
    ours, theirs = Pipe()
    sender, receiver = Channel(Slow(ours), lost.append), Channel(theirs, lost.append)
    sender.built()
    sender.send("load_state_dict", state)
    message = receiver.inbox.get(timeout=30)
    assert lost == []
    assert message["kind"] == "load_state_dict"
    assert all(np.array_equal(message["state"][name], array) for name, array in state.items())
    sender.close()
    receiver.close()


@pytest.mark.timeout(60)
def test_a_state_that_nobody_takes_ends_the_wait(monkeypatch):
    for name, value in {"ALIVE_S": 0.1, "SILENCE_S": 1.0}.items():
        monkeypatch.setattr(channel, name, value)
    lost = []
    ours, _theirs = Pipe()
    sender = Channel(ours, lost.append)
    sender.send("load_state_dict", {"weight": np.zeros(3_000_000)})
    assert len(lost) == 1
    assert "it hangs, or its network is down" in lost[0]
    sender.close()


@pytest.mark.timeout(60)
def test_silence_is_told_once_all_have_built(monkeypatch):
    """Until then an import from a cold disk may hold Python's lock for minutes."""
    for name, value in {"ALIVE_S": 0.05, "SILENCE_S": 0.2}.items():
        monkeypatch.setattr(channel, name, value)
    lost, (ours, _theirs) = Queue(), Pipe()
    other = Channel(ours, lost.put)
    time.sleep(0.5)
    assert lost.empty()
    other.built()
    assert "nothing was heard of it" in lost.get(timeout=30)
    other.close()


def test_two_that_stood_still_together_have_not_lost_each_other(monkeypatch):
    """As Ctrl-Z and `fg`, and a batch system that suspends a job, have it."""
    stood = [0.0]
    monkeypatch.setattr(channel, "ALIVE_S", 0.1)
    monkeypatch.setattr(channel, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + stood[0]))
    lost, ends = [], Pipe()
    both = [Channel(each, lost.append) for each in ends]
    time.sleep(0.3)
    stood[0] = 1000.0
    time.sleep(0.5)
    for each in both:
        each.close()
    assert lost == []
