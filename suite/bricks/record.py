"""The files of bricks, timings and keys: checked and bounded schemas, because a file may be a stranger's."""

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
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")  # in which bricks can be run

Rounds = Annotated[tuple[Annotated[float, Field(gt=0, lt=1e12)], ...], Field(max_length=MOST_ROUNDS)]


class Model(Values):
    """A model as steps: the brick of each, and the earlier steps that it comes `after`. `left_out` counts other calls.

    Where batches differ, as those of a task do, it holds the steps of several batches, one after the other; `starts`
    has the first step of each. Where steps differ along a run, `at` has the samples before each batch. `between`, the
    host's work between the calls, and `scoring`, that of an evaluation, are in no brick. Both are in units of Python's
    pace where the bricks were made (`pace`), None if not known.
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
    """What `make` writes: the bricks, and the models unless they are private."""

    format: Literal["suite.bricks"] = "suite.bricks"
    version: Literal[1] = 1
    framework: str = Field(max_length=LONGEST_TEXT)
    mode: Mode
    precision: str = Field(max_length=LONGEST_TEXT)
    granularity: int = Field(ge=1, le=MOST_CALLS)
    private: bool = False
    noisy: tuple[str, ...] = ()
    """What disturbed the machine while the host's work between the calls was timed."""
    bricks: tuple[Brick, ...] = Field(max_length=MOST_BRICKS)
    models: tuple[Model, ...] = Field(default=(), max_length=MOST_MODELS)

    @model_validator(mode="after")
    def _has(self) -> Made:
        check_places(self.models, len(self.bricks))
        return self


class Time(Values):
    """Microseconds of a brick in each round; if it was not run they are empty, and `why` says the reason.

    `hot`: its weights in the caches, as those of a small model are; `cold`: from memory, as those of a large one.
    `given` are the bytes of inputs that were made just before, `held` those of the others, such as weights.
    """

    hot: Rounds = ()
    cold: Rounds = ()
    held: int = Field(default=0, ge=0, lt=1 << 50)
    given: int = Field(default=0, ge=0, lt=1 << 50)
    why: str | None = Field(default=None, max_length=400)


class Cache(Values):
    """The largest cache of a processor: its bytes, and what it keeps of data that is read cyclically.

    `missed` has the share that comes from memory, when an eighth of the cache's size is read, two eighths, and so on.
    """

    size: int = Field(ge=1, lt=1 << 50)
    missed: tuple[Annotated[float, Field(ge=0, le=1)], ...] = Field(min_length=1, max_length=1000)

    def share(self, read: float) -> float:
        """The share of `read` bytes, read cyclically, that comes from memory."""
        return float(np.interp(8 * read / self.size, range(1, len(self.missed) + 1), self.missed))


class Timings(Values):
    """What `measure` writes: a time for each brick, the system, and the models if the bricks' file had them."""

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
    """Microseconds of a unit of Python's work; None on an accelerator, which works on meanwhile."""
    digest: str = Field(default="", max_length=LONGEST_TEXT)
    """Of the bricks; empty in older files, as in older keys."""
    seconds: float
    """The measuring, without building the bricks."""
    noisy: list[str]
    quickest: bool = False
    """Whether each brick's quickest round counts, instead of the median of all rounds."""
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
    """What the owner of private models keeps: which bricks they are made of."""

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
    return hashlib.sha256("\n".join(brick.content for brick in bricks).encode()).hexdigest()


def check_places(models: tuple[Model, ...], bricks: int) -> None:
    """Raise ValueError if a model has a brick that does not exist."""
    if any(not 0 <= each < bricks for model in models for each in model.bricks):
        raise ValueError("a model has a brick that is not there")


Record = TypeVar("Record", Made, Timings, Key)


def write(made: Made | Timings | Key, path: Path) -> None:
    """Write a file, omitting defaults except format and version. Raises UserError if it cannot be written."""
    kind = f'"format":"{made.format}","version":{made.version}'
    write_text(path, f"{made.model_dump_json(exclude_defaults=True)[:-1]},{kind}}}\n")


def read(record: type[Record], path: Path) -> Record:
    """Read the record in a file. Raises UserError if the file holds none."""
    wanted = record.model_fields["format"].default
    values = read_json(path, MAX_BYTES, wanted)
    if not isinstance(values, dict) or values.get("format") != wanted:
        said = f"it is {values['format']!r:.40}" if isinstance(values, dict) and values.get("format") else "no format"
        raise UserError(f"{path} is no {wanted}: {said}; python -m suite.bricks --help tells which command writes it")
    return config.checked(record, values, str(path))


def holds(record: type[Record], path: Path) -> bool:
    """Whether the format that a file declares is that of `record`."""
    wanted = record.model_fields["format"].default
    try:
        values = read_json(path, MAX_BYTES, wanted)
    except UserError:
        return False
    return isinstance(values, dict) and values.get("format") == wanted
