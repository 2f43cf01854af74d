"""Lets the followers go that have nothing to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from suite.errors import USER_ERROR, UserError
from suite.harness.workers.leading import Followers
from suite.harness.workers.place import Place


def dismiss(place: Place, code: int = 0) -> None:
    """Let the followers go when there is nothing for them to do, so that they do not look for the leader in vain."""
    if place.world_size > 1:
        with suppress(UserError):
            followers = Followers(place)
            followers.wait_joined()
            followers.close(code)


@contextmanager
def dismissed_on_mistake(place: Place) -> Iterator[None]:
    """Let the followers go first if the block raises UserError."""
    try:
        yield
    except UserError:
        dismiss(place, USER_ERROR)
        raise
