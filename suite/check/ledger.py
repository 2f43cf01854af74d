"""Which promises were held, and what was found where one was not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from suite.errors import BrokenContract, UserError, promised
from suite.harness.contract import place

Status = Literal["pass", "fail", "skipped"]
Made = TypeVar("Made")


class Broken(Exception):
    """A promise is not kept: what was `found`, and what to do about it, if that can be said."""

    def __init__(self, found: str, mend: str = "") -> None:
        super().__init__(found)
        self.found, self.mend = found, mend


class Skip(Exception):
    """A promise cannot be tried here; the text says why."""


@dataclass(frozen=True)
class Row:
    """One promise, of a benchmark or of its implementation in a framework (empty if of none).

    `promise` says what is expected; `found`, `contract` and `mend` stand where it is not kept, and `found` says why it
    was skipped.
    """

    benchmark: str
    framework: str
    promise: str
    status: Status
    found: str = ""
    contract: str = ""
    mend: str = ""


@dataclass
class Ledger:
    """The rows of one benchmark, in the order in which its promises were tried."""

    benchmark: str
    framework: str = ""
    rows: list[Row] = field(default_factory=list)

    def under(self, framework: str) -> Ledger:
        """The same ledger for the promises of an implementation in `framework`."""
        return Ledger(self.benchmark, framework, self.rows)

    def hold(self, promise: str, contract: object, trial: Callable[[], object]) -> bool:
        """Note whether `trial` returns, and say so; whatever it raises is what was found."""
        return self.made(promise, contract, lambda: (trial(),)) is not None

    def made(self, promise: str, contract: object, trial: Callable[[], Made]) -> Made | None:
        """Note whether `trial` returns; what it returned, None where it raised what was found."""
        asked = promised(contract)
        try:
            made = trial()
        except Skip as reason:
            self.skip(promise, str(reason))
            return None
        except Broken as error:
            found, mend = error.found, error.mend
        except BrokenContract as error:
            found, mend, asked = error.found, "", error.contract
        except UserError as error:
            found, mend = str(error), ""
        except (Exception, SystemExit) as error:  # the author's code may raise anything
            found, mend = f"{type(error).__name__} at {place(error)}: {error}", ""
        else:
            self.rows.append(Row(self.benchmark, self.framework, promise, "pass"))
            return made
        self.rows.append(Row(self.benchmark, self.framework, promise, "fail", found, asked, mend))
        return None

    def skip(self, promise: str, reason: str) -> None:
        """Note that `promise` was not tried."""
        self.rows.append(Row(self.benchmark, self.framework, promise, "skipped", reason))
