"""Points and rates made up: for tests of what is made of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from suite import config
from suite.bricks.record import Model, Time, Timings
from suite.config.models import Benchmark
from suite.forecast.__main__ import main
from suite.forecast.model import parts
from suite.forecast.needed import Needed, Took
from suite.forecast.rates import Rates
from suite.probe.record import Cell, Conditions, Figure, Mode, Probe, Row
from suite.rules.reference import Point, ReferenceRun

BENCHMARK = config.benchmark("recommendation", "mini")
BATCH = BENCHMARK.hyperparameters["global_batch_size"]


def point(samples: Sequence[int | None], batch: int = BATCH) -> Point:
    """The reference's runs at a batch size, which took so many samples."""
    runs = tuple(
        ReferenceRun(
            seed=seed,
            samples=each,
            framework="torch",
            system="cpu",
            machine="a machine",
            date="2026-01-01",
            command="python -m suite.run",
            git_revision=None,
            run_id=f"run-{seed}",
            curve=(),
        )
        for seed, each in enumerate(samples)
    )
    return Point(global_batch_size=batch, runs=runs)


def needed(samples: Sequence[int | None]) -> Needed:
    """What a benchmark needs whose reference took so many samples."""
    made = Took(BATCH, tuple(samples))
    return Needed(BENCHMARK, BATCH, made, made, 0.0, "")


def rates(step: float, evaluation: float, **others: object) -> Rates:
    """Of a system whose steps and evaluations take always the same."""
    values = {"start": 0.0, "watts": None, "data": None, "weights": None, "source": "made up", "measured": True}
    made = {"samples": BATCH, "step": np.array([step]), "evaluation": np.array([evaluation]), **values, **others}
    return Rates(**made)  # type: ignore[arg-type]


def told(capsys: Any, *words: str) -> dict[str, Any]:
    """The only forecast that the command prints as JSON."""
    assert main([*words, "--json"]) == 0
    (forecast,) = json.loads(capsys.readouterr().out)["forecasts"]
    return dict(forecast)


def seconds_at(benchmark: Benchmark, rates: Rates, samples: int) -> float:
    """What a run is expected to take that reaches its target after so many samples."""
    every = np.arange(len(rates.step))
    taken = parts(benchmark, rates, np.full(len(every), float(samples)), every)
    return float(np.mean(np.sum(list(taken.values()), axis=0)))


def probe(
    step_ms: Sequence[float], evaluation_ms: float, system: str = "cpu", at: Sequence[int] = (), **conditions: object
) -> Probe:
    """A probe at level=clock of a benchmark, each of its repeats at one of the places `at`, where those are given."""
    told = {"task": "recommendation", "scale": "mini", "framework": "torch", "mode": "train", "precision": "fp32"}
    rows = [
        Row(name=f"block {i}", values={"repeat": i, "samples": seen, "step": each, "evaluation": evaluation_ms})
        for i, (seen, each) in enumerate(zip(at or range(100, 100 * len(step_ms) + 1, 100), step_ms, strict=True), 1)
    ]
    figures = {
        "start": Figure(value=100.0, unit="ms"),
        "samples/step": Figure(value=BATCH, unit=""),
        "data phase": Figure(value=10.0, unit="%"),
        "power": Figure(value=50.0, unit="W"),
        "weights": Figure(value=1.0, unit="MB"),
    }
    cell = Cell(conditions=Conditions.model_validate({**told, **conditions}), figures=figures, rows=rows)
    return Probe(
        level="clock",
        suite_version="0",
        date="2026-01-01T00:00:00Z",
        system=system,
        machine={"logical_cpus": 4},
        software={},
        environment={},
        repeats=len(rows),
        seconds=1.0,
        noisy=[],
        cells=[cell],
    )


def timings(
    step_us: Sequence[float], scale: str = "mini", mode: Mode = "train", evaluation: int = 0, **others: object
) -> Timings:
    """Of a benchmark whose training step is one brick, and another call that has none.

    Where its evaluation is told, it is so many of that brick, with half a second of scoring and half between them.
    """
    told = Conditions(task="recommendation", scale=scale, framework="torch", mode=mode, precision="fp32")
    model = Model(conditions=told, bricks=(0,), after=((),), calls=1, left_out={"open": 1})
    evaluated = Model(
        conditions=told.model_copy(update={"mode": "infer"}),
        bricks=(0,) * evaluation,
        after=((),) * evaluation,
        calls=evaluation,
        between=5000.0,
        scoring=5000.0,
    )
    values = {
        "suite_version": "0",
        "date": "2026-01-01T00:00:00Z",
        "system": "cpu",
        "machine": {"logical_cpus": 4},
        "software": {},
        "framework": "torch",
        "mode": mode,
        "precision": "fp32",
        "cache": {"size": 1 << 20, "missed": [0] * 7 + [1]},
        "seconds": 1.0,
        "noisy": [],
        "times": (Time(hot=tuple(step_us)),),
        "models": (model, *([evaluated] if evaluation else [])),
        "pace": 100.0,
    }
    return Timings.model_validate({**values, **others})
