"""What recipes share: how plain values of the configuration become hyperparameters, and what seeds dropout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from suite.errors import UserError

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # coefficients of Muon's iteration (Jordan et al. 2024)
_DROPOUT_STREAM = 1_000_002  # a random stream apart from those that the tasks draw from


class Recipe:
    """A task's fixed hyperparameters, a frozen dataclass; names follow MLPerf's log keys where there is one."""

    global_batch_size: int

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From the configuration's values, lists made tuples. Raises UserError for a dropout that is not in [0, 1)."""
        for name, value in values.items():
            if name.endswith("dropout") and not 0 <= value < 1:
                raise UserError(f"hyperparameters.{name}={value}: a share that is dropped is from 0 to less than 1")
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})

    def require_multiple_of(self, name: str, what: str) -> None:
        """Raise UserError if the batch is no multiple of the hyperparameter `name`, which is the number of `what`."""
        if self.global_batch_size % getattr(self, name):
            raise UserError(
                f"hyperparameters.global_batch_size={self.global_batch_size} is no multiple of "
                f"{name}={getattr(self, name)}, {what}"
            )

    def require_longer(self, schedule: str, warm_up: str) -> None:
        """Raise UserError if the hyperparameter `schedule` is not more than `warm_up`, after which rates fall."""
        if getattr(self, schedule) <= getattr(self, warm_up):
            raise UserError(
                f"hyperparameters.{schedule}={getattr(self, schedule)} is not more than "
                f"{warm_up}={getattr(self, warm_up)}: take a longer schedule or a shorter warm-up"
            )


def dropout_seed(seed: int, step: int, rank: int = 0) -> int:
    """The seed, of 63 bits, of a worker's dropout in one step of the run of `seed`.

    A checkpoint then needs no random state.
    """
    entropy = [seed, _DROPOUT_STREAM, step, *([rank] if rank else [])]
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0]) >> 1
