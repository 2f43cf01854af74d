"""A run's results, derived from its log alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import COST, ENERGY, ENVIRONMENT, RESTART
from suite.errors import shown
from suite.measure.energy import MIN_COVERAGE
from suite.record.mllog import Line, evaluations, run_stop, samples_of
from suite.record.parsing import number, text


@dataclass(frozen=True)
class Summary:
    """A run's claims. What was not measured, or not reached, is None.

    `seconds` runs from run_start to run_stop; `cost` is in `currency`; `energy_source` is `estimated` for an estimate.
    `joules` is for the fraction `coverage` (0 to 1) of the time, from the counters `covers`; `unmetered` says what it
    leaves out. `restarts` counts those after run_start, `aborted` the attempts that ended before it.
    """

    status: str | None = None
    reason: str | None = None
    quality: float | None = None
    samples: int | None = None
    seconds: float | None = None
    cost: float | None = None
    currency: str | None = None
    joules: float | None = None
    energy_source: str | None = None
    coverage: float | None = None
    covers: tuple[str, ...] = ()
    unmetered: str = ""
    noise: tuple[str, ...] = ()
    restarts: int = 0
    aborted: int = 0

    @property
    def partial(self) -> bool:
        """Whether the energy is that of only a part of the run's time or hardware."""
        of_time = self.coverage is not None and self.coverage < MIN_COVERAGE
        return self.joules is not None and (of_time or bool(self.unmetered))

    @property
    def converged(self) -> bool:
        """Whether the run ended at its target."""
        return bool(self.status == keys.SUCCESS)


def summarise(lines: Sequence[Line]) -> Summary:
    """Summarise a log's lines, complete or not. An untrusted log raises nothing: a value of a wrong type becomes None.

    `noise` has the reasons of each environment line that is not quiet.
    """
    first = {line.key: line for line in reversed(lines)}
    last = {line.key: line for line in lines}
    start, stop, counting = first.get(keys.RUN_START), run_stop(lines), evaluations(lines)
    nothing = Line(0, b"")  # in place of a line that is missing
    ended, cost, energy = stop or nothing, last.get(COST, nothing), last.get(ENERGY, nothing)
    restarts = [start is not None and line.number > start.number for line in lines if line.key == RESTART]
    noisy = [line for line in lines if line.key == ENVIRONMENT and line.value != "quiet"]
    return Summary(
        status=text(ended.metadata.get(keys.STATUS)),
        reason=text(ended.metadata.get("reason")),
        quality=number(counting[-1].value) if counting else None,
        samples=samples_of(ended),
        seconds=(stop.time_ms - start.time_ms) / 1000 if start and stop else None,
        cost=number(cost.value),
        currency=text(cost.metadata.get("currency")),
        joules=number(energy.value),
        energy_source=text(energy.metadata.get("source")),
        coverage=number(energy.metadata.get("coverage")),
        covers=_texts(energy.metadata.get("covers")),
        noise=tuple(dict.fromkeys(shown(_reasons(line.metadata.get("reasons"))) for line in noisy)),
        restarts=restarts.count(True),
        aborted=restarts.count(False),
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(shown(each) for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def _reasons(value: Any) -> str:
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)


def format_seconds(seconds: float | None) -> str:
    """`0.042 s`, `83.2 s`, `12 min 05 s`, `3 h 20 min`, or `not known`."""
    if seconds is None:
        return "not known"
    if 0 < seconds < 0.1:
        return f"{seconds:.2g} s"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min"


def format_cost(cost: float | None, currency: str | None) -> str:
    """`$0.012345`, `EUR 1.20`, without a currency the number alone, or `not known`."""
    if cost is None:
        return "not known"
    sign = "$" if currency == "USD" else f"{currency} " if currency else ""
    return f"{sign}{cost:.2f}" if cost >= 1 else f"{sign}{cost:.6f}"


def format_joules(joules: float) -> str:
    """`312 J`, `42.1 kJ` or `1.23 MJ`."""
    if joules < 10_000:
        return f"{joules:.0f} J"
    return f"{joules / 1e3:.3g} kJ" if joules < 999_500 else f"{joules / 1e6:,.2f} MJ"


def format_energy(joules: float | None, source: str | None, coverage: float | None = None) -> str:
    """`312 J (estimated)`, `4.21 kJ (nvml, 3 % of the time)`, or `not known`; `coverage` is the part of the time."""
    if joules is None:
        return "not known"
    text = format_joules(joules)
    part = f", {max(0.0, 100 * coverage):.0f} % of the time" if coverage is not None and coverage < MIN_COVERAGE else ""
    return f"{text} ({source}{part})"


def format_restarts(restarts: int, aborted: int) -> str:
    """`2 restarts, 1 aborted start`; empty if there was none."""
    counts = {"restart": restarts, "aborted start": aborted}
    return ", ".join(format_count(count, noun) for noun, count in counts.items() if count)


def format_count(count: int, noun: str) -> str:
    """`1 run`, `12,345 runs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
