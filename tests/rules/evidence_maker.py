"""Evidence that passes every rule, and an editor that changes it the way a cheat does: chained and sealed again."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from mlperf_logging.mllog import constants as keys

from suite import config
from suite.config import logkeys
from suite.config.models import Formula, Range
from suite.config.plan import Plan
from suite.harness import seeds
from suite.measure.cost import cost, price_per_hour
from suite.measure.energy import HEADER, Sample, energy, format_row, read_samples
from suite.measure.machine import Accelerator, Machine, power_ceiling
from suite.record import evidence, mllog, system
from suite.rules import dates, reference, revision
from suite.rules.reference import Point, Reference, ReferenceRun
from suite.store.arrays import prepared
from suite.store.task import load_task
from tests.witness_server import Authority

FREE = {
    "global_batch_size": Range(low=50, high=400),
    "muon_learning_rate": Formula(proportional_to="global_batch_size", tolerance=0.01),
}
FLOPS = 1e11  # of a training sample: two logical CPUs need ten seconds for a run of `write_run`
BENCHMARK = config.benchmark("image_classification", "mini").model_copy(
    update={"free": FREE, "train_flops_per_sample": FLOPS}
)
EVERY = BENCHMARK.evaluation.every  # of which the first evaluation is a multiple
WITNESS = "http://stamps.example.org/"
DECLARED = {"submitter": "someone", "division": keys.CLOSED, "status": keys.RESEARCH}
RUN_MS = 30_000
BEGUN_MS = mllog.EARLIEST_MS + 24 * 3_600_000  # the first run of a result
APART_MS = 60_000  # the beginnings of two runs
REVISION = "1" * 40  # of the code; the reviewer's repository has it, and none of seven
UNKNOWN_REVISION = "7" * 40
CPU_ONLY = Machine(cpu_model="a CPU", logical_cpus=2, sockets=1, memory_gb=8.0, cpu_bf16=True)
WITH_H200 = Machine(
    cpu_model="a CPU",
    logical_cpus=2,
    sockets=1,
    memory_gb=8.0,
    cpu_bf16=True,
    accelerators=(Accelerator("NVIDIA H200", 139.8, (9, 0)),),
)

Record = dict[str, Any]


class SteppedClock:
    """A clock that stands still until it is moved."""

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def now_ms(self) -> int:
        return self.ms


@cache
def right_predictions() -> list[int]:
    data = prepared(BENCHMARK, load_task(BENCHMARK.task))
    return [int(label) for label in data["answer_labels"]]


@cache
def described(name: str, machine: Machine) -> dict[str, Any]:
    made = system.describe(config.system(name), machine, config.framework("torch"), DECLARED)
    return {**made, "git": {"revision": REVISION, "dirty": False}}


def reference_points(folder: Path, samples: Sequence[int] = (5000, 6000, 6000, 6000, 7000), batch: int = 100) -> Path:
    """A file of reference convergence points, with which the runs of `write_run` agree."""
    runs = tuple(
        ReferenceRun(
            seed=seed,
            samples=needed,
            framework="torch",
            system="cpu",
            machine="a CPU",
            date="2026-01-01",
            command="made up",
            git_revision=None,
            run_id=str(seed),
            curve=((4000, 0.9), (needed, 0.99)),
        )
        for seed, needed in enumerate(samples)
    )
    points = (Point(global_batch_size=batch, runs=runs),)
    made = Reference(benchmark=BENCHMARK.name, recipe=reference.recipe(BENCHMARK), points=points)
    path = folder / "points.yaml"
    path.write_text(yaml.safe_dump(made.model_dump(mode="json")))
    return path


def isolate(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the rules see a benchmark with free hyperparameters, made-up reference convergence points and revisions."""
    points = reference_points(folder)
    real = config.benchmark
    monkeypatch.setattr(config, "benchmark", lambda task, scale: BENCHMARK if scale == "mini" else real(task, scale))
    monkeypatch.setattr(reference, "path", lambda benchmark: points)
    committed = lambda revision: None if revision == UNKNOWN_REVISION else BEGUN_MS - APART_MS  # noqa: E731
    monkeypatch.setattr(revision, "has_history", lambda: True)
    monkeypatch.setattr(revision, "committed_ms", committed)
    monkeypatch.setattr(dates, "committed_ms", committed)


def write_run(
    folder: Path,
    index: int = 1,
    runs: int = 1,
    hw: str = "cpu",
    machine: Machine = CPU_ONLY,
    sampled: float = 1.0,
    sample_ms: int = 1000,
    evaluations: int = 3,
    seed: int = 100,
    token: str | None = None,
    authority: Authority | None = None,
) -> Evidence:
    """A run that reaches the target at its last evaluation, after 30 s; its power is sampled for a part of the time.

    Seed by seed losses, qualities, throughputs and times differ, as those of real runs do. `token` draws the seeds,
    `authority` stamps begin and end of the clock.
    """
    drawn = seeds.of_round(token, DECLARED["submitter"], BENCHMARK.name, hw, keys.CLOSED, runs) if token else None
    plan = Plan(
        benchmark=BENCHMARK,
        system=config.system(hw),
        framework=config.framework("torch"),
        precision="bf16",
        seeds=drawn or tuple(range(seed, seed + runs)),
        token=token,
        witness=WITNESS if authority else None,
        result_id=f"{seed:032x}",
        **DECLARED,
        out=folder,
    )
    folder.mkdir(parents=True)
    resolved = plan.resolved(index)
    (folder / evidence.CONFIG).write_text(yaml.safe_dump(resolved, sort_keys=False))
    (folder / evidence.SYSTEM).write_text(json.dumps(described(hw, machine), indent=1))
    clock = SteppedClock(BEGUN_MS + (index - 1) * APART_MS)
    with mock.patch.object(mllog, "begun", return_value=clock):
        log = mllog.Log(folder / evidence.LOG)
    _head(log, plan, resolved, folder)
    clock.ms += 5_000
    log.event(logkeys.STATE, hashlib.sha256(f"{seed} {index}".encode()).hexdigest(), samples_count=0)
    log.stop(keys.INIT_STOP)
    log.start(keys.RUN_START)
    start, samples = clock.ms, 0
    draw = random.Random(f"{seed} {index}")
    cuts = sorted(draw.sample(range(1000, RUN_MS - 1000, 50), 2 * evaluations - 1))
    for block in range(evaluations):
        log.start(keys.BLOCK_START, samples_count=samples)
        before, end = clock.ms, start + cuts[2 * block]
        counts = range(samples + EVERY, BENCHMARK.next_evaluation(samples) + 1, EVERY)
        times = [*sorted(draw.randrange(before, end) for _ in counts[1:]), end]
        for samples, clock.ms in zip(counts, times, strict=True):
            seconds, before = max(clock.ms - before, 1) / 1000 * draw.uniform(0.8, 1), clock.ms
            tracked = {"throughput": EVERY / seconds, "loss": draw.uniform(0.5, 1)}
            log.event(logkeys.TRACKED, tracked, samples_count=samples)
        log.start(keys.EVAL_START, samples_count=samples)
        last = block == evaluations - 1
        clock.ms = start + (RUN_MS if last else cuts[2 * block + 1])
        state = hashlib.sha256(f"{seed} {index} {samples}".encode()).hexdigest()
        _evaluation(log, nearly_right(draw) if last else guesses(draw), samples, folder, state)
        log.stop(keys.BLOCK_STOP, samples_count=samples)
    log.stop(keys.RUN_STOP, status=keys.SUCCESS, samples_count=samples, reason="target")
    rows = [Sample(at, None, None, None, 0.5, 0.0, 0.0) for at in range(start, clock.ms + 1, sample_ms)]
    kept = rows[: round(sampled * len(rows))]
    (folder / evidence.POWER).write_text("\n".join([HEADER, *map(format_row, kept)]) + "\n")
    log.event(logkeys.ENVIRONMENT, "quiet", when="during", reasons=[])
    used = asdict(energy(read_samples(folder / evidence.POWER), start, clock.ms, power_ceiling(plan.system, machine)))
    log.event(logkeys.ENERGY, used.pop("joules"), **used)
    price = price_per_hour(plan.system, machine)
    source = plan.system.price.model_dump()
    log.event(logkeys.COST, cost(price, (clock.ms - start) / 1000), price_per_hour=price, **source)
    if authority:
        log.event(logkeys.WITNESS, "stamps.example.org", **dict.fromkeys(evidence.STAMPS, True), problems=[])
    log.close()
    made = Evidence(folder)
    if authority:
        made.stamp(authority)
    evidence.seal(folder, log.head)
    return made


def _head(log: mllog.Log, plan: Plan, resolved: Record, folder: Path) -> None:
    log.event(keys.CACHE_CLEAR, True)
    log.start(keys.INIT_START)
    log.event(keys.SUBMISSION_BENCHMARK, BENCHMARK.name)
    log.event(keys.SUBMISSION_ORG, plan.submitter)
    log.event(keys.SUBMISSION_DIVISION, plan.division)
    log.event(keys.SUBMISSION_STATUS, plan.status)
    log.event(keys.SUBMISSION_PLATFORM, plan.system.name)
    identity = ("run_id", "result_id", "run_index", "runs", "task", "scale", "framework")
    logged = {name: resolved[name] for name in identity}
    sha256 = hashlib.sha256((folder / evidence.CONFIG).read_bytes()).hexdigest()
    named = {"metric": BENCHMARK.metric, "metric_signature": BENCHMARK.metric_signature}
    code = {"git_revision": REVISION, "git_dirty": False}
    log.event(logkeys.CONFIG, sha256, **logged, system=plan.system.name, token=plan.token, **named, **code)
    log.event(keys.SEED, resolved["seed"])
    for name, value in BENCHMARK.hyperparameters.items():
        log.event(name, value)
    log.event(keys.TRAIN_SAMPLES, BENCHMARK.dataset.train_samples)
    log.event(keys.EVAL_SAMPLES, BENCHMARK.dataset.eval_samples)
    log.event(logkeys.DATASET, BENCHMARK.dataset.name, arrays=BENCHMARK.dataset.arrays)
    log.event(logkeys.ENVIRONMENT, "quiet", when="before", reasons=[])


def _evaluation(log: mllog.Log, predictions: list[int], samples: int, folder: Path, state: str) -> None:
    sha256 = evidence.write_predictions(folder / evidence.PREDICTIONS, predictions)
    evidence.keep_predictions(folder / evidence.PREDICTIONS, sha256)
    score = accuracy(predictions)
    metrics = {"accuracy": score}
    sums = {"predictions_sha256": sha256, "state_sha256": state}
    log.event(keys.EVAL_ACCURACY, score, samples_count=samples, metrics=metrics, **sums)
    log.stop(keys.EVAL_STOP, samples_count=samples)


def nearly_right(draw: random.Random) -> list[int]:
    """Predictions that meet the target, of which a few are wrong."""
    wrong = set(draw.sample(range(len(right_predictions())), 5))
    return [(answer + 1) % 10 if at in wrong else answer for at, answer in enumerate(right_predictions())]


def guesses(draw: random.Random) -> list[int]:
    """Predictions below the target, of which some are right."""
    right = draw.randrange(100, 700)
    return [answer if at < right else (answer + 1) % 10 for at, answer in enumerate(right_predictions())]


def accuracy(predictions: list[int]) -> float:
    answers = right_predictions()
    return sum(a == b for a, b in zip(predictions, answers, strict=True)) / len(answers)


class Evidence:
    """An evidence folder under a cheat's hands. After each edit it is consistent again, but for what was edited."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def copy(self, to: Path) -> Evidence:
        return Evidence(Path(shutil.copytree(self.folder, to)))

    def records(self) -> list[Record]:
        lines = (self.folder / evidence.LOG).read_text().splitlines()
        return [json.loads(line.removeprefix(mllog.TOKEN)) for line in lines]

    def write(self, records: list[Record | str]) -> None:
        """Replace the log, chained and sealed. A text stands for a line as it is."""
        prev, lines = mllog.FIRST_PREV, []
        for record in records:
            if not isinstance(record, str):
                record["metadata"]["prev"] = prev
                record = mllog.TOKEN + json.dumps(record)
            lines.append(record)
            prev = mllog.line_hash(record.encode())
        (self.folder / evidence.LOG).write_text("".join(line + "\n" for line in lines))
        self.seal()

    def seal(self, files: Sequence[str] = evidence.SEALED) -> None:
        last = (self.folder / evidence.LOG).read_bytes().splitlines()[-1]
        evidence.seal(self.folder, mllog.line_hash(last), files)

    def edit(self, key: str, change: Callable[[Record], object], at: int = 0) -> None:
        """Change the record of `key` that is number `at` of its kind."""
        records = self.records()
        change([record for record in records if record["key"] == key][at])
        self.write(records)

    def edit_log(self, change: Callable[[list[Any]], object]) -> None:
        records = self.records()
        change(records)
        self.write(records)

    def edit_config(self, change: Callable[[Record], object]) -> None:
        """Change config.yaml and the sum of it that the log holds."""
        path = self.folder / evidence.CONFIG
        values = yaml.safe_load(path.read_text())
        change(values)
        path.write_text(yaml.safe_dump(values, sort_keys=False))
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        self.edit(logkeys.CONFIG, lambda record: record.update(value=sha256))

    def measure(self) -> None:
        """Let energy and cost be those of the time from run_start to run_stop, on two logical CPUs."""
        times = {record["key"]: record["time_ms"] for record in self.records()}
        start, stop = times[keys.RUN_START], times[keys.RUN_STOP]
        hw = config.system(yaml.safe_load((self.folder / evidence.CONFIG).read_text())["system"]["name"])
        used = asdict(energy(read_samples(self.folder / evidence.POWER), start, stop, power_ceiling(hw, CPU_ONLY)))
        joules, price = used.pop("joules"), cost(price_per_hour(hw, CPU_ONLY), (stop - start) / 1000)
        self.edit(logkeys.ENERGY, lambda r: r.update(value=joules, metadata={**r["metadata"], **used}))
        self.edit(logkeys.COST, lambda r: r.update(value=price))

    def stamp(self, authority: Authority, **moved: float) -> None:
        """Have begin and end of the clock stamped at their times, in seconds later by `moved`, by key."""
        for line in mllog.read(self.folder / evidence.LOG):
            if name := evidence.STAMPS.get(line.key):
                content = authority.stamp(line.raw, line.time_ms / 1000 + moved.get(line.key, 0))
                (self.folder / name).write_bytes(content)
        self.seal()

    def edit_system(self, change: Callable[[Record], object]) -> None:
        path = self.folder / evidence.SYSTEM
        values = json.loads(path.read_text())
        change(values)
        path.write_text(json.dumps(values, indent=1))
        self.seal()

    def recode(self, **changes: Any) -> None:
        """Let log and system description tell another revision, or that it was changed."""
        self.edit_system(lambda values: values["git"].update(changes))
        told = {f"git_{name}": value for name, value in changes.items()}
        self.edit(logkeys.CONFIG, lambda record: record["metadata"].update(told))

    def move(self, by_ms: int) -> None:
        """Let the run have been made at another time."""

        def change(records: list[Record]) -> None:
            for record in records:
                record["time_ms"] += by_ms

        path = self.folder / evidence.POWER
        header, *rows = path.read_text().splitlines()
        cells = [row.split(",", 1) for row in rows]
        path.write_text("".join(f"{row}\n" for row in (header, *(f"{int(at) + by_ms},{rest}" for at, rest in cells))))
        self.edit_log(change)

    def squeeze(self, times: int) -> None:
        """Let the run have taken so many times less, by its log and by its power samples, on two logical CPUs."""
        start = next(record["time_ms"] for record in self.records() if record["key"] == keys.RUN_START)

        def sooner(time_ms: int) -> int:
            return min(time_ms, start + max(0, time_ms - start) // times)

        def change(records: list[Record]) -> None:
            for record in records:
                record["time_ms"] = sooner(record["time_ms"])
                if record["key"] == logkeys.TRACKED:
                    record["value"]["throughput"] *= times

        path = self.folder / evidence.POWER
        header, *rows = path.read_text().splitlines()
        cells = {sooner(int(at)): rest for at, rest in (row.split(",", 1) for row in rows)}
        path.write_text("".join(f"{row}\n" for row in (header, *(f"{at},{rest}" for at, rest in cells.items()))))
        self.edit_log(change)
        self.measure()

    def power(self, **watts: float) -> None:
        """Let counters of power.csv have run at these watts, and the energy be theirs."""
        path = self.folder / evidence.POWER
        samples = read_samples(path)
        joules = {name: each / 1000 for name, each in watts.items()}
        made = [
            sample._replace(**{name: each * (sample.time_ms - samples[0].time_ms) for name, each in joules.items()})
            for sample in samples
        ]
        path.write_text("\n".join([HEADER, *map(format_row, made)]) + "\n")
        self.measure()

    def edit_predictions(self, predictions: list[Any]) -> None:
        """Change the predictions and what the last evaluation says of them."""
        sha256 = evidence.write_predictions(self.folder / evidence.PREDICTIONS, predictions)
        evidence.keep_predictions(self.folder / evidence.PREDICTIONS, sha256)
        score = accuracy(predictions)

        def change(record: Record) -> None:
            record["value"] = score
            record["metadata"].update(metrics={"accuracy": score}, predictions_sha256=sha256)

        self.edit(keys.EVAL_ACCURACY, change, at=-1)
