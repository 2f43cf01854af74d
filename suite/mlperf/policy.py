"""What the policy fixes and the rule files do not check: `policy.yaml`, and the log lines that depart from it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from suite.mlperf.lines import LogLine
from suite.record.parsing import TOLERANCE, close, value_at

Departure = tuple[LogLine, str, Any]
"""A line, what was expected, what was found."""

_CUT = 0.0101  # epochs, which some logs truncate to two decimals
_DATA = Path(__file__).with_name("policy.yaml")


class Evaluation(BaseModel):
    """When to evaluate: see `policy.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    every: int | None = None
    skip: tuple[float, float] | None = None
    tokens: int | None = None
    epochs: float | None = None
    within: float = TOLERANCE


class Policy(BaseModel):
    """The entry of one benchmark in some rounds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    benchmark: str
    rounds: list[str]
    fixed: dict[str, float] = {}
    scaled: dict[str, tuple[float, str]] = {}
    per_batch: dict[str, int] = {}
    evaluation: Evaluation | None = None
    target: float | None = None


@cache
def _policies() -> dict[tuple[str, str], Policy]:
    entries = [Policy(**entry) for entry in yaml.safe_load(_DATA.read_text())]
    return {(entry.benchmark, each): entry for entry in entries for each in entry.rounds}


def policy(benchmark: str | None, ruleset: str) -> Policy | None:
    """The entry for `benchmark` in the round of `ruleset`, None if there is none."""
    return _policies().get((benchmark or "", ruleset.removeprefix("mlperf-")))


def hyperparameters(policy: Policy, lines: list[LogLine]) -> Iterator[Departure]:
    """The lines whose value is not the fixed one, or not in proportion to another's; steps may be off by one."""
    values = {line.key: number(line.value["value"]) for line in lines}
    for line in lines:
        value = line.value["value"]
        if line.key in policy.fixed:
            expected = policy.fixed[line.key]
            if not close(number(value), expected):
                yield line, f"{line.key} {expected:g}", value
        elif line.key in policy.scaled:
            factor, other = policy.scaled[line.key]
            base = values.get(other)
            if base is not None and not close(number(value), factor * base):
                yield line, f"{line.key} {factor * base:g}, which is {factor:g} times {other}", value
        elif line.key in policy.per_batch and (batch := values.get("global_batch_size") or 0) >= 1:
            steps, found = math.ceil(policy.per_batch[line.key] / batch), number(value)
            if found is None or abs(found - steps) > 1:
                yield line, f"{line.key} {steps}, which is {policy.per_batch[line.key]} / global_batch_size", value


def schedule(policy: Policy, lines: list[LogLine]) -> Iterator[Departure]:
    """The eval_accuracy lines where the schedule has no evaluation.

    The first one may be off by a batch, by an interval of `epochs`, or by anything if `skip` is null.
    """
    evaluation = policy.evaluation
    if evaluation is None:
        return
    unit = "epoch_num" if evaluation.epochs or evaluation.tokens else "samples_count"
    found = [(line, _metadata_number(line, unit)) for line in lines if line.key == "eval_accuracy"]
    places = [(line, place) for line, place in found if place is not None]
    if evaluation.epochs:
        step, first, slack = evaluation.epochs, evaluation.epochs, evaluation.epochs
    else:
        batch = next((number(line.value["value"]) for line in lines if line.key == "global_batch_size"), None)
        if not batch or batch < 1 or evaluation.every is None:
            return
        size = batch * (evaluation.tokens or 1)
        step = math.ceil(evaluation.every / batch) * size
        skip = evaluation.skip
        skipped = math.floor(skip[0] * batch + skip[1]) if skip else 0
        first, slack = (skipped + 1) * step, size if skip else math.inf
    if places and abs(places[0][1] - first) > slack * (1 + TOLERANCE):
        yield places[0][0], f"the first evaluation at {unit} {first:g}", f"{unit} {places[0][1]:g}"
    cut = _CUT if all(math.isclose(place, round(place, 2)) for _, place in places) else 0.0
    since, steps = places[0][1] if places else 0.0, 0
    for (_, before), (line, place) in pairwise(places):
        if place == before:
            continue
        steps += 1
        if not math.isclose(place - since, steps * step, rel_tol=evaluation.within, abs_tol=cut):
            if not (step < 1 and place % 1 == 0 and 0 < place - before < step + cut):
                expected = f"an evaluation at {unit} {since + steps * step:g}, {step:g} after the last"
                yield line, expected, f"{unit} {place:g}"
            since, steps = place, 0


def number(value: Any) -> float | None:
    """A finite number, also one that is written as text, as some submitters do; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def place(line: LogLine) -> tuple[float | None, float | None] | None:
    """Where in the training an evaluation stands: its samples_count and epoch_num; None if it has neither."""
    found = (_metadata_number(line, "samples_count"), _metadata_number(line, "epoch_num"))
    return None if found == (None, None) else found


def _metadata_number(line: LogLine, key: str) -> float | None:
    return number(value_at(line.value, "metadata", key))
