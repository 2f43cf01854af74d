"""Requests that wait at the same time are answered together, and none is answered for another."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from suite.errors import UserError
from suite.serve.asking import Local
from suite.serve.batching import Batcher, Overloaded


class Slow:
    """Answers as soon as it may; keeps the batches it was given."""

    def __init__(self):
        self.may, self.batches = threading.Event(), []

    def __call__(self, requests):
        self.may.wait(30)
        self.batches.append(list(requests))
        if "bad" in requests:
            raise ValueError("bad")
        return [f"{each}!" for each in requests]


@pytest.fixture
def slow():
    return Slow()


def test_answers_are_those_of_their_requests_and_batches_no_larger_than_allowed(slow):
    batcher = Batcher(lambda: slow, batch=4, wait_s=0.01, queue=100)
    futures = [batcher.submit(index) for index in range(11)]
    slow.may.set()
    assert [future.result(30) for future in futures] == [f"{index}!" for index in range(11)]
    assert [each for batch in slow.batches for each in batch] == list(range(11))
    assert max(map(len, slow.batches)) == 4
    assert (batcher.taken, batcher.shed) == (11, 0)


def test_no_batch_waits_for_more_requests_than_may_wait():
    batcher = Batcher(lambda: list, batch=4, wait_s=600.0, queue=2)
    first, second = map(batcher.submit, "ab")
    assert (first.result(60), second.result(60)) == ("a", "b")


def test_a_request_waits_for_others_no_longer_than_it_is_to():
    batcher = Batcher(lambda: list, batch=2, wait_s=0.01, queue=100)
    assert batcher.submit("alone").result(4) == "alone"


def test_the_time_for_which_a_request_waits_for_others_begins_when_it_comes(slow, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("suite.serve.batching.monotonic", lambda: now[0])
    batcher = Batcher(lambda: slow, batch=2, wait_s=600.0, queue=100)
    *_, last = map(batcher.submit, "abc")  # while the first two are being answered
    now[0] = 600.0
    slow.may.set()
    assert last.result(30) == "c!"


def test_a_request_that_was_given_up_is_left_out_and_the_others_are_answered(slow):
    batcher = Batcher(lambda: slow, batch=1, wait_s=0.0, queue=100)
    first, given_up, last = map(batcher.submit, "abc")
    assert given_up.cancel()
    slow.may.set()
    assert (first.result(30), last.result(30)) == ("a!", "c!")
    assert slow.batches == [["a"], ["c"]]


def test_what_answers_is_made_and_asked_in_one_thread():
    threads = []

    def answers(requests):
        threads.append(threading.get_ident())
        return requests

    def make():
        return answers([answers]).pop()

    def fail():
        raise UserError("no model")

    assert Batcher(make, batch=1, wait_s=0.0, queue=1).submit("a").result(30) == "a"
    assert len(threads) == 2
    assert set(threads) != {threading.get_ident()}
    assert len(set(threads)) == 1
    with pytest.raises(UserError, match="no model"):
        Batcher(fail, batch=1, wait_s=0.0, queue=1)


@pytest.mark.parametrize(("most", "made"), [(100, [0, 1]), (1, [0, 1, 1])], ids=["enough", "little"])
def test_a_request_is_made_once_where_there_is_room_for_it(slow, monkeypatch, most, made):
    monkeypatch.setattr("suite.serve.asking.MOST_BYTES", most)
    asked = []

    def request(index):
        asked.append(index)
        return {"test": np.zeros(2, np.uint8)}

    slow.may.set()
    local = Local(SimpleNamespace(request=request), Batcher(lambda: slow, batch=1, wait_s=0.0, queue=9))
    for index in (0, 1, 0, 1):
        local.submit(index).result(30)
    assert asked == made


def test_a_full_queue_refuses_at_once_and_recovers(slow):
    batcher = Batcher(lambda: slow, batch=2, wait_s=0.0, queue=3)
    first = batcher.submit("first")
    while not batcher.taken:
        time.sleep(0.001)
    futures = [batcher.submit(index) for index in range(50)]
    refused = [future for future in futures if future.done() and isinstance(future.exception(), Overloaded)]
    assert len(refused) == batcher.shed == 47  # one is being answered, three wait
    slow.may.set()
    assert first.result(30) == "first!"
    assert all(future.result(30) for future in futures if future not in refused)
    assert batcher.submit("later").result(30) == "later!"


def test_who_may_wait_is_not_refused(slow):
    slow.may.set()
    batcher = Batcher(lambda: slow, batch=2, wait_s=0.0, queue=1)
    futures = [batcher.submit(index, wait=True) for index in range(20)]
    assert [future.result(30) for future in futures] == [f"{index}!" for index in range(20)]


def test_a_request_that_cannot_be_answered_fails_by_itself(slow):
    batcher = Batcher(lambda: slow, batch=8, wait_s=0.01, queue=100)
    first = batcher.submit("first")  # is being answered while the others gather
    futures = [batcher.submit(each) for each in ("one", "bad", "two")]
    slow.may.set()
    assert first.result(30) == "first!"
    assert futures[0].result(30) == "one!"
    assert futures[2].result(30) == "two!"
    with pytest.raises(ValueError, match="bad"):
        futures[1].result(30)
