"""The files that a benchmark is trained on, as `conf/task` and `conf/files` name them."""

from __future__ import annotations

from functools import cache
from urllib.parse import quote

from suite.config import folder
from suite.config.values import Values


class File(Values):
    """One file of a dataset, relative to the data root, and where it can be downloaded by itself, if it can."""

    path: str
    """Where the file lies in the data folder."""
    bytes: int
    """Its size."""
    sha256: str
    """Of its content."""
    url: str | None = None
    """Where it can be downloaded by itself."""


class Remote(File):
    """A file that can be downloaded."""

    url: str
    """Where it can be downloaded."""


class Mirror(Values):
    """Where a dataset's files can be downloaded one by one: at `url` + the path without its beginning `below`."""

    url: str
    """What the addresses begin with."""
    below: str
    """The beginning of the paths that the mirror does not have."""


class Dataset(Values):
    """Where a benchmark's data comes from and what it must be.

    `arrays` gives the sha256 of each prepared array (dtype, shape and bytes, see `suite.store.arrays`):
    the content that counts, whatever the files around it look like. `files` is empty when the data is embedded; a
    name stands for the many files of `conf/files/<name>.txt`. `archive` unpacks, in the data root, to the files.
    """

    name: str
    """What the dataset is called."""
    licence: str
    """Its licence."""
    citation: str
    """Whom to cite."""
    source: str
    """Where it comes from: an address, a package, or the code that makes it."""
    train_samples: int | None = None
    """The examples of the training split, one epoch. Left out where training makes its data."""
    eval_samples: int
    """The examples of the evaluation split."""
    files: tuple[File, ...] | str = ()
    """The files, or NAME for the many of `conf/files/NAME.txt`. Left out where the data is embedded."""
    archive: Remote | None = None
    """What unpacks, in the data folder, to the files."""
    mirror: Mirror | None = None
    """Where the files can be downloaded one by one."""
    arrays: dict[str, str]
    """The sha256 of each array that `prepare` returns. `python -m suite.check task=TASK` prints them."""

    @property
    def members(self) -> tuple[File, ...]:
        """The files, read from `conf/files/` where only a name is given."""
        return listed(self.files) if isinstance(self.files, str) else self.files

    def remote(self, file: File) -> Remote | None:
        """Where one of the files can be downloaded: its own `url`, or its place on the mirror."""
        url = file.url
        if url is None and self.mirror:
            url = self.mirror.url + quote(file.path.removeprefix(self.mirror.below))
        return Remote(path=file.path, bytes=file.bytes, sha256=file.sha256, url=url) if url else None

    @property
    def bytes(self) -> int:
        """The size of all files together."""
        return sum(file.bytes for file in self.members)


@cache
def listed(name: str) -> tuple[File, ...]:
    """The files of `conf/files/<name>.txt`, which has a line `<sha256>  <bytes>  <path>` for each."""
    lines = (folder.CONF / "files" / f"{name}.txt").read_text().splitlines()
    return tuple(File(sha256=sha256, bytes=int(size), path=path) for sha256, size, path in map(str.split, lines))
