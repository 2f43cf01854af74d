"""The lines of a submission's files that findings name, short and safe to print."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from pathlib import Path

from suite.errors import printable
from suite.rules.finding import Finding

MAX_SHOWN = 400  # characters
MAX_BYTES = 64 << 20  # read of one file
_PIECE = 1 << 16

Place = tuple[str, int]


def excerpts(root: Path, findings: Iterable[Finding]) -> dict[Place, str]:
    """The text of each line that a finding names, by file and line; what cannot be read safely is left out.

    `root` is what was reviewed: a folder, or a log.
    """
    wanted: dict[str, set[int]] = {}
    for finding in findings:
        if finding.line is not None:
            wanted.setdefault(finding.file, set()).add(finding.line)
    found: dict[Place, str] = {}
    for name, numbers in wanted.items():
        path = root / name if root.is_dir() else root
        if path.resolve().is_relative_to(root.resolve()):
            found |= {(name, number): text for number, text in _lines(path, numbers).items()}
    return found


def _lines(path: Path, numbers: Collection[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    number, begins, left = 1, True, MAX_BYTES
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return found
            while number <= max(numbers) and left > 0 and (piece := file.readline(_PIECE)):
                left -= len(piece)
                if begins and number in numbers:
                    found[number] = _short(piece)
                begins = piece.endswith(b"\n")
                number += begins
    except OSError:
        return found
    return found


def _short(line: bytes) -> str:
    text = line.rstrip(b"\r\n")[: 4 * MAX_SHOWN].decode(errors="replace")
    return printable(text[:MAX_SHOWN]) + ("..." if len(text) > MAX_SHOWN else "")
