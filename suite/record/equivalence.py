"""What a check of an implementation against the reference found, as `equivalence.json` has it."""

from __future__ import annotations

from suite.config.values import Values

FILE = "equivalence.json"
CHANCE = "-log10 of the chance"  # that draws of one distribution are so unlike: what some trials tell


class Trial(Values):
    """A trial in one numeric format. `found` may be at most `bound`; None where it was not tried, as `remark` says."""

    trial: str
    precision: str
    found: float | None
    bound: float | None
    where: str = ""
    """At which array it is farthest."""
    remark: str = ""

    @property
    def of_draws(self) -> bool:
        """Whether distributions were compared, and `found` and `bound` tell a chance."""
        return CHANCE in self.trial

    @property
    def holds(self) -> bool:
        """Whether it is within its bound, or was not tried."""
        return self.found is None or self.bound is None or self.found <= self.bound


class Comparison(Values):
    """All trials of one benchmark. With `own_draws` distributions of steps were compared, not steps."""

    benchmark: str
    own_draws: bool = False
    trials: tuple[Trial, ...]


class Equivalence(Values):
    """The comparisons of one implementation, `name`, whose files have the sum `sha256`, by the suite's version."""

    suite_version: str
    name: str
    sha256: str
    comparisons: tuple[Comparison, ...]
