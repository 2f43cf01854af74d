"""How the plain values of the configuration become a task's hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # coefficients of Muon's iteration (Jordan et al. 2024)


class Recipe:
    """A task's fixed hyperparameters, a frozen dataclass; names follow MLPerf's log keys where there is one."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From the plain values of the configuration, lists made tuples."""
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})
