"""Where evidence lies, seen from a page."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote


def place(page: Path, target: Path, path: str = ".") -> str:
    """The path of `path` in the folder `target`, relative to the folder of `page`."""
    return os.path.relpath(target.resolve() / path, page.resolve().parent)


def link(page: Path, target: Path, path: str = ".") -> str:
    """The same as a relative link, that is never anything but a path."""
    return "./" + quote(place(page, target, path), errors="surrogateescape")
