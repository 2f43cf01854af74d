"""The record of which promises hold, and of what was found where one does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from suite.errors import BrokenContract, UserError, promised
from suite.store.authors import place

Status = Literal["pass", "fail", "skipped"]
Made = TypeVar("Made")


class Broken(Exception):
    """A promise is not kept: `found` says what was found, `mend` what to do about it, if that is known."""

    def __init__(self, found: str, mend: str = "") -> None:
        super().__init__(found)
        self.found, self.mend = found, mend


class Skip(Exception):
    """A promise cannot be tried here; the text says why."""


@dataclass(frozen=True)
class Row:
    """One promise of a benchmark, or of its implementation in `framework` (empty for the benchmark's own promises).

    `promise` says what is expected. `found`, `contract` and `mend` are set if it is not kept. If it was skipped,
    `found` says why.
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
        """A ledger for the promises of an implementation in `framework`, which shares these rows."""
        return Ledger(self.benchmark, framework, self.rows)

    def hold(self, promise: str, contract: object, trial: Callable[[], object]) -> bool:
        """Record whether `trial` returns, or else what it raises. Return whether it returned."""
        return self.made(promise, contract, lambda: (trial(),)) is not None

    def made(self, promise: str, contract: object, trial: Callable[[], Made]) -> Made | None:
        """Like `hold`, but return what `trial` returned, None if it raised."""
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
        """Record that `promise` was not tried."""
        self.rows.append(Row(self.benchmark, self.framework, promise, "skipped", reason))
