"""The record, in evidence, of an implementation that is not the suite's."""

from __future__ import annotations

import hashlib
import json

from suite.config.values import Values


class Contestant(Values):
    """An implementation that is not the suite's, as evidence records it.

    `entry` is the file that holds `build`, `files` gives the sha256 of each file by its path, `imports` the version of
    each package that they import, None if it has none. `revision` is that of the git repository that holds the files;
    `dirty` says whether one of them differs from that revision. Both are None outside a repository.
    """

    name: str
    entry: str
    files: dict[str, str]
    imports: dict[str, str | None]
    revision: str | None
    dirty: bool | None

    @property
    def sha256(self) -> str:
        """One checksum for all files."""
        return hashlib.sha256(json.dumps(self.files, sort_keys=True).encode()).hexdigest()
