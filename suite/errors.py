"""How commands parse their options and report a user's mistake: in one line, with exit code 2."""

from __future__ import annotations

import argparse
import ast
import difflib
import faulthandler
import getpass
import inspect
import io
import json
import math
import os
import resource
import signal
import sys
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

LOST = 1
USER_ERROR = 2
STANDARD_ERROR = 2  # its file descriptor
OPEN_FILES = 8_192  # no more than any system takes
BY_SIGNAL = 128  # plus the signal's number: the exit code of a command that a signal ended, as in shells
_MAX_SHOWN = 200  # characters
_MAX_PATH = 4096  # bytes, of any path in Linux


class UserError(Exception):
    """A mistake that the user can mend; its text is the one line that the user reads."""


class WorkerLost(Exception):
    """One of several workers ended, hung, or parted from the others; its text is the one line that the user reads."""


class Stopped(KeyboardInterrupt):
    """A signal ended the command: `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class BrokenContract(UserError):
    """A task or an implementation does not do what the suite asks of it: its author's mistake.

    `found` says what it does; `contract` is the protocol, or the function of one, whose docstring says what was asked.
    """

    def __init__(self, found: str, contract: object) -> None:
        self.found, self.contract = found, promised(contract)
        super().__init__(f"{found}. The contract: {self.contract}")


def promised(contract: object) -> str:
    """A contract in one line: its signature if it is a function, and the first paragraph of its docstring."""
    text = " ".join((inspect.getdoc(contract) or "").split("\n\n")[0].split())
    if not inspect.isfunction(contract):
        return f"{contract.__name__}: {text}" if isinstance(contract, type) else text
    parameters = ", ".join(name for name in inspect.signature(contract).parameters if name != "self")
    return f"{contract.__name__}({parameters}): {text}"


class BadPrediction(ValueError):
    """A stored prediction that cannot be scored.

    `line` counts from 1 and is the line of `predictions.jsonl`; 0 when no single line is at fault.
    """

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


def unknown(kind: str, given: str, allowed: Iterable[str]) -> UserError:
    """The error for a name that is not one of `allowed`: says what was given, what is allowed, and the nearest."""
    names = sorted(allowed)
    near = difflib.get_close_matches(given, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return UserError(f"unknown {kind} {given!r}: {hint}Allowed: {', '.join(names)}.")


def one_of(kind: str, given: str, allowed: Collection[str]) -> str:
    """Return `given`. Raises the error of `unknown` if it is not one of `allowed`."""
    if given not in allowed:
        raise unknown(kind, given, allowed)
    return given


def without_value(name: str) -> UserError:
    """The error for an option that is written without a value, such as `name=`."""
    return UserError(f"{name}= has no value: give one, or leave it out")


def printable(text: str) -> str:
    """`text` with everything escaped that a terminal or a browser would not show as one plain character."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shown(value: Any, most: int = _MAX_SHOWN) -> str:
    """`value` in one line, cut after `most` characters and made `printable`: text as it is, everything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return printable(text if len(text) <= most else text[:most] + "...")


def shown_path(path: str) -> str:
    """A path as `shown`, but whole, so that two that differ can be told apart."""
    return shown(path, _MAX_PATH)


def headline(path: Path) -> str:
    """The first line of a module's docstring, for --help; from its source, because `python -OO` drops docstrings."""
    return (ast.get_docstring(ast.parse(path.read_bytes())) or "").partition("\n")[0]


class OneLineParser(argparse.ArgumentParser):
    """argparse, but a mistake is a UserError and so one line. `prog` is the command as its user types it."""

    def __init__(self, prog: str, description: str | None = None, epilog: str | None = None) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(prog, None, description, epilog, formatter_class=layout, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise UserError."""
        raise UserError(f"{message}. See {self.prog} --help.")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, for all its ways to parse. Raises UserError for an empty word, and for `--name=`."""
        words = sys.argv[1:] if args is None else args
        for before, word in zip(("the command", *words), words, strict=False):
            if not word:
                raise UserError(f"an empty word follows {shown(before)}: give a value, or leave it out")
            if word.startswith("--") and word.find("=") == len(word) - 1:
                raise without_value(word[:-1])
        return super().parse_known_args(args, namespace)

    def add_words(self, metavar: str, meaning: str, nargs: str | int = "+") -> None:
        """Accept `words`, which are `nargs` words and options written name=value."""
        self.add_argument("words", nargs=nargs, action="extend", metavar=metavar, help=meaning)
        self.add_argument(
            "words", nargs="*", action="extend", default=[], metavar="OPTION=VALUE", help="such as data_dir=FOLDER"
        )

    def parse_words(self, argv: list[str], also: Iterable[str] = ()) -> argparse.Namespace:
        """Parse `argv`. Words that are written name=value go to `options`, and data_dir= to `data_dir`.

        Raises UserError for a mistake, and for a name that is neither data_dir nor one of `also`.
        """
        args = self.parse_intermixed_args(argv)
        args.options, args.words = split_options(args.words, ("data_dir", *also))
        args.data_dir = args.options.pop("data_dir", None)
        return args


def split_options(words: Iterable[str], allowed: Collection[str]) -> tuple[dict[str, str], list[str]]:
    """Split words into options (name=value), by name, and others, such as the path of a file with a `=` in its name.

    A `~/` at the beginning of a value becomes the user's home folder, which not every shell does.

    Raises UserError for an empty word, and for a name that is not one of `allowed`, is given twice, or has no value.
    """
    options: dict[str, str] = {}
    others = []
    for word in words:
        name, equals, value = word.partition("=")
        if not word:
            raise UserError("an empty word names nothing: give a value, or leave it out")
        if not equals or (name not in allowed and os.path.exists(word)):
            others.append(word)
        elif name not in allowed:
            raise unknown("option", name, allowed)
        elif name in options:
            raise UserError(f"{name}= is given twice")
        elif not value:
            raise without_value(name)
        else:
            options[name] = os.path.expanduser(value) if value.startswith("~/") else value
    return options, others


def only_options(words: Iterable[str], allowed: Collection[str], example: str) -> dict[str, str]:
    """The options of `split_options`. Raises UserError for a word that is none, with an `example` of one."""
    options, others = split_options(words, allowed)
    if others:
        raise UserError(f"{others[0]!r} is not of the form option=value; for example {example}")
    return options


def whole(name: str, text: str, most: int = 999_999_999) -> int:
    """The option's value as a whole number from 1 to `most`. Raises UserError for another text."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and 0 < int(text) <= most):
        raise UserError(f"{name}={text} is not a whole number from 1 to {most:,}")
    return int(text)


def positive(name: str, text: str, unit: str = "") -> float:
    """The option's value as a number above 0, in `unit` if that is given. Raises UserError for another text."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1e12:
        raise UserError(f"{name}={text} is not a number above 0" + (f", in {unit}" if unit else ""))
    return value


def truth(name: str, text: str) -> bool:
    """The option's value as true or false. Raises UserError for another text."""
    if text not in ("true", "false"):
        raise UserError(f"{name}={text} is neither true nor false")
    return text == "true"


def said(error: Exception) -> str:
    """What an error says; for Python's own MemoryError, which says nothing, what it means."""
    return str(error) or "the memory is not enough"


def complain(error: Exception) -> None:
    """Print the one line that a user reads of an error, on standard error."""
    warn(f"error: {printable(' '.join(said(error).split()))}\n")


def warn(text: str) -> None:
    """Write to standard error, if it can be written: the disk may be full, or the terminal gone."""
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()


def command(main: Callable[[list[str]], int]) -> None:
    """Run a command's `main(argv) -> exit code` and leave the process with that code.

    A `UserError` or `OSError` becomes one line on standard error and exit code 2, and so does want of memory, except in
    an author's code, where a run adds a note; `WorkerLost` becomes one line and exit code 1. Ctrl-C becomes exit code
    130, SIGTERM during a run 143, a closed pipe 141. Characters that the output's encoding lacks are escaped. If
    compiled code crashes, standard error shows the lines of Python that were running.
    """
    _complete()
    _allow_files()
    faulthandler.enable(STANDARD_ERROR)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = main(sys.argv[1:])
    except Stopped as stopped:
        code = BY_SIGNAL + stopped.number
    except KeyboardInterrupt:
        code = BY_SIGNAL + signal.SIGINT
    except BrokenPipeError:
        sys.stderr.close()
        code = 141
    except (UserError, OSError, MemoryError) as error:
        if isinstance(error, MemoryError) and hasattr(error, "__notes__"):
            raise
        complain(error)
        code = USER_ERROR
    except WorkerLost as error:
        complain(error)
        code = LOST
    sys.exit(code)


def _allow_files() -> None:
    """Raise the process's limit of open files: a shard that is mapped and read holds two."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if most == resource.RLIM_INFINITY else min(OPEN_FILES, most)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        with suppress(OSError, ValueError):  # a system may have a limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _complete() -> None:
    """Provide what libraries take for granted, if the process began without: standard files, a user's name, a width."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:  # else the first file that is opened would take its place, and receive what is printed
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            mode = "w" if descriptor else "r"
            setattr(sys, name, os.fdopen(descriptor, mode, errors="backslashreplace", closefd=False))
    try:
        getpass.getuser()
    except (OSError, KeyError):  # in a container that runs as a number without a name
        os.environ["USER"] = f"uid{os.getuid()}"
    if os.environ.get("COLUMNS") == "0":  # as some terminals begin; rich would print nothing
        del os.environ["COLUMNS"]
