"""Training states as files without pickle, and the hash that identifies a state. Audits resume from them.

A run logs the hash of its initial state and of the state at each evaluation; with `checkpoints=keep` it keeps the
latter in the folder `states` of its evidence. Logging such hashes and training again from one state to the next is
proof-of-learning (Jia et al. 2021, IEEE S&P, "Proof-of-Learning: Definitions and Practice").
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import struct
import tokenize
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from suite.store import disk
from suite.store.task import KINDS

STATES = "states"  # the folder of a run's evidence
SMALL = 64 << 20  # bytes: a result's states that are smaller in total go into its submission
AVERAGE = "average/"  # before the name of a weight: its average over steps, which predictions come from
LONGEST_NAME = 200  # characters of an array's name in a state

_NAME = re.compile(rf"{STATES}/(0|[1-9][0-9]{{0,17}})\.npz\Z")
_SAMPLES, _PREFIX, _SUFFIX = "samples", "state/", ".npy"
_MAX_ARRAYS = 100_000
_MAX_HEADER = 10_000  # bytes, of an array

State = dict[str, np.ndarray]


def kept(folder: Path) -> list[Path]:
    """The states that runs in `folder` or below it kept, ordered by run and then by samples."""
    found = folder.glob(f"**/{STATES}/*.npz")
    return sorted(found, key=lambda path: (path.parent, len(path.name), path.name))


def weights(state: Mapping[str, np.ndarray]) -> set[str]:
    """The names of the weights: floating-point arrays except the optimizer's moments, which are named MOMENT/WEIGHT.

    Nor are averages of weights (AVERAGE), nor activations that a model carries to the next step, named carry/NAME.
    """
    return {
        name
        for name, array in state.items()
        if array.ndim and array.dtype.kind == "f"
        if name.partition("/")[2] not in state and not name.startswith("carry/")
    }


class BadState(ValueError):
    """A file that is not a state as `write` makes it."""


def state_sha256(state: Mapping[str, np.ndarray]) -> str:
    """The hash of a state: sha256 over its arrays in the order of their names.

    Hashed of each array are the name and the `dtype.str`, each as UTF-8 after its length; the number of dimensions and
    each of them; and the elements' bytes in C order. Lengths and dimensions are unsigned 64-bit little-endian numbers.
    """
    found = hashlib.sha256()
    for name in sorted(state):
        array = state[name]
        for text in (name.encode(), array.dtype.str.encode()):
            found.update(struct.pack("<Q", len(text)) + text)
        found.update(struct.pack(f"<{1 + array.ndim}Q", array.ndim, *array.shape))
        if array.nbytes:
            found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def path_of(folder: Path, samples: int) -> Path:
    """Where the evidence in `folder` keeps the state after `samples` samples."""
    return folder / STATES / f"{samples}.npz"


def is_kept(path: str) -> bool:
    """Whether `path`, relative to a run's evidence, is that of a kept state, or of their folder."""
    return path == STATES or _NAME.match(path) is not None


def write(path: Path, state: Mapping[str, np.ndarray], samples: int) -> None:
    """Write a state to `path`. A kill or power cut during this leaves what was there before.

    Raises OSError if it cannot be written; no partial file is left then, least of all on a full disk.
    """
    arrays = {f"{_PREFIX}{name}": array for name, array in state.items()}
    with disk.replacing(path) as part, part.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays, **{_SAMPLES: np.array(samples)})


def read(path: Path) -> tuple[State, int]:
    """The state in a file, and the samples after which it was taken. Raises BadState, OSError."""
    with path.open("rb") as file:
        return _read(file)


def read_safely(path: Path, limit: int) -> tuple[State, int]:
    """The state in a file that may be untrusted: nothing in it is executed or decompressed.

    Raises BadState also for what is not a plain file, or has more than `limit` bytes; OSError.
    """
    try:
        with disk.open_safely(path, limit) as file:
            return _read(file)
    except disk.UnsafeFile as error:
        raise BadState(str(error)) from error


def _read(file: BinaryIO) -> tuple[State, int]:
    """See `read`. Raises BadState for a file that `write` did not make."""
    size = os.fstat(file.fileno()).st_size
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > _MAX_ARRAYS or sum(each.file_size for each in members) > size:
                raise BadState(f"more than {_MAX_ARRAYS} arrays, or arrays of more than the file")
            arrays = dict(_array(archive, each) for each in members)
    # NotImplementedError, RuntimeError and UnicodeError are zipfile's: unknown compression, encryption, a name
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, UnicodeError) as error:
        raise BadState(str(error) or type(error).__name__) from error
    samples = arrays.pop(_SAMPLES, None)
    if samples is None or samples.shape or samples.dtype.kind not in "iu" or samples < 0:
        raise BadState("no number of samples")
    if len(arrays) + 1 < len(members) or not all(name.startswith(_PREFIX) for name in arrays):
        raise BadState("an array that is no part of a state")
    return {name.removeprefix(_PREFIX): array for name, array in arrays.items()}, int(samples)


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[str, np.ndarray]:
    """Name and content of an uncompressed .npy member. Raises BadState if its header does not fit its size."""
    name = member.filename
    if member.compress_type != zipfile.ZIP_STORED or not name.endswith(_SUFFIX) or len(name) > LONGEST_NAME + 20:
        raise BadState(f"{name!r:.100} is no array that was stored as it is")
    content = io.BytesIO(archive.read(member))
    try:
        first = np.lib.format.read_magic(content) == (1, 0)
        read_header = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read_header(content, max_header_size=_MAX_HEADER)
        if dtype.kind not in KINDS:
            raise BadState(f"{name!r:.100} is of dtype {dtype}")
        elements = np.frombuffer(content.getbuffer()[content.tell() :], dtype)
        array = elements.reshape(shape, order="F" if fortran else "C").copy()
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError) as error:
        raise error if isinstance(error, BadState) else BadState(f"{name!r:.100}: {error}") from error
    return name.removesuffix(_SUFFIX), array
