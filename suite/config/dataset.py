"""The files that a benchmark is trained on, as `conf/task` and `conf/files` name them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import Literal
from urllib.parse import quote

import numpy as np
from pydantic import Field

from suite.config import folder
from suite.config.values import Values
from suite.errors import UserError, shown, unknown


class File(Values):
    """One file of a dataset, relative to the data root, and where it can be downloaded by itself, if it can."""

    path: str
    """Where the file lies in the data folder."""
    bytes: int
    """Its size."""
    sha256: str | None = None
    """Of its content. Left out where it was never read here: then what the server says of it is taken, where it says
    so, and the log of a run has the sum that was found."""
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


class Shards(Values):
    """An array that is too large for one file, or for the memory: shards of one form, each mapped into the memory.

    It is given as arrays of its name, `_` and a number of four digits from 0.
    """

    files: str
    """What the paths of its files begin with; they follow one another by their paths."""
    dtype: str
    """numpy's name of the elements' type."""
    offset: int = Field(default=0, ge=0)
    """Bytes before the first element."""
    samples_are: Literal["elements", "told"] = "elements"
    """`elements` where each is a sample; `told` where other arrays say which elements are one, as of bytes of pictures:
    how many a part has is not known before it is read."""

    def samples(self, file: File) -> int:
        """How many elements a file holds, each a sample."""
        return (file.bytes - self.offset) // np.dtype(self.dtype).itemsize


class Dataset(Values):
    """Where a benchmark's data comes from and what it must be.

    `arrays` gives the sha256 of each prepared array (dtype, shape and bytes, see `suite.store.arrays`):
    the content that counts, whatever the files around it look like. `files` is empty when the data is embedded, or when
    users have it in several forms; a name stands for the many files of `conf/files/<name>.txt`. `archive` unpacks, in
    the data root, to the files. What `made` files hold is read in place of the others, from which `tasks.<task>.shards`
    makes them; where it has a function `bring`, that finds the form in which they are there.
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
    eval_samples: int = 0
    """The examples of the evaluation split. Left out until a check has printed it."""
    files: tuple[File, ...] | str = ()
    """The files, or NAME for the many of `conf/files/NAME.txt`. Left out where the data is embedded, or is had in
    several forms."""
    archive: Remote | None = None
    """What unpacks, in the data folder, to the files."""
    mirror: Mirror | None = None
    """Where the files can be downloaded one by one."""
    made: tuple[File, ...] | str | None = None
    """The files, or NAME for those of `conf/files/NAME.txt`, that the task makes of the others, off the clock."""
    shards: dict[str, Shards] | None = None
    """The arrays, by their names, that are files as they lie on the disk."""
    subset: float | None = Field(default=None, gt=0, lt=1)
    """Not to be given: which share of the shards a pilot takes, `subset=`."""
    arrays: dict[str, str | None] = Field(default_factory=dict)
    """The sha256 of each array that `prepare` returns, null where nobody has made it here. Left out until a check,
    `python -m suite.check task=TASK`, has printed them."""

    @property
    def members(self) -> tuple[File, ...]:
        """The files that a run reads, from `conf/files/` where only a name is given."""
        files = self.files if self.made is None else self.made
        return listed(files) if isinstance(files, str) else files

    @property
    def source_files(self) -> Dataset:
        """The dataset of those files that come from elsewhere."""
        return self.model_copy(update={"made": None})

    @property
    def in_forms(self) -> str:
        """Of what files are made whose source users have in several forms, which the task knows; empty elsewhere."""
        return f"made of {self.source}" if self.made is not None and not self.files else ""

    @property
    def evaluation(self) -> Dataset:
        """The dataset without the arrays that are shards, enough to score predictions with."""
        if not self.shards:
            return self
        prefixes = tuple(each.files for each in self.shards.values())
        return self._of(file for file in self.members if not file.path.startswith(prefixes))

    def shards_of(self, name: str) -> list[File]:
        """The files of a sharded array, in order."""
        return sorted(
            (file for file in self.members if file.path.startswith((self.shards or {})[name].files)),
            key=lambda file: file.path,
        )

    def part(self, share: float) -> Dataset:
        """The dataset with the first `share` of each sharded training array alone, at least one shard.

        Raises UserError where it has none.
        """
        training = {name: form for name, form in (self.shards or {}).items() if name.startswith("train_")}
        if not training:
            raise UserError(f"subset={share:g} takes a part of a dataset's shards, and {self.name} has none")
        arrays = [self.shards_of(name) for name in training]
        left_out = {file.path for array in arrays for file in array[math.ceil(share * len(array)) :]}
        kept = self._of(file for file in self.members if file.path not in left_out)
        samples = None
        if all(form.samples_are == "elements" for form in training.values()):
            samples = sum(form.samples(file) for name, form in training.items() for file in kept.shards_of(name))
        return kept.model_copy(update={"subset": share, "train_samples": samples})

    def _of(self, files: Iterable[File]) -> Dataset:
        return self.model_copy(update={"files" if self.made is None else "made": tuple(files)})

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
    """The files of `conf/files/<name>.txt`, which has a line `<sha256>  <bytes>  <path>` for each; `-` for no sum.

    Raises UserError where there is none, and for another line.
    """
    lists = {path.stem: path for path in (folder.CONF / "files").glob("*.txt")}
    if name not in lists:
        raise unknown("list of conf/files", name, lists)
    found = []
    for number, line in enumerate(lists[name].read_text().splitlines(), 1):
        try:
            sha256, size, path = line.split()
            found.append(File(sha256=None if sha256 == "-" else sha256, bytes=int(size), path=path))
        except ValueError as error:
            expected = "<sha256>  <bytes>  <path>, and - for no sum"
            raise UserError(f"conf/files/{name}.txt: line {number} is not {expected}: {shown(line)}") from error
    return tuple(found)
