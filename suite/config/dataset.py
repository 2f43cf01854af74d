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
from suite.errors import UserError, one_of, shown


class File(Values):
    """One file of a dataset, and the address from which it can be downloaded by itself, if there is one."""

    path: str
    """Its path in the data folder."""
    bytes: int
    """Its size in bytes."""
    sha256: str | None = None
    """The sha256 of its content. Left out if the file was never read here: then the one that the server reports, if
    any, is taken, and the log of a run records the one that was found."""
    url: str | None = None
    """The address from which it can be downloaded by itself."""


class Remote(File):
    """A file that can be downloaded."""

    url: str
    """The address from which it can be downloaded."""


class Mirror(Values):
    """Where a dataset's files can be downloaded one by one: at `url` + the path without its prefix `below`."""

    url: str
    """The beginning of the addresses."""
    below: str
    """The prefix of the paths that the addresses do not contain."""


class Shards(Values):
    """An array that is too large for one file, or for memory: shards of one form, each of them memory-mapped.

    Each shard is an array of its own, named by the array's name, `_` and a number of four digits from 0.
    """

    files: str
    """The prefix of the paths of its files, which are ordered by path."""
    dtype: str
    """numpy's name of the elements' type."""
    offset: int = Field(default=0, ge=0)
    """The number of bytes before the first element of each file."""
    magic: int | None = None
    """The int32, little-endian, that each file begins with. Left out if there is none."""
    samples_are: Literal["elements", "told"] = "elements"
    """`elements` if each element is a sample; `told` if other arrays say which elements form one, as with the bytes of
    pictures: then the number of samples in a part is not known before it is read."""

    def samples(self, file: File) -> int:
        """How many elements a file holds, each a sample."""
        return (file.bytes - self.offset) // np.dtype(self.dtype).itemsize


class Dataset(Values):
    """Where a benchmark's data comes from and what it must be.

    `arrays` gives the sha256 of each prepared array (dtype, shape and bytes, see `suite.store.arrays`): only this
    content counts, whatever the files around it look like. `files` is empty when the data is embedded, or when users
    have it in several forms; a name stands for the files listed in `conf/files/<name>.txt`. `archive` unpacks to the
    files, in the data folder. The `made` files are read in place of the others, from which `tasks.<task>.shards` makes
    them; if that has a function `bring`, it finds the form in which a user has the others.
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
    """The number of examples in the training split, one epoch. Left out if training makes its own data."""
    eval_samples: int = 0
    """The number of examples in the evaluation split. Left out until a check has printed it."""
    files: tuple[File, ...] | str = ()
    """The files, or NAME for those listed in `conf/files/NAME.txt`. Left out if the data is embedded, or if users have
    it in several forms."""
    archive: Remote | None = None
    """An archive that unpacks to the files, in the data folder."""
    mirror: Mirror | None = None
    """Where the files can be downloaded one by one."""
    made: tuple[File, ...] | str | None = None
    """The files, or NAME for those listed in `conf/files/NAME.txt`, that the task makes from the others, untimed."""
    shards: dict[str, Shards] | None = None
    """The arrays, by name, that are mapped from the files as they are."""
    subset: float | None = Field(default=None, gt=0, lt=1)
    """Not to be given: the share of the shards that a pilot takes, set by the option `subset=`."""
    arrays: dict[str, str | None] = Field(default_factory=dict)
    """The sha256 of each array that `prepare` returns, null if it was never made here. Left out until a check,
    `python -m suite.check task=TASK`, has printed them."""

    @property
    def members(self) -> tuple[File, ...]:
        """The files that a run reads, from `conf/files/` where only a name is given."""
        files = self.files if self.made is None else self.made
        return listed(files) if isinstance(files, str) else files

    @property
    def source_files(self) -> Dataset:
        """The dataset with only the files that come from elsewhere, none that is made from them."""
        return self.model_copy(update={"made": None})

    @property
    def in_forms(self) -> str:
        """What the files are made of, if users have their source in several forms that the task knows; else empty."""
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
        """The dataset with only the first `share` of each sharded training array, at least one shard.

        Raises UserError if no training array is sharded.
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

    Raises UserError if there is no such file, and for a line of any other form.
    """
    lists = {path.stem: path for path in (folder.CONF / "files").glob("*.txt")}
    one_of("list of conf/files", name, lists)
    found = []
    for number, line in enumerate(lists[name].read_text().splitlines(), 1):
        try:
            sha256, size, path = line.split()
            found.append(File(sha256=None if sha256 == "-" else sha256, bytes=int(size), path=path))
        except ValueError as error:
            expected = "<sha256>  <bytes>  <path>, and - for no sum"
            raise UserError(f"conf/files/{name}.txt: line {number} is not {expected}: {shown(line)}") from error
    return tuple(found)
