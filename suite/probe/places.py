"""Later places of a run, without the training before them: the counters of a state are moved on.

What a step takes depends on where in a run it is, through the schedule and the shapes of its samples, and not on what
was learnt until then.
"""

from __future__ import annotations

import numpy as np

from suite.config.models import Benchmark
from suite.harness.contract import Checked
from suite.record.states import State

PLACES = 8
_STRIDE = 3  # so that the first few are spread already


def place(benchmark: Benchmark, index: int) -> int:
    """The `index`-th place, in samples: the middles of `PLACES` equal parts of the budget, and again from the first."""
    return int(benchmark.budget_samples * (index * _STRIDE % PLACES + 0.5) / PLACES)


def go_to(made: Checked, seen: int, samples: int) -> int | None:
    """Go on at `samples`, or less than a step before, after `seen`; how many it has then seen.

    None, and it goes on after `seen`, if its state has no counter that tells where it is.
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
    """The names of the whole numbers of a state that went up by one from one state to the other."""
    numbers = (name for name, array in after.items() if array.ndim == 0 and array.dtype.kind in "iu")
    return [name for name in numbers if name in before and np.array_equal(before[name], after[name] - 1)]
