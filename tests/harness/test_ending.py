"""Workers end with the others also where standard error cannot be written."""

import shlex
import subprocess
import sys
from dataclasses import astuple

import pytest

from suite.errors import UserError, WorkerLost
from suite.harness.workers import leading
from suite.harness.workers.channel import Channel, connect, free_port
from suite.harness.workers.dismissing import dismissed_on_mistake
from suite.harness.workers.leading import Followers, followed
from suite.harness.workers.place import LOCALHOST, Place
from suite.harness.workers.sameness import told
from tests.command import ENVIRONMENT

LEADER = """
import time
from suite.errors import command
from suite.harness.workers import leading
from suite.harness.workers.place import Place

leading.GRACE_S = leading._SETTLE_S = 0.1

def lead(argv):
    leading.Followers(Place{place})
    time.sleep(60)

command(lead)
"""
FOLLOWER = """
from suite.errors import command
from suite.harness.workers.following import follow
from suite.harness.workers.place import Place

command(lambda argv: follow(Place{place}))
"""


@pytest.fixture(params=["2>/dev/full", "2>&-"])
def start(request):
    """Start a worker whose standard error cannot be written."""
    started = []

    def run(code: str, place: Place) -> subprocess.Popen:
        call = shlex.join([sys.executable, "-c", code.format(place=astuple(place))])
        started.append(subprocess.Popen(["sh", "-c", f"exec {call} {request.param}"], env=ENVIRONMENT))
        return started[-1]

    yield run
    for each in started:
        each.kill()


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "failed"])
def test_a_leader_ends_whose_worker_is_lost_or_fails(start, lost):
    own = Place(0, 2, port=free_port(), key="key", launcher="torchrun")
    leader = start(LEADER, own)
    channel = Channel(connect(LOCALHOST, own.port, own.key, within_s=60.0), lambda why: None)
    channel.send("hello", rank=1, node=0, address=LOCALHOST, port=1, **told())
    if lost:
        channel.close()
    else:
        channel.send("failed", why="ValueError", traceback="ValueError\n")
    assert leader.wait(30) == 1


def test_a_follower_ends_whose_leader_is_lost(start):
    own = Place(0, 2, port=free_port(), key="key", launcher="torchrun")
    followers = Followers(own)
    follower = start(FOLLOWER, Place(1, 2, 1, port=own.port, key=own.key, launcher="torchrun"))
    assert followers.wait_joined() == []
    followers.each[0].channel.close()
    assert follower.wait(30) == 1
    followers.close()


@pytest.mark.parametrize(("node", "size", "code"), [(1, 1, 1), (0, 2, 0)])
def test_a_follower_of_another_node_fails_with_the_leader(start, monkeypatch, node, size, code):
    """Else torchrun, which starts the workers of the other nodes again, would wait for that node's."""
    monkeypatch.setattr(leading, "difference", lambda leader, other: None)  # other tests may import what adds packages
    own = Place(0, 2, local_size=size, port=free_port(), key="key", launcher="torchrun")
    follower = start(FOLLOWER, Place(1, 2, size - 1, size, node, port=own.port, key=own.key, launcher="torchrun"))
    with pytest.raises(WorkerLost), followed(own, []):
        raise WorkerLost("rank 2: its process has ended")
    assert follower.wait(30) == code


def test_a_follower_of_another_node_ends_as_a_leader_whose_user_is_mistaken(start):
    own = Place(0, 2, port=free_port(), key="key", launcher="torchrun")
    follower = start(FOLLOWER, Place(1, 2, node=1, port=own.port, key=own.key, launcher="torchrun"))
    with pytest.raises(UserError), dismissed_on_mistake(own):
        raise UserError("task= is missing")
    assert follower.wait(30) == 2
