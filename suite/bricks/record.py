"""The files of bricks, timings and keys: schemas that are checked and bounded, for they may be a stranger's."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import Field, model_validator

from suite import config
from suite.bricks.arguments import LONGEST_TEXT, MOST_CALLS
from suite.bricks.brick import Brick
from suite.config.values import Values
from suite.errors import UserError
from suite.probe.record import Conditions, Mode
from suite.store.disk import read_json, write_text

MAX_BYTES = 256 << 20
MOST_BRICKS, MOST_MODELS, MOST_STEPS = 200_000, 1000, 1_000_000
MOST_ROUNDS = 1000
COLD = 4  # one round in so many is taken with cold weights as well
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")  # that bricks can be run in

Rounds = Annotated[tuple[Annotated[float, Field(gt=0, lt=1e12)], ...], Field(max_length=MOST_ROUNDS)]


class Model(Values):
    """A model as its bricks: which, and after which others of its steps each comes; `left_out` counts what has none.

    Where batches differ, as those of a task do, it holds the steps of some, one batch after the other, each from one of
    `starts` on; where steps differ along a run, `at` is how many samples came before each. `between` is what lies in no
    brick, the host's work from call to call, and `scoring` what it takes to score an evaluation: each in units of
    Python's pace where the bricks were made (`pace`), None if not known.
    """

    conditions: Conditions
    bricks: tuple[int, ...] = Field(max_length=MOST_STEPS)
    after: tuple[tuple[int, ...], ...] = Field(max_length=MOST_STEPS)
    starts: tuple[int, ...] = Field(default=(0,), min_length=1, max_length=1000)
    at: tuple[Annotated[int, Field(ge=0, lt=1 << 63)], ...] = ()
    calls: int = Field(ge=0)
    left_out: dict[str, int] = Field(default_factory=dict, max_length=10_000)
    between: float | None = Field(default=None, ge=0, lt=1e15)
    scoring: float | None = Field(default=None, ge=0, lt=1e15)

    @model_validator(mode="after")
    def _ordered(self) -> Model:
        if len(self.bricks) != len(self.after):
            raise ValueError("as many steps as places")
        if self.starts[0] != 0 or any(end < start for start, end in pairwise((*self.starts, len(self.bricks)))):
            raise ValueError("batches start at step 0, one after the other, and not past the last step")
        if self.at and len(self.at) != len(self.starts):
            raise ValueError("as many places of a run as batches")
        if any(before >= at or before < 0 for at, them in enumerate(self.after) for before in them):
            raise ValueError("a step comes after one that is not before it")
        return self


class Made(Values):
    """What `make` writes: bricks, and where the models are not private those too."""

    format: Literal["suite.bricks"] = "suite.bricks"
    version: Literal[1] = 1
    framework: str = Field(max_length=LONGEST_TEXT)
    mode: Mode
    precision: str = Field(max_length=LONGEST_TEXT)
    granularity: int = Field(ge=1, le=MOST_CALLS)
    private: bool = False
    noisy: tuple[str, ...] = ()
    """What disturbed the machine while it was timed what the host does between the calls."""
    bricks: tuple[Brick, ...] = Field(max_length=MOST_BRICKS)
    models: tuple[Model, ...] = Field(default=(), max_length=MOST_MODELS)

    @model_validator(mode="after")
    def _has(self) -> Made:
        check_places(self.models, len(self.bricks))
        return self


class Time(Values):
    """Microseconds of a brick, each time that it was run; empty where it was not, and `why`.

    `hot`: its weights in the caches, as those of a small model are; `cold`: from memory, as those of a large one.
    `held` are the bytes of these weights, and of whatever else it is given that was not just made; `given` of what was.
    """

    hot: Rounds = ()
    cold: Rounds = ()
    held: int = Field(default=0, ge=0, lt=1 << 50)
    given: int = Field(default=0, ge=0, lt=1 << 50)
    why: str | None = Field(default=None, max_length=400)


class Cache(Values):
    """The largest cache of a processor: its bytes, and what it keeps of memory that is read in turn again and again.

    `missed` is the part that comes from memory after all, where an eighth as much as the cache's bytes is read, two
    eighths, and so on.
    """

    size: int = Field(ge=1, lt=1 << 50)
    missed: tuple[Annotated[float, Field(ge=0, le=1)], ...] = Field(min_length=1, max_length=1000)

    def share(self, read: float) -> float:
        """The part of so many bytes, read in turn again and again, that comes from memory."""
        return float(np.interp(8 * read / self.size, range(1, len(self.missed) + 1), self.missed))


class Timings(Values):
    """What `measure` writes: a time for each brick, on which system, and the models where the bricks had them."""

    format: Literal["suite.timings"] = "suite.timings"
    version: Literal[2] = 2
    suite_version: str = Field(max_length=LONGEST_TEXT)
    date: str = Field(max_length=LONGEST_TEXT)
    system: str = Field(max_length=LONGEST_TEXT)
    machine: dict[str, Any]
    software: dict[str, str]
    threads: str | None = Field(default=None, max_length=LONGEST_TEXT)
    framework: str = Field(max_length=LONGEST_TEXT)
    mode: Mode
    precision: str = Field(max_length=LONGEST_TEXT)
    cache: Cache
    pace: float | None = Field(default=None, gt=0, lt=1e9)
    """Microseconds of a unit of Python's work; None where a device works on meanwhile."""
    digest: str = Field(default="", max_length=LONGEST_TEXT)
    """Of the bricks; empty in files from before it was kept, as in keys."""
    seconds: float
    """That the measuring took, without the building."""
    noisy: list[str]
    quickest: bool = False
    """Whether the quickest round of each brick counts, and not the median of all rounds."""
    times: tuple[Time, ...] = Field(max_length=MOST_BRICKS)
    models: tuple[Model, ...] = Field(default=(), max_length=MOST_MODELS)

    @model_validator(mode="after")
    def _has(self) -> Timings:
        check_places(self.models, len(self.times))
        for name in ("hot", "cold"):
            if len({len(found) for each in self.times if (found := getattr(each, name))}) > 1:
                raise ValueError(f"as many rounds of {name} of every brick")
        return self


class Key(Values):
    """What the owner of private models keeps: of which bricks they are made."""

    format: Literal["suite.bricks.key"] = "suite.bricks.key"
    version: Literal[1] = 1
    bricks: int = Field(ge=0, le=MOST_BRICKS)
    decoys: int = Field(ge=0)
    digest: str = Field(default="", max_length=LONGEST_TEXT)
    models: tuple[Model, ...] = Field(max_length=MOST_MODELS)

    @model_validator(mode="after")
    def _has(self) -> Key:
        check_places(self.models, self.bricks)
        return self


def digest(bricks: Sequence[Brick]) -> str:
    """The sha256 of bricks in their order."""
    text = "\n".join(brick.model_dump_json(exclude_defaults=True) for brick in bricks)
    return hashlib.sha256(text.encode()).hexdigest()


def check_places(models: tuple[Model, ...], bricks: int) -> None:
    """Raise ValueError for a model of bricks that are not there."""
    if any(not 0 <= each < bricks for model in models for each in model.bricks):
        raise ValueError("a model has a brick that is not there")


Record = TypeVar("Record", Made, Timings, Key)


def write(made: Made | Timings | Key, path: Path) -> None:
    """Write a file; what has its default is left out, but for format and version. Raises UserError if it cannot be."""
    kind = f'"format":"{made.format}","version":{made.version}'
    write_text(path, f"{made.model_dump_json(exclude_defaults=True)[:-1]},{kind}}}\n")


def read(record: type[Record], path: Path) -> Record:
    """The record of a file. Raises UserError for what is none."""
    wanted = record.model_fields["format"].default
    values = read_json(path, MAX_BYTES, wanted)
    if not isinstance(values, dict) or values.get("format") != wanted:
        said = f"it is {values['format']!r:.40}" if isinstance(values, dict) and values.get("format") else "no format"
        raise UserError(f"{path} is no {wanted}: {said}; python -m suite.bricks --help tells which command writes it")
    return config.checked(record, values, str(path))


def holds(record: type[Record], path: Path) -> bool:
    """Whether a file says of itself that it is such a record."""
    wanted = record.model_fields["format"].default
    try:
        values = read_json(path, MAX_BYTES, wanted)
    except UserError:
        return False
    return isinstance(values, dict) and values.get("format") == wanted
