"""Code that is not the suite's: read within bounds and through no link, each file identified by its sha256."""

from __future__ import annotations

import hashlib
import io
import os
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from suite.errors import UserError, shown
from suite.store.disk import UnsafeFile, odd, read_safely, sum_or_reason, write_atomically

CODE = "implementation"  # the folder of a run's evidence, and of a package's code, that holds the files
MAX_FILES = 200
MAX_FILE_BYTES = 1 << 20
MAX_BYTES = 4 << 20  # of all files together
LIMITS = f"code is at most {MAX_FILES} files of text, {MAX_FILE_BYTES >> 20} MiB each, {MAX_BYTES >> 20} MiB in all"

# A line's end that is one to Python alone, or the other way round, and what moves a terminal's cursor or turns a text.
_HIDING = re.compile("\r(?!\n)|[\0-\x08\x0b\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_PATH = re.compile(r"(?!.{121})[A-Za-z0-9_][A-Za-z0-9_.+ -]*(/[A-Za-z0-9_][A-Za-z0-9_.+ -]*){0,9}\Z")


def is_path(name: str) -> bool:
    """Whether a file of code may lie at this path below its folder: plain characters, nothing hidden, no way out."""
    return _PATH.match(name) is not None


def sums(files: Mapping[str, bytes]) -> dict[str, str]:
    """The sha256 of each file."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def read(path: Path) -> dict[str, bytes]:
    """Read the files below the folder `path`, by their sorted paths below it, or the single file `path`, by its name.

    Hidden files and folders (a name that begins with a dot) and `__pycache__` are left out. Raises UserError for a
    link, a file that is not text, an odd name, and for more than `LIMITS`.
    """
    folder = path if path.is_dir() else path.parent
    found: dict[str, bytes] = {}
    for name, what in _names(path):
        if what:
            raise UserError(f"{folder / name} is {what}: put the file itself there")
        if not is_path(name):
            raise UserError(f"{shown(str(folder / name))}: name it in plain letters, digits, and . _ + -")
        if len(found) == MAX_FILES:
            raise UserError(f"{path} holds more than {MAX_FILES} files: {LIMITS}; name the folder that holds it alone")
        try:
            found[name] = read_safely(folder / name, MAX_FILE_BYTES)
        except UnsafeFile as error:
            raise UserError(f"{folder / name} {error}: {LIMITS}") from error
        except OSError as error:
            raise UserError(f"{folder / name} cannot be read: {error.strerror}") from error
        if problem := misread(name, found[name]):
            raise UserError(f"{folder / name} {problem}")
    if sum(map(len, found.values())) > MAX_BYTES:
        raise UserError(f"{path} holds more than {MAX_BYTES >> 20} MiB: {LIMITS}")
    return dict(sorted(found.items()))


def holds(folder: Path, path: Path) -> bool:
    """Whether `read` would take a file at `path` for one of the code in `folder`."""
    return path.is_relative_to(folder) and not any(map(_left_out, path.relative_to(folder).parts))


def sums_now(path: Path) -> dict[str, str]:
    """The sha256 of each file that `read` looks at, even if it refuses it, or why there is none.

    At most `MAX_FILES` + 1 are given. Raises UserError for a folder that cannot be read.
    """
    folder = path if path.is_dir() else path.parent
    return {
        name: what or sum_or_reason(folder / name, MAX_FILE_BYTES) for name, what in islice(_names(path), MAX_FILES + 1)
    }


def sums_below(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The sha256 of each of these files below `folder`, or why it has none or is `misread`; at most `MAX_FILES` + 1.

    The caller must give names that lead through no link.
    """
    found: dict[str, str] = {}
    for name in names:
        if (folder / name).is_dir():
            continue
        found[name] = sum_or_reason(folder / name, MAX_FILE_BYTES)
        if len(found) > MAX_FILES:
            break
    return found | misread_below(folder, found)


def misread_below(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Why each of these files below `folder` is `misread`, if it is; files that cannot be read have other checks."""
    found = {}
    for name in names:
        try:
            found[name] = misread(name, read_safely(folder / name, MAX_FILE_BYTES))
        except (UnsafeFile, OSError):
            continue
    return {name: problem for name, problem in found.items() if problem}


def misread(name: str, content: bytes) -> str:
    """Why what a person reads in a file is not what Python runs; empty if it is UTF-8 text, and so read by Python.

    A comment in the first two lines can set another encoding for Python, and in some of these a comment can hold code.
    So can one that a carriage return ends, which few readers show as the end of a line.
    """
    try:
        text = content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        mend = "weights are trained, and what is compiled is installed as a package or built by build()"
        return f"is not text (UTF-8): {LIMITS}; {mend}"
    if name.endswith(".py"):
        lines = io.BytesIO(content.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        try:
            encoding, _ = tokenize.detect_encoding(lines.readline)
            as_python = content.decode(encoding).removeprefix("\ufeff")
        except (ValueError, LookupError, SyntaxError) as error:
            return f"names an encoding that Python cannot read it in: {error}"
        if as_python != text:
            return f"names the encoding {encoding}, in which Python reads otherwise than in UTF-8"
        if hiding := _HIDING.search(text):
            line = text.count("\n", 0, hiding.start()) + 1
            return f"holds U+{ord(hiding[0]):04X} in line {line}, which can hide code from who reads it: leave it out"
    return ""


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The sorted names of files whose sums differ, or that only one of both has."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def write(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files below `folder`."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, content)


def _left_out(name: str) -> bool:
    return name.startswith(".") or name == "__pycache__"


def _names(path: Path) -> Iterator[tuple[str, str]]:
    """The path of each file below the folder `path`, or the name of the file `path`, with what is odd about it if any.

    Raises UserError for a folder that cannot be read.
    """
    if not path.is_dir():
        yield path.name, ""
        return
    folder, pending = path, [""]
    while pending:
        at = pending.pop()
        try:
            with os.scandir(folder / at) as listed:
                for entry in sorted(listed, key=lambda each: each.name):
                    name = os.path.join(at, entry.name)
                    if _left_out(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(name)
                    else:
                        yield name, odd(entry)
        except OSError as error:
            raise UserError(f"{folder / at} cannot be read: {error.strerror}") from error
