"""Blocks that nobody trained, as if they had been trained again."""

from types import SimpleNamespace

from suite.audit.replaying import Replay
from suite.audit.subject import Claim

THREADS = ("threads 2, here 1",)


def claim(number, seconds):
    return Claim(4000 * (number - 1), 4000 * number, None, "0" * 64, 7, None, None, {}, None, seconds)


def block(*claims, **made):
    """The replay of the last of a run's claims."""
    return Replay(SimpleNamespace(claims=claims), claims[-1], **made)


def beginning(in_open=False):
    """A run of which only the sum of its initial state is known."""
    return SimpleNamespace(initial_sha256="0" * 64, evidence=SimpleNamespace(in_open=in_open))
