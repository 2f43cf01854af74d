"""Find the lines of a log that break its hash chain."""

from __future__ import annotations

from itertools import pairwise

from suite.record.evidence import LOG, Digest, digest
from suite.record.mllog import FIRST_PREV, line_hash
from suite.rules.reading import Evidence


def broken_lines(run: Evidence) -> list[int]:
    """The numbers of the lines that were changed, or at which lines were added or removed, in order.

    A link joins a line to the `prev` of the next one, and the last line to the manifest's `log_head`. Where a link is
    broken, either side may have changed: the manifest's short hashes tell which; without them the earlier one is named.
    """
    lines, suspects = run.lines, set()
    if lines and not lines[0].problem and lines[0].metadata.get("prev") != FIRST_PREV:
        suspects.add(1)
    for line, after in pairwise(lines):
        if not after.problem and after.metadata.get("prev") != line_hash(line.raw):
            suspects.add(line.number + 1 if _unchanged(run, line.number) else line.number)
    last = lines[-1] if lines else None
    if last and run.log_head is not None and run.log_head != line_hash(last.raw):
        suspects.add(last.number)
    return sorted(suspects)


def _unchanged(run: Evidence, number: int) -> bool:
    """Whether the line matches its short hash in the manifest."""
    sealed: Digest | None = (run.sealed or {}).get(LOG)
    width = len(digest(b"").lines)
    at = slice((number - 1) * width, number * width)
    return sealed is not None and digest(run.lines[number - 1].raw).lines == sealed.lines[at]
