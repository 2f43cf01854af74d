"""Paths and links from a page to evidence."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote


def place(page: Path, target: Path, path: str = ".") -> str:
    """The path of `path` in `target` (beside it if that is a file), relative to the folder of `page`."""
    at = target.resolve()
    folder = at.parent if path != "." and at.is_file() else at
    return os.path.relpath(folder / path, page.resolve().parent)


def link(page: Path, target: Path, path: str = ".") -> str:
    """The same as a relative link, quoted so that it can only be a path."""
    return "./" + quote(place(page, target, path), errors="surrogateescape")
