"""How workers find their leader."""

import socket

from suite.harness.workers.channel import connect, free_port
from suite.harness.workers.leading import Followers
from suite.harness.workers.place import LOCALHOST, Place


def test_what_connects_and_says_nothing_keeps_no_worker_out():
    followers = Followers(Place(0, 2, port=free_port(), key="key", launcher="torchrun"))
    with socket.create_connection((LOCALHOST, followers.place.port)):
        connect(LOCALHOST, followers.place.port, followers.place.key, within_s=5.0).close()
    followers.close()
