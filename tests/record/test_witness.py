"""Which answers of a time-stamping authority are the stamp of a line, and which are none."""

import hashlib
import json

import pytest
from mlperf_logging.mllog import constants as keys

from suite.record import mllog
from suite.record.evidence import STAMPS
from suite.record.witness import Witness
from tests.waiting import FOREVER_S
from tests.witness_server import Authority, needs_openssl, serving

pytestmark = needs_openssl
RECORD = {"key": keys.RUN_START, "time_ms": 1, "event_type": keys.POINT_IN_TIME, "value": None, "metadata": {}}
LINE = mllog.parse(1, (mllog.TOKEN + json.dumps(RECORD)).encode())
REJECTION = bytes.fromhex("30053003020102")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def asked(folder, answer):
    """Whether there is a stamp of the line, and the problems, where the authority answers so to its digest."""
    with serving(lambda query: (200, answer(query))) as url:
        witness = Witness(url, folder)
        witness.line(LINE)
        had = witness.finish()
    assert had[keys.RUN_START] == (folder / STAMPS[keys.RUN_START]).exists()
    return had[keys.RUN_START], witness.problems


def test_a_stamp_is_of_the_line_that_was_sent_and_was_asked_for_now(tmp_path, authority, monkeypatch):
    """Not of another line, nor an older one of it, which would have been replayed: each request has its own number."""
    monkeypatch.setattr("suite.record.witness.LATE_S", FOREVER_S)
    digest, queries = hashlib.sha256(LINE.raw).digest(), []

    def of_another_line(query):
        assert query.count(digest) == 1
        return authority.reply(query.replace(digest, bytes(32)))

    assert asked(tmp_path, lambda query: authority.reply(queries.append(query) or query)) == (True, [])
    other = (False, ["run_start: the answer was the stamp of something else"])
    assert asked(tmp_path, lambda query: authority.reply(queries[0])) == other
    assert asked(tmp_path, of_another_line) == other


def test_a_refusal_is_told_as_such(tmp_path, monkeypatch):
    monkeypatch.setattr("suite.record.witness.LATE_S", FOREVER_S)
    had, (problem,) = asked(tmp_path, lambda query: REJECTION)
    assert not had
    assert problem == "run_start: it was refused, with status 2"
