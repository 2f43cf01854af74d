"""What a command says when the mistake is its user's: one line and exit code 2."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Iterable
from typing import NoReturn

USER_ERROR = 2


class UserError(Exception):
    """A mistake that the user can mend; its text is the one line that the user reads."""


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
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return UserError(f"unknown {kind} {given!r}: {hint}Allowed: {', '.join(names)}.")


def printable(text: str) -> str:
    """`text` with everything escaped that a terminal or a browser would not show as one plain character."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class OneLineParser(argparse.ArgumentParser):
    """argparse, but a mistake is a UserError and so one line. `prog` is the command as its user types it."""

    def error(self, message: str) -> NoReturn:
        """Raise UserError."""
        raise UserError(f"{message}. See {self.prog} --help.")


def complain(error: Exception) -> None:
    """Print the one line that a user reads of an error, on standard error."""
    print(f"error: {printable(' '.join(str(error).split()))}", file=sys.stderr)


def command(main: Callable[[list[str]], int]) -> None:
    """Run a command's `main(argv) -> exit code` and leave the process with that code.

    A `UserError`, and what the system refuses, become one line on standard error and exit code 2; Ctrl-C becomes exit
    code 130.
    """
    try:
        code = main(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        sys.stderr.close()
        code = 141
    except (UserError, OSError) as error:
        complain(error)
        code = USER_ERROR
    sys.exit(code)
