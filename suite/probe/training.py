"""Train models through the seam, as a run trains them, and score their predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from suite.errors import BadPrediction, UserError
from suite.probe.record import one_line
from suite.probe.subject import Inside, Subject
from suite.record import states
from suite.record.evidence import CONFIG
from suite.record.parsing import yaml_mapping
from suite.record.states import State
from suite.store.disk import read_safely
from suite.store.task import score


@dataclass(frozen=True)
class Trained:
    """A state after `samples` samples, and its quality; None if its predictions cannot be scored."""

    state: State
    samples: int
    quality: float | None


def train(subject: Subject, seed: int) -> Trained:
    """Train with a seed for the condition `samples`, else to the target or the end of the budget, as a run does.

    Raises UserError for more samples than the budget has, and for the condition `size`.
    """
    inside, wanted = subject.inside(seed), subject.conditions.samples
    benchmark, seen = inside.benchmark, 0
    if subject.conditions.size is not None:
        raise UserError(f"size={subject.conditions.size}: what {benchmark.name} is to learn has the size of its data")
    if wanted is not None and wanted > benchmark.budget_samples:
        raise UserError(f"samples={wanted} is more than the budget of {benchmark.name}, {benchmark.budget_samples}")
    while True:
        stats = inside.made.train_until(wanted or benchmark.next_evaluation(seen))
        seen, lost = stats.samples, stats.loss is not None and math.isnan(stats.loss)
        found = None if lost else quality(inside, inside.data)
        reached = found is not None and benchmark.reached(found)
        if lost or reached or wanted or seen >= benchmark.budget_samples:
            return Trained(inside.made.state_dict(), seen, found)


def kept(subject: Subject, folder: Path) -> Trained:
    """The last state that a run kept in `folder`. Raises UserError if it kept none of the subject's task."""
    found = states.kept(folder)
    if not found:
        raise UserError(f"from={folder} holds no kept states: make a run with checkpoints=keep out={folder}")
    try:
        state, samples = states.read(found[-1])
        inside = subject.inside()
        inside.made.load_state_dict(state)
        return Trained(state, samples, quality(inside, inside.data))
    except (OSError, states.BadState) as error:
        raise UserError(f"{found[-1]} is no state: {error}") from error
    except (KeyError, ValueError, RuntimeError) as error:
        raise UserError(f"{found[-1]} is no state of {subject.conditions.name}: {one_line(error)}") from error


def precision(folder: Path) -> str | None:
    """The precision of the run whose state `kept` takes, None if its configuration is not there."""
    for state in states.kept(folder)[-1:]:
        path = state.parents[1] / CONFIG
        try:
            return str(yaml_mapping(read_safely(path))[0]["precision"]) if path.exists() else None
        except (OSError, ValueError, KeyError) as error:
            raise UserError(f"{path} is no configuration of a run: {error}") from error
    return None


def quality(inside: Inside, data: Mapping[str, np.ndarray]) -> float | None:
    """The benchmark's metric of the model's predictions for `data`; None if they cannot be scored."""
    try:
        found = score(inside.benchmark, inside.task, inside.made.predict(data), data)[inside.benchmark.metric]
    except BadPrediction:
        return None
    return float(found) if math.isfinite(found) else None
