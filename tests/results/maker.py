"""Results as the results page shows them, made up: for tests of what is made of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from suite.record.history import History, Point
from suite.record.summary import Summary
from suite.results.entry import Entry
from suite.rules.verdict import RunReview

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)//",
    '"><img src=x onerror=alert(1)>',
    "' onfocus=alert(1) autofocus='",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "<!--",
    "| a | b |\n|---|---|",
    "=cmd|' /C calc'!A0",
    "نتائج البحث العلمي",
    "x" * 2000,
]


def run(seconds: float | None = 10.0, reached: bool = True, **changes: Any) -> RunReview:
    """A run that reached its target, with a seed by its time; `changes` are other values of its fields."""
    points = tuple(Point(float(at), 100 * at, 0.1 * at) for at in range(1, 6))
    summary = Summary(
        quality=0.99,
        samples=500,
        seconds=seconds,
        cost=None if seconds is None else seconds / 3600,
        currency="USD",
        joules=None if seconds is None else 100 * seconds,
        energy_source="nvml",
    )
    seed, history = round(1000 * (seconds or 1)), History(points=points)
    made = RunReview("results/box/run_1/log.txt", "pass", reached, [], summary, seed, history)
    of_run = {name: value for name, value in changes.items() if hasattr(made, name)}
    claims = {name: value for name, value in changes.items() if name not in of_run}
    return replace(made, **of_run, summary=replace(summary, **claims))


def entry(seconds: float | None = 10.0, **changes: Any) -> Entry:
    """A result of three runs around `seconds`."""
    runs = tuple(run(None if seconds is None else seconds + at, seed=at + 2) for at in (-1, 0, 1))
    values: dict[str, Any] = {
        "source": "submissions",
        "path": "results/box",
        "ruleset": "suite",
        "benchmark": "vision/small",
        "metric": "accuracy",
        "target": 0.9,
        "submitter": "example-org",
        "division": "closed",
        "status": "Preview",
        "system": "box",
        "machine": "8 x an accelerator",
        "accelerators": 8,
        "framework": "torch",
        "precision": "bf16",
        "implementation": "reference",
        "verdict": "pass",
        "findings": 0,
        "seconds": seconds,
        "normalisation": 1.0,
        "unheld": False,
        "runs_needed": 3,
        "own_price": False,
        "seeds": "drawn",
        "clock": "its own",
        "part": None,
        "flops": None,
        "peak_flops": None,
        "runs": runs,
    }
    return Entry(**{**values, **changes})


def everywhere(text: str) -> Entry:
    """A result whose every text is `text`."""
    names = ("path", "ruleset", "benchmark", "metric", "submitter", "division", "status", "system", "machine")
    evil = run(path=text, currency=text, energy_source=text, noise=(text,))
    return entry(**dict.fromkeys((*names, "framework", "precision"), text), runs=(evil, evil, evil))
