"""Promises about predictions: what an implementation predicts, and how the task scores right and wrong predictions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from suite.check.ledger import Broken, Ledger, Skip
from suite.check.training import copied, differing
from suite.config.models import Benchmark
from suite.errors import BadPrediction, BrokenContract
from suite.harness.contract import Checked, alike, check_json, evaluation_data
from suite.harness.implementation import Implementation
from suite.store.authors import place
from suite.store.task import Task, score

WRONG: tuple[Any, ...] = (None, {"?": []}, [[[None]]])  # no task accepts these
STRANGE: tuple[Any, ...] = (10**400, 1e200, -1, 0.5, True, "", "?" * 100_000, "\ud800", [], {})  # some task accepts
SLACK = 1e-9  # relative to a metric's bounds, which sums of rounded numbers may just exceed


class Asked(Mapping[str, np.ndarray]):
    """Arrays by name; `asked` holds the names that were looked up."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.arrays, self.asked = arrays, set[str]()

    def __getitem__(self, name: str) -> np.ndarray:
        self.asked.add(name)
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


def scoring(
    ledger: Ledger, benchmark: Benchmark, task: Task, made: Checked, data: Mapping[str, np.ndarray]
) -> dict[str, float] | None:
    """Try the promises on the predictions of the hardly trained `made`. Return its metrics, None if there are none."""
    before = copied(made.state_dict())
    predict = Implementation.predict
    predictions = ledger.made("predictions are values that JSON gives back", predict, lambda: _predicted(made, data))
    if predictions is None:
        return None
    again = partial(_again, made, data, predictions)
    ledger.hold("predict answers for the arrays that it is given", predict, again)
    ledger.hold("predict leaves the state as it was", predict, lambda: _unmoved(made, before))
    scored = partial(_scored, benchmark, task, predictions, data)
    metrics = ledger.made("score is finite or nan, within METRICS, the same each time", Task.score, scored)
    if metrics is None:
        return None
    ledger.hold("a few steps do not reach the target", Benchmark, lambda: _untrained(benchmark, metrics))
    refused = partial(_refused, benchmark, task, predictions, data)
    ledger.hold("score refuses wrong predictions by BadPrediction", Task.score, refused)
    return metrics


def _predicted(made: Checked, data: Mapping[str, np.ndarray]) -> list[Any]:
    found = made.predict(data)
    check_json(found)
    return _from_json(found)


def _again(made: Checked, data: Mapping[str, np.ndarray], predictions: list[Any]) -> None:
    arrays = Asked(evaluation_data(data))
    if not arrays:
        raise Skip("the benchmark has no test_* array")
    found = made.inner.predict(arrays)
    if not arrays.asked:
        raise Broken(f"a second predict asks for none of its arrays ({', '.join(arrays)})")
    if not alike(_from_json(found), predictions):
        raise Broken("a second predict of the same arrays gives other predictions")


def _from_json(found: Sequence[Any]) -> list[Any]:
    read: list[Any] = json.loads(json.dumps(list(found)))
    return read


def _unmoved(made: Checked, before: Mapping[str, np.ndarray]) -> None:
    if strays := differing(before, made.state_dict()):
        raise Broken(f"{strays[0]!r} has changed")


def _scored(
    benchmark: Benchmark, task: Task, predictions: Sequence[Any], data: Mapping[str, np.ndarray]
) -> dict[str, float]:
    metrics = dict(score(benchmark, task, predictions, data))
    if score(benchmark, task, predictions, data) != metrics and not any(map(math.isnan, metrics.values())):
        raise Broken("the same predictions scored twice give other metrics")
    for name, value in metrics.items():
        if name not in task.METRICS:
            raise Broken(f"score returned {name!r}, which METRICS does not name")
        low, high = task.METRICS[name]
        if value < low - SLACK * abs(low) or value > high + SLACK * abs(high):
            raise Broken(f"{name} is {value:g}; METRICS says from {low:g} to {high:g}")
    return metrics


def _untrained(benchmark: Benchmark, metrics: Mapping[str, float]) -> None:
    quality = metrics[benchmark.metric]
    if benchmark.reached(quality):
        aim = f"target {benchmark.target:g}, direction {benchmark.direction}"
        raise Broken(f"{benchmark.metric} is {quality:g} after a few steps: {aim}")


def _refused(benchmark: Benchmark, task: Task, predictions: list[Any], data: Mapping[str, np.ndarray]) -> None:
    _refuses(task, [], data, "no predictions")
    _refuses(task, predictions[:-1], data, "one prediction too few")
    _refuses(task, [*predictions, predictions[-1]], data, "one prediction too many")
    for wrong in WRONG:
        _refuses(task, [*predictions[:-1], wrong], data, f"the prediction {json.dumps(wrong)}")
    for strange in STRANGE:
        try:
            score(benchmark, task, [*predictions[:-1], strange], data)
        except BadPrediction:
            continue
        except Exception as error:
            what = f"{type(error).__name__} at {place(error)}: {error}"
            found = error.found if isinstance(error, BrokenContract) else what
            raise Broken(f"{found}, for the prediction {strange!r:.20}") from error


def _refuses(task: Task, predictions: Sequence[Any], data: Mapping[str, np.ndarray], what: str) -> None:
    try:
        metrics = task.score(predictions, data)
    except BadPrediction:
        return
    except Exception as error:
        raise Broken(f"score raised {type(error).__name__} ({error}) for {what}") from error
    raise Broken(f"score returned {metrics!r:.80} for {what}")
