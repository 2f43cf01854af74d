"""The auditor's draw of the blocks to train again, from entropy that nobody else has seen."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from typing import TypeVar

from suite.errors import UserError, shown

_HEX = re.compile(r"[0-9a-f]{1,128}\Z")

Item = TypeVar("Item")


def fresh() -> str:
    """New entropy, as text with which the draw can be repeated."""
    return secrets.token_hex(16)


def draw(items: Sequence[Item], count: int, entropy: str) -> list[Item]:
    """`count` of `items`, or all if there are fewer, in their order. The same entropy draws the same places.

    The places drawn are those with the smallest sha256 of the entropy and the place's number. Raises UserError unless
    `entropy` is 1 to 128 hexadecimal digits.
    """
    if not _HEX.match(entropy):
        raise UserError(f"draw={shown(entropy)} is no text of 1 to 128 hexadecimal digits, as an audit prints it")
    places = sorted(range(len(items)), key=lambda at: hashlib.sha256(f"{entropy} {at}".encode()).digest())
    return [items[at] for at in sorted(places[:count])]
