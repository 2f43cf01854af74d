"""Tags that choose problems: by kind, by set of DeepBench, or a few of each kind for a first answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from suite.errors import UserError, one_of
from suite.probe.kernels.deepbench import SETS
from suite.probe.kernels.problems import KINDS, Listed

ALL, QUICK, AND = "all", "quick", "+"
TAGS = (ALL, QUICK, *KINDS, *SETS)
MOST_FLOPS, MOST_BYTES = 1e9, 64e6  # of a quick problem
A_FEW = 3  # quick ones of a kind, a set and a direction
WIDTH = 4  # bytes of a number, to tell which problems are quick


def known(text: str) -> str:
    """Return `text` unchanged. Raises UserError for an unknown tag."""
    for tag in text.split(AND):
        one_of("tag of kernels=", tag, TAGS)
    return text


def chosen(listed: Sequence[Listed], text: str) -> list[Listed]:
    """The problems that have all tags in `text`. Raises UserError if there are none."""
    tags = set(text.split(AND))
    found = [each for each in listed if tags - {ALL, QUICK} <= {each.problem.kind, *each.sets}]
    if not found:
        raise UserError(f"kernels={text}: no problem is all of that")
    return _quick(found) if QUICK in tags else found


def _quick(listed: Sequence[Listed]) -> list[Listed]:
    """The smallest, the middle and the largest quick problem of each sort, in the list's order."""
    sorts: dict[object, list[Listed]] = defaultdict(list)
    for each in listed:
        problem = each.problem
        if problem.flops <= MOST_FLOPS and problem.bytes(WIDTH) <= MOST_BYTES:
            sorts[problem.kind, getattr(problem, "direction", None), each.sets].append(each)
    taken: set[Listed] = set()
    for alike in sorts.values():
        alike.sort(key=lambda each: (each.problem.flops, each.problem.bytes(WIDTH)))
        taken |= {alike[round(at * (len(alike) - 1) / (A_FEW - 1))] for at in range(A_FEW)}
    return [each for each in listed if each in taken]
