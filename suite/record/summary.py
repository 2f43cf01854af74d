"""What a run took, derived from its log alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import COST, ENERGY, ENVIRONMENT, RESTART
from suite.record.mllog import Line, evaluations


@dataclass(frozen=True)
class Summary:
    """A run's claims. What was not measured, or not reached, is None.

    `seconds` runs from run_start to run_stop; `cost` is in `currency`; `energy_source` is `estimated` for an estimate.
    """

    status: str | None
    reason: str | None
    quality: float | None
    samples: int | None
    seconds: float | None
    cost: float | None
    currency: str | None
    joules: float | None
    energy_source: str | None
    noise: tuple[str, ...]
    restarts: int

    @property
    def converged(self) -> bool:
        """Whether the run ended at its target."""
        return bool(self.status == keys.SUCCESS)


def summarise(lines: Sequence[Line]) -> Summary:
    """The summary of a log's lines, complete or not."""
    last: dict[str, Line] = {line.key: line for line in lines}
    noise: list[Any] = [r for line in lines if line.key == ENVIRONMENT for r in line.metadata.get("reasons", [])]
    start = next((line for line in lines if line.key == keys.RUN_START), None)
    stop, counting = last.get(keys.RUN_STOP), evaluations(lines)
    cost, energy = last.get(COST), last.get(ENERGY)
    return Summary(
        status=stop.metadata.get(keys.STATUS) if stop else None,
        reason=stop.metadata.get("reason") if stop else None,
        quality=counting[-1].value if counting else None,
        samples=stop.metadata.get(keys.SAMPLES_COUNT) if stop else None,
        seconds=(stop.time_ms - start.time_ms) / 1000 if start and stop else None,
        cost=cost.value if cost else None,
        currency=cost.metadata.get("currency") if cost else None,
        joules=energy.value if energy else None,
        energy_source=energy.metadata.get("source") if energy else None,
        noise=tuple(dict.fromkeys(str(reason) for reason in noise)),
        restarts=sum(line.key == RESTART for line in lines),
    )


def format_seconds(seconds: float | None) -> str:
    """`83.2 s`, `12 min 05 s`, `3 h 20 min`, or `not known`."""
    if seconds is None:
        return "not known"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def format_cost(cost: float | None, currency: str | None) -> str:
    """`$0.012345`, or `not known`."""
    if cost is None:
        return "not known"
    sign = "$" if currency == "USD" else f"{currency} "
    return f"{sign}{cost:.2f}" if cost >= 1 else f"{sign}{cost:.6f}"


def format_energy(joules: float | None, source: str | None) -> str:
    """`312 J (estimated)`, `4.21 kJ (nvml)`, or `not known`."""
    if joules is None:
        return "not known"
    text = f"{joules:.0f} J" if joules < 10_000 else f"{joules / 1000:.3g} kJ"
    return f"{text} ({source})"


def format_count(count: int, noun: str) -> str:
    """`1 run`, `12,345 runs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
