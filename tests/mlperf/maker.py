"""Makes logs and packages of MLPerf Training: llama2_70b_lora of round 6.1, compliant as it stands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from suite.record.system import KEYS

RULESET = "mlperf-6.1"
ORG, SYSTEM, BENCHMARK = "Example", "machine_x8", "llama2_70b_lora"

Entry = dict[str, Any]

SETTINGS: dict[str, Any] = {
    "submission_benchmark": BENCHMARK,
    "submission_org": ORG,
    "submission_division": "closed",
    "submission_platform": SYSTEM,
    "lowest_numerical_precision_in_linear": "fp8",
    "lowest_numerical_precision_in_attn": "bfloat16",
    "lowest_numerical_precision_in_comm": "bfloat16",
    "tensor_parallelism": 4,
    "pipeline_parallelism": 1,
    "context_parallelism": 1,
    "expert_parallelism": 1,
    "micro_batch_size": 1,
    "config_filename": "config.sh",
    "global_batch_size": 8,
    "train_samples": 3901,
    "eval_samples": 173,
    "opt_base_learning_rate": 0.0004,
    "opt_learning_rate_training_steps": 1024,
    "opt_gradient_clip_norm": 0.3,
    "opt_adamw_weight_decay": 0.0001,
    "gradient_accumulation_steps": 1,
    "lora_alpha": 32,
    "lora_rank": 16,
}


def entry(time_ms: float, key: str, value: Any = None, event: str = "POINT_IN_TIME", **metadata: Any) -> Entry:
    """A line's JSON object."""
    metadata = {"file": "train.py", "lineno": 7, **metadata}
    return {"namespace": "", "time_ms": time_ms, "event_type": event, "key": key, "value": value, "metadata": metadata}


def entries(seed: int = 1) -> list[Entry]:
    """The objects of a run's lines; another seed gives another run: its times and qualities."""
    time = 1_700_000_000_000 + seed * 10_000_000
    made = [entry(time, "cache_clear", True), entry(time + 1, "init_start", event="INTERVAL_START")]
    made += [entry(time + 10 + at, key, value) for at, (key, value) in enumerate(SETTINGS.items())]
    made.append(entry(time + 50, "seed", seed))
    made.append(entry(time + 9_000, "init_stop", event="INTERVAL_END"))
    time += 10_000
    made.append(entry(time, "run_start", event="INTERVAL_START"))
    made.append(entry(time + 1, "block_start", event="INTERVAL_START", samples_count=0))
    for at, samples in enumerate((1536, 1920, 2304, 2688)):
        time += 60_000 + 37 * seed + 101 * at * seed
        quality = round(0.96 - 0.012 * at + 0.0001 * seed * (at + 1) - 0.0007 * seed, 6)
        made.append(entry(time, "eval_start", event="INTERVAL_START", samples_count=samples))
        made.append(entry(time + 500 + seed, "eval_accuracy", quality, samples_count=samples))
        made.append(entry(time + 501 + seed, "eval_stop", event="INTERVAL_END", samples_count=samples))
    made.append(entry(time + 900, "block_stop", event="INTERVAL_END", samples_count=2688))
    made.append(entry(time + 1000, "run_stop", event="INTERVAL_END", samples_count=2688, status="success"))
    return made


def text(made: list[Entry]) -> str:
    """A log of these lines, among other output of the program."""
    return "".join(f"step {at}\n:::MLLOG {json.dumps(each)}\n" for at, each in enumerate(made))


def find(made: list[Entry], key: str) -> Entry:
    """The first line of `key`."""
    return every(made, key)[0]


def every(made: list[Entry], key: str) -> list[Entry]:
    """The lines of `key`."""
    return [each for each in made if each["key"] == key]


def setting(key: str, value: Any) -> Callable[[list[Entry]], Entry]:
    """A change to a run: another value in its first line of `key`, which it returns."""

    def change(made: list[Entry]) -> Entry:
        find(made, key)["value"] = value
        return find(made, key)

    return change


def evaluate(made: list[Entry], *qualities: float) -> list[Entry]:
    """Let the evaluations of a run find these qualities; returns their lines."""
    found = every(made, "eval_accuracy")
    for each, quality in zip(found, qualities, strict=True):
        each["value"] = quality
    return found


def missed(seed: int) -> list[Entry]:
    """A run that misses the target, and says so."""
    made = entries(seed)
    for each in every(made, "eval_accuracy"):
        each["value"] += 0.05
    find(made, "run_stop")["metadata"]["status"] = "aborted"
    return made


def description(**changes: Any) -> dict[str, Any]:
    """A system description with every field."""
    fields = dict.fromkeys(KEYS, "x")
    return {**fields, "submitter": ORG, "division": "closed", "status": "Preview", "system_name": SYSTEM, **changes}


def describe(results: Path, **changes: Any) -> None:
    """Describe the system of the benchmark's folder `results`."""
    (results.parents[2] / "systems" / f"{SYSTEM}.json").write_text(json.dumps(description(**changes)))


def package(root: Path, runs: int = 10) -> Path:
    """A submitter's folder below `root` with so many runs; returns the benchmark's folder."""
    results = root / ORG / "results" / SYSTEM / BENCHMARK
    results.mkdir(parents=True)
    (root / ORG / "systems").mkdir()
    describe(results)
    for at in range(runs):
        (results / f"result_{at}.txt").write_text(text(entries(seed=at + 1)))
    return results
