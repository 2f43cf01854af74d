"""Go to later places of a run, without the training before them, by moving the counters of a state on.

How long a step takes depends on its place in the run, through the schedule and the shapes of its samples, and not on
what was learnt until then.
"""

from __future__ import annotations

import numpy as np

from suite.config.models import Benchmark
from suite.harness.contract import Checked
from suite.record.states import State

PLACES = 8
_STRIDE = 3  # so that the first few are spread already


def place(benchmark: Benchmark, index: int) -> int:
    """The `index`-th place, in samples: the middle of one of PLACES equal parts of the budget, wrapping around."""
    return int(benchmark.budget_samples * (index * _STRIDE % PLACES + 0.5) / PLACES)


def go_to(made: Checked, seen: int, samples: int) -> int | None:
    """Move from `seen` samples on to `samples`, or less than a step before; return how many are then seen.

    Return None, and go on after `seen`, if the state has no counter that tells its place.
    """
    before = made.state_dict()
    reached = made.train_until(seen + 1).samples
    after, size = made.state_dict(), reached - seen
    step = max(samples // size - 1, 0)
    moved = {name: np.asarray(step, after[name].dtype) for name in _counters(before, after)}
    made.load_state_dict({**after, **moved})
    at = made.train_until(1).samples
    if at == step * size:  # it takes no step where none is needed
        at = made.train_until(at + 1).samples
    if at == (step + 1) * size:
        return at
    made.load_state_dict(before)
    return None


def _counters(before: State, after: State) -> list[str]:
    """The names of the whole numbers in a state that rose by one from `before` to `after`."""
    numbers = (name for name, array in after.items() if array.ndim == 0 and array.dtype.kind in "iu")
    return [name for name in numbers if name in before and np.array_equal(before[name], after[name] - 1)]
