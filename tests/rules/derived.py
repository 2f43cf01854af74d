"""Mutants derived from what the rules are written over: each field, key, file and hyperparameter, changed one by one.

A field that is added to the suite's tables is mutated without a change here. Unlike those of `mutants` these may break
further rules besides their own: what counts is that their own finds them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite import config
from suite.config import logkeys
from suite.config.logkeys import IDENTITY
from suite.config.models import Formula, Range
from suite.record import evidence, mllog
from suite.record.system import KEYS
from suite.rules.quality import REASONS
from suite.rules.system import FILLED, FREE
from suite.rules.timeline import IN_RUN, STEPS, TAIL
from tests.rules.editor import Evidence
from tests.rules.mutants.registry import drop, index_of
from tests.rules.subject import BENCHMARK

Mutant = tuple[str, str, Callable[[Evidence], object]]  # rule, what is changed, the change


def derived() -> Iterator[Mutant]:
    """Every derived mutant."""
    yield from _log()
    yield from _benchmark()
    yield from _hyperparameters()
    yield from _system()
    yield from _runs_and_quality()
    yield from _measurement()
    yield from _package()


def other(value: Any) -> Any:
    """A value of the same type that is another one."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value * 2 + 1
        case str():
            return value + "x"
        case list():
            return [*value, value[-1] if value else 1]
        case dict():
            return {**value, "more": 1}
    return "something"


def value_of(key: str, to: Callable[[Any], Any] = other, at: int = 0) -> Callable[[Evidence], None]:
    return lambda run: run.edit(key, lambda record: record.update(value=to(record["value"])), at)


def metadata_of(key: str, name: str, to: Callable[[Any], Any] = other, at: int = 0) -> Callable[[Evidence], None]:
    return lambda run: run.edit(key, lambda r: r["metadata"].update({name: to(r["metadata"].get(name))}), at)


def configured(*path: str, to: Callable[[Any], Any] = other) -> Callable[[Evidence], None]:
    def change(values: dict[str, Any]) -> None:
        for name in path[:-1]:
            values = values[name]
        values[path[-1]] = to(values[path[-1]])

    return lambda run: run.edit_config(change)


def moved(key: str, behind: str) -> Callable[[Evidence], None]:
    def change(records: list[dict[str, Any]]) -> None:
        record = records.pop(index_of(records, key))
        at = index_of(records, behind)
        records.insert(at + 1, {**record, "time_ms": records[at]["time_ms"]})

    return lambda run: run.edit_log(change)


def _log() -> Iterator[Mutant]:
    for key, (_, _, kind) in STEPS.items():
        wrong = keys.POINT_IN_TIME if kind != keys.POINT_IN_TIME else keys.INTERVAL_END
        yield "log.3", f"no {key}", lambda run, key=key: run.edit_log(drop(key))
        yield "log.3", f"type of {key}", lambda run, k=key, w=wrong: run.edit(k, lambda r: r.update(event_type=w))
        yield "log.1", f"{key} cut short", lambda run, key=key: _torn(run, key)
        yield "log.2", f"{key} not chained", lambda run, key=key: _unchained(run, key)
        if key != keys.CACHE_CLEAR:
            earlier = lambda record: record.update(time_ms=record["time_ms"] - 3_600_000)  # noqa: E731
            yield "timing.1", f"{key} before its time", lambda run, k=key, change=earlier: run.edit(k, change)
    for key in logkeys.HEAD:
        yield "log.3", f"{key} after run_start", moved(key, keys.RUN_START)
    for key in BENCHMARK.hyperparameters:
        yield "log.3", f"{key} after run_stop", moved(key, keys.RUN_STOP)
    for key in TAIL:
        yield "log.3", f"{key} before run_stop", moved(key, keys.RUN_START)
    for key in (*logkeys.HEAD, *TAIL):
        yield "log.4", f"no {key}", lambda run, key=key: run.edit_log(drop(key))
        yield "log.4", f"{key} twice", lambda run, key=key: _twice(run, key)
    for key in (*IN_RUN, keys.RUN_STOP):
        for wrong in (None, -1, "1000", 1.5):
            yield "log.5", f"samples of {key}: {wrong!r}", metadata_of(key, keys.SAMPLES_COUNT, lambda _, w=wrong: w)
    for wrong in (False, None, "true", 1):
        yield "log.6", f"cache_clear {wrong!r}", value_of(keys.CACHE_CLEAR, lambda _, wrong=wrong: wrong)


def _benchmark() -> Iterator[Mutant]:
    for name in BENCHMARK.model_dump(exclude={"hyperparameters", "free", "precision", "task", "scale"}):
        yield "division.2", f"benchmark.{name}", configured("benchmark", name)
    for key, name in (
        (keys.SUBMISSION_ORG, "submitter"),
        (keys.SUBMISSION_DIVISION, "division"),
        (keys.SUBMISSION_STATUS, "status"),
    ):
        yield "division.3", f"{key} in the log", value_of(key)
        yield "division.3", f"{name} in the description", _described(name, other)
        yield "division.3", f"{name} in the configuration", configured(name)
    for name in BENCHMARK.dataset.arrays:
        to = lambda arrays, name=name: {**arrays, name: "0" * 64}  # noqa: E731
        yield "data.1", f"sum of {name}", metadata_of(logkeys.DATASET, "arrays", to)
    yield "data.1", "name of the dataset", value_of(logkeys.DATASET)
    for key in (keys.TRAIN_SAMPLES, keys.EVAL_SAMPLES):
        yield "data.2", key, value_of(key)


def _hyperparameters() -> Iterator[Mutant]:
    def both(name: str, to: Any) -> Callable[[Evidence], None]:
        def change(run: Evidence) -> None:
            configured("benchmark", "hyperparameters", name, to=lambda _: to)(run)
            value_of(name, lambda _: to)(run)

        return change

    for name, value in BENCHMARK.hyperparameters.items():
        yield "hyperparameters.1", f"{name} in the configuration", configured("benchmark", "hyperparameters", name)
        yield "hyperparameters.1", f"no {name}", lambda run, name=name: run.edit_log(drop(name))
        match BENCHMARK.free.get(name):
            case None:
                yield "hyperparameters.1", f"{name} in the log", value_of(name)
                yield "hyperparameters.1", name, both(name, other(value))
            case Range(low=low, high=high):
                for wrong in (low - 1, high + 1, "", None, True, [value], value + 0.5):
                    yield "hyperparameters.2", f"{name} {wrong!r}", both(name, wrong)
            case Formula(tolerance=tolerance):
                for wrong in (value * (1 + 2 * tolerance), value * (1 - 2 * tolerance), "", None, True):
                    yield "hyperparameters.3", f"{name} {wrong!r}", both(name, wrong)


def _system() -> Iterator[Mutant]:
    for key in KEYS:
        yield "system.1", f"{key} not as text", _described(key, lambda _: 1)
    for key in FILLED:
        yield "system.1", f"{key} left empty", _described(key, lambda _: " ")
    for wrong in (1e-6, 0, -1, 2.0, True, "2", None, 3):
        yield "system.4", f"logical CPUs {wrong!r}", _detected("logical_cpus", wrong)
    yield "system.2", "platform in the log", value_of(keys.SUBMISSION_PLATFORM)
    yield "system.2", "system in the log", metadata_of(logkeys.CONFIG, "system")
    yield "system.2", "system in the description", _described("system_name", other)
    for name in config.system("cpu").model_dump(exclude={*FREE, "name"}):
        yield "system.3", f"system.{name}", configured("system", name)


def _runs_and_quality() -> Iterator[Mutant]:
    for name in IDENTITY:
        yield "runs.1", f"{name} in the log", metadata_of(logkeys.CONFIG, name)
        yield "runs.1", f"no {name}", lambda run, name=name: _unnamed(run, name)
    for name in ("runs", "run_index"):
        for wrong in (None, 0, "1", 1.0, True):
            yield "runs.3", f"{name} {wrong!r}", configured(name, to=lambda _, wrong=wrong: wrong)
    yield "runs.1", "sum of the configuration", value_of(logkeys.CONFIG)
    for wrong in (-1, 2**31, 1.0, "100", True, None, [100]):
        yield "runs.2", f"seed {wrong!r}", value_of(keys.SEED, lambda _, wrong=wrong: wrong)
    for status in (*REASONS.values(), "fine", None):
        for reason in (*REASONS, "luck", None):
            if (status, reason) != (keys.SUCCESS, "target"):
                change = {"status": status, "reason": reason}
                name = f"run_stop {status} by {reason}"
                yield (
                    "quality.1",
                    name,
                    lambda run, c=change: run.edit(keys.RUN_STOP, lambda r: r["metadata"].update(c)),
                )
    for at in (0, 1):
        yield "quality.2", f"evaluation {at} at the target", value_of(keys.EVAL_ACCURACY, lambda _: 1.0, at)
    for at in range(3):
        for shift in (-1, 100):
            yield "quality.3", f"evaluation {at} shifted by {shift}", lambda run, a=at, s=shift: _shifted(run, a, s)
    yield "quality.4", "beyond the budget", metadata_of(keys.RUN_STOP, keys.SAMPLES_COUNT, lambda _: 10**6)
    yield "quality.5", "sum of the predictions", metadata_of(keys.EVAL_ACCURACY, "predictions_sha256", at=-1)
    for to in (lambda value: value * (1 - 1e-5), lambda value: "1", lambda value: None):
        yield "quality.6", "quality", value_of(keys.EVAL_ACCURACY, to, at=-1)
    yield "quality.6", "metrics", metadata_of(keys.EVAL_ACCURACY, "metrics", lambda _: {"accuracy": 0.99}, at=-1)


def _measurement() -> Iterator[Mutant]:
    yield "measurement.1", "joules", value_of(logkeys.ENERGY)
    for name in ("source", "coverage", "interval_s", "mean_w"):
        yield "measurement.1", name, metadata_of(logkeys.ENERGY, name)
        yield "measurement.1", f"no {name}", metadata_of(logkeys.ENERGY, name, lambda _: None)
    yield "measurement.3", "cost", value_of(logkeys.COST)
    for name in ("price_per_hour", *config.load("hw", "cpu")["price"]):
        yield "measurement.3", name, metadata_of(logkeys.COST, name)


def _package() -> Iterator[Mutant]:
    for name in (*evidence.OF_EACH_RUN, evidence.MANIFEST):
        yield "package.1", f"{name} is a link", lambda run, name=name: _linked(run, name)
        yield "package.2", f"no {name}", lambda run, name=name: (run.folder / name).unlink()
    for name in evidence.OF_EACH_RUN[1:]:  # the chain already tells where a log was changed
        yield "package.4", f"{name} changed", lambda run, name=name: (run.folder / name).open("ab").write(b"\n")
        others = [each for each in evidence.OF_EACH_RUN if each != name]
        yield "package.4", f"{name} not sealed", lambda run, others=others: run.seal(others)
        yield "package.3", f"{name} is not text", lambda run, name=name: _overwritten(run, name, b"\xff\xfe")


def _described(name: str, to: Callable[[Any], Any]) -> Callable[[Evidence], None]:
    def change(values: dict[str, Any]) -> None:
        values["description"][name] = to(values["description"][name])

    return lambda run: run.edit_system(change)


def _detected(name: str, wrong: Any) -> Callable[[Evidence], None]:
    return lambda run: run.edit_system(lambda values: values["detected"].update({name: wrong}))


def _torn(run: Evidence, key: str) -> None:
    records: list[Any] = run.records()
    at = index_of(records, key)
    records[at] = mllog.TOKEN + mllog.json.dumps(records[at])[:-1]
    run.write(records)


def _unchained(run: Evidence, key: str) -> None:
    path = run.folder / evidence.LOG
    lines = path.read_text().splitlines(keepends=True)
    at = index_of(run.records(), key)
    lines[at] = lines[at].replace('"namespace": ""', '"namespace": "x"')
    path.write_text("".join(lines))
    run.seal()


def _twice(run: Evidence, key: str) -> None:
    def change(records: list[dict[str, Any]]) -> None:
        at = index_of(records, key)
        records.insert(at, {**records[at], "metadata": dict(records[at]["metadata"])})

    run.edit_log(change)


def _unnamed(run: Evidence, name: str) -> None:
    run.edit(logkeys.CONFIG, lambda record: record["metadata"].pop(name))
    run.edit_config(lambda values: values.pop(name))


def _shifted(run: Evidence, at: int, by: int) -> None:
    def change(records: list[dict[str, Any]]) -> None:
        block = -1
        for record in records:
            block += record["key"] == keys.BLOCK_START
            if block == at and record["key"] in (keys.EVAL_START, keys.EVAL_ACCURACY, keys.EVAL_STOP):
                record["metadata"]["samples_count"] += by

    run.edit_log(change)


def _linked(run: Evidence, name: str) -> None:
    path = run.folder / name
    target = shutil.copy(path, run.folder.parent / name)
    path.unlink()
    path.symlink_to(target)


def _overwritten(run: Evidence, name: str, content: bytes) -> None:
    (run.folder / name).write_bytes(content)
    run.seal()
