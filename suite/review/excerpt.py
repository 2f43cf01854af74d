"""The lines of a submission's files that findings name, short and safe to print."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

from suite.errors import printable
from suite.rules.finding import Finding
from suite.store.disk import UnsafeFile, read_safely

MAX_SHOWN = 400  # characters
MAX_BYTES = 128 << 20  # of a file


def excerpts(root: Path, findings: Iterable[Finding]) -> dict[tuple[str, int], str]:
    """The text of each line that a finding names, by file and line; what `content_of` cannot read is left out."""
    wanted: dict[str, set[int]] = {}
    for finding in findings:
        if finding.line is not None:
            wanted.setdefault(finding.file, set()).add(finding.line)
    found: dict[tuple[str, int], str] = {}
    for name, numbers in wanted.items():
        content = content_of(root, name, MAX_BYTES) or b""
        for number, line in enumerate(BytesIO(content), 1):
            if number in numbers:
                found[name, number] = _short(line)
    return found


def content_of(root: Path, name: str, limit: int) -> bytes | None:
    """The content of the file `name` of what was reviewed, at most `limit` bytes; None where it cannot be read safely.

    `root` is what was reviewed: a folder, or the file itself.
    """
    path = root / name if root.is_dir() else root
    if not path.resolve().is_relative_to(root.resolve()):
        return None
    try:
        return read_safely(path, limit)
    except (OSError, UnsafeFile):
        return None


def _short(line: bytes) -> str:
    text = line.rstrip(b"\r\n")[: 4 * MAX_SHOWN].decode(errors="replace")
    return printable(text[:MAX_SHOWN]) + ("..." if len(text) > MAX_SHOWN else "")
