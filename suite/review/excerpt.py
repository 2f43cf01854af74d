"""The lines of a submission's files that findings name, short and safe to print."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from io import BytesIO
from pathlib import Path

from suite.errors import printable
from suite.rules.finding import Finding
from suite.store.disk import UnsafeFile, read_safely

MAX_SHOWN = 400  # characters
MAX_BYTES = 128 << 20  # of a file

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
    try:
        content = read_safely(path, MAX_BYTES)
    except (OSError, UnsafeFile):
        return {}
    return {number: _short(line) for number, line in enumerate(BytesIO(content), 1) if number in numbers}


def _short(line: bytes) -> str:
    text = line.rstrip(b"\r\n")[: 4 * MAX_SHOWN].decode(errors="replace")
    return printable(text[:MAX_SHOWN]) + ("..." if len(text) > MAX_SHOWN else "")
