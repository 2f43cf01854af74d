"""The result of checking an implementation against the reference, as stored in `equivalence.json`."""

from __future__ import annotations

from suite.config.values import Values

FILE = "equivalence.json"
CHANCE = "-log10 of the chance"  # that draws of one distribution differ this much: what some trials report


class Trial(Values):
    """A trial in one numeric format. `found` may be at most `bound`; it is None if not tried, and `remark` says why."""

    trial: str
    precision: str
    found: float | None
    bound: float | None
    where: str = ""
    """The array with the largest difference."""
    remark: str = ""

    @property
    def of_draws(self) -> bool:
        """Whether distributions were compared, so that `found` and `bound` are chances as in CHANCE."""
        return CHANCE in self.trial

    @property
    def holds(self) -> bool:
        """Whether `found` is within its bound, or was not tried."""
        return self.found is None or self.bound is None or self.found <= self.bound


class Comparison(Values):
    """All trials of one benchmark. With `own_draws`, distributions of steps were compared instead of single steps."""

    benchmark: str
    own_draws: bool = False
    trials: tuple[Trial, ...]


class Equivalence(Values):
    """The comparisons of the implementation `name`, whose files hash to `sha256`, made by this version of the suite."""

    suite_version: str
    name: str
    sha256: str
    comparisons: tuple[Comparison, ...]
