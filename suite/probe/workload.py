"""Steps that can be timed: of a benchmark's implementation behind the seam, or of anything else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from suite.config.models import Benchmark
from suite.errors import UserError, unknown
from suite.harness import contract
from suite.probe import fast_forward

LEARNING_RATE, MOMENTUM = 1e-4, 0.9  # of SGD, by which a library's model is trained


def check_logits(shapes: Iterable[Sequence[int | None]]) -> None:
    """Raise UserError unless a model that trains gives logits [batch, classes] alone; `shapes` are of its outputs."""
    for shape in shapes:
        if len(shape) != 2:
            raise UserError(f"a model that trains gives logits [batch, classes], and this one {list(shape)}")


def spelled(model: str | None, names: Iterable[str], library: str) -> str:
    """A model's name as its library spells it, in whatever case it is given. Raises UserError for another name."""
    known = {name.lower(): name for name in names}
    if name := known.get(str(model).lower()):
        return name
    raise unknown(f"model of {library}", str(model), known.values())


class Workload(Protocol):
    """Something that takes steps. `samples` is how many samples each step counts."""

    samples: int

    def ready(self, steps: int) -> None:
        """Make sure, off the clock, that `steps` more steps can be taken: as a rule they can."""
        return

    def run(self, steps: int) -> None:
        """Take `steps` steps; return when the device has done them."""
        ...


class Training(Workload):
    """The training steps of a benchmark's implementation; starts over where its budget ends."""

    def __init__(self, made: contract.Checked, benchmark: Benchmark) -> None:
        self.made, self.benchmark = made, benchmark
        self.initial = made.state_dict()
        self.seen = self.samples = made.train_until(1).samples

    def ready(self, steps: int) -> None:
        """See `Workload`."""
        if self.seen + steps * self.samples > self.benchmark.budget_samples:
            self.made.load_state_dict(self.initial)
            self.seen = 0
            self.run(1)

    def run(self, steps: int) -> None:
        """See `Workload`; what a run does between two evaluations."""
        self.seen = self.made.train_until(self.seen + steps * self.samples).samples

    def go_to(self, index: int) -> int | None:
        """Go on at the `index`-th place; return the samples seen there, None if it cannot or steps are alike."""
        if self.benchmark.uneven_steps is None:
            return None
        at = fast_forward.go_to(self.made, self.seen, fast_forward.place(self.benchmark, index))
        self.seen = at or self.seen
        return at


class Inference(Workload):
    """Predictions of a benchmark's untrained implementation; each step predicts the whole evaluation split."""

    def __init__(self, made: contract.Checked, data: Mapping[str, np.ndarray]) -> None:
        self.made, self.data = made, data
        self.samples = len(made.predict(data))

    def run(self, steps: int) -> None:
        """See `Workload`."""
        for _ in range(steps):
            self.made.predict(self.data)
