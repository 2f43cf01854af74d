"""Checks of the chapter "Quality and evaluation": the target, when it was looked for, and the predictions."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator
from importlib import metadata

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import DATASET, RESTART
from suite.config.models import Benchmark
from suite.errors import BadPrediction, BrokenContract, UserError, said, shown
from suite.harness.seeds import evaluation_seed
from suite.record.evidence import LOG, PREDICTIONS, SYSTEM
from suite.record.mllog import Line, samples_of
from suite.record.parsing import close, number, same
from suite.rules.finding import LOG_AS_WRITTEN, Finding
from suite.rules.hyperparameters import batch_size
from suite.rules.reading import RUN, Evidence
from suite.store import packages
from suite.store.arrays import array_sha256, prepared_to_score
from suite.store.task import Arrays, Task, check_metric, draws, for_run, load_task, score

REASONS = {"target": keys.SUCCESS} | dict.fromkeys(("budget", "diverged", "refused", "interrupt"), keys.ABORTED)

_OWN_BUDGET = "train with the benchmark's own budget: leave out budget_samples="
_PREDICT = "submit the predictions that the suite wrote"


def reached(benchmark: Benchmark, evaluation: Line) -> bool:
    """Whether an eval_accuracy line meets the suite's target, by the figure that it logs."""
    quality = number(evaluation.value)
    return quality is not None and benchmark.reached(quality)


def converged(run: Evidence) -> bool:
    """Whether a run ended with success at an evaluation that meets the suite's target."""
    stop, benchmark, evaluations = run.timeline.run_stop, run.benchmark, run.timeline.evaluations
    return (
        stop is not None
        and stop.metadata.get(keys.STATUS) == keys.SUCCESS
        and benchmark is not None
        and bool(evaluations)
        and reached(benchmark, evaluations[-1])
    )


@RUN.rule("quality.1")
def status_holds(run: Evidence) -> Iterator[Finding]:
    """A run ends with success if, and only if, its last evaluation meets the target."""
    stop, benchmark, evaluations = run.timeline.run_stop, run.benchmark, run.timeline.evaluations
    if stop is None:
        return
    status, reason = stop.metadata.get(keys.STATUS), stop.metadata.get("reason")
    if not isinstance(reason, str) or REASONS.get(reason) != status:
        expected = "; ".join(f"status {s} with reason {r}" for r, s in REASONS.items())
        yield Finding(LOG, stop.number, expected, f"status {status} with reason {reason}", LOG_AS_WRITTEN)
    if benchmark is None or not run.readable:
        return
    met = bool(evaluations) and reached(benchmark, evaluations[-1])
    if met != (status == keys.SUCCESS):
        found = f"{benchmark.metric} {evaluations[-1].value}" if evaluations else "no evaluation"
        bound = "at least" if benchmark.direction == "higher" else "at most"
        expected = f"{benchmark.metric} {bound} {benchmark.target}"
        if status == keys.SUCCESS:
            at = evaluations[-1].number if evaluations else stop.number
            yield Finding(LOG, at, f"{expected} at the evaluation that stops the run", found, "train to the target")
        else:
            yield Finding(LOG, stop.number, f"status {keys.SUCCESS}: {found} meets the target", status, LOG_AS_WRITTEN)
    if status == keys.SUCCESS and evaluations and samples_of(stop) != samples_of(evaluations[-1]):
        expected = f"samples_count {samples_of(evaluations[-1])}, as at the last evaluation"
        yield Finding(LOG, stop.number, expected, samples_of(stop), LOG_AS_WRITTEN)


@RUN.rule("quality.2")
def stopped_at_once(run: Evidence) -> Iterator[Finding]:
    """No evaluation before the last one meets the target."""
    for evaluation in run.timeline.evaluations[:-1]:
        if run.benchmark and reached(run.benchmark, evaluation):
            expected = f"the run to stop at {run.benchmark.metric} {run.benchmark.target}"
            found = f"{evaluation.value}, and training went on"
            yield Finding(LOG, evaluation.number, expected, found, "stop at the first evaluation that meets the target")
            return


@RUN.rule("quality.3")
def on_schedule(run: Evidence) -> Iterator[Finding]:
    """Evaluations come at the first whole step at or after each due point, and at no other time."""
    benchmark, stop = run.benchmark, run.timeline.run_stop
    if benchmark is None or not run.readable:
        return
    batch, behind, mend = batch_size(run, benchmark), 0, "evaluate when the benchmark says"
    marks = [*run.lines_of.get(keys.EVAL_ACCURACY, []), *run.lines_of.get(RESTART, [])]
    for line in sorted(marks, key=lambda line: line.number):
        samples = samples_of(line)
        if samples is None:
            continue
        at = benchmark.next_evaluation(behind)
        expected = f"an evaluation at {at} to {at + batch - 1} samples"
        if line.key == RESTART and samples >= at:
            yield Finding(LOG, line.number, expected, f"none before it went on at {samples}", mend)
        if line.key == keys.EVAL_ACCURACY and not behind < at <= samples < at + batch:
            yield Finding(LOG, line.number, expected if at > behind else "no further evaluation", samples, mend)
        behind = samples
    at, ended = benchmark.next_evaluation(behind), samples_of(stop) if stop else None
    if stop and ended is not None and at > behind and ended >= at + batch:
        expected = f"an evaluation at {at} to {at + batch - 1} samples"
        yield Finding(LOG, stop.number, expected, f"none before the end at {ended}", mend)


@RUN.rule("quality.4")
def within_budget(run: Evidence) -> Iterator[Finding]:
    """A run ends at the first whole step at or after its budget."""
    stop, benchmark = run.timeline.run_stop, run.benchmark
    samples = samples_of(stop) if stop else None
    if stop is None or samples is None or benchmark is None:
        return
    limit = benchmark.budget_samples + batch_size(run, benchmark) - 1
    if samples > limit:
        yield Finding(LOG, stop.number, f"at most {limit} samples", samples, _OWN_BUDGET)
    if stop.metadata.get("reason") == "budget" and samples < benchmark.budget_samples:
        expected = f"{benchmark.budget_samples} samples at the end of the budget"
        yield Finding(LOG, stop.number, expected, samples, _OWN_BUDGET)


@RUN.rule("quality.5")
def same_predictions(run: Evidence) -> Iterator[Finding]:
    """The predictions are those of the last evaluation. Those changed after the sealing have another rule."""
    last = _predicted(run)
    if last is None or PREDICTIONS not in run.contents or PREDICTIONS in run.changed:
        return
    expected = last.metadata.get("predictions_sha256")
    found = run.digests[PREDICTIONS].sha256
    if expected != found:
        mend = "submit the predictions of the last evaluation"
        yield Finding(PREDICTIONS, None, f"sha256 {expected} of log line {last.number}", found, mend)


@RUN.rule("quality.6")
def same_quality(run: Evidence) -> Iterator[Finding]:
    """The predictions score the logged quality again. Predictions changed after the sealing are not scored.

    What a task draws for the run is drawn again; on another architecture or in other versions that may score otherwise.
    """
    last, benchmark = _predicted(run), run.benchmark
    if last is None or benchmark is None:
        return
    yield from _unlike_metrics(run, benchmark, last)
    if run.predictions is None or PREDICTIONS in run.changed:
        return
    if last.value is None and not run.predictions:  # a diverged run claims nothing
        return
    means = _to_score_with(run, benchmark)
    if isinstance(means, Finding):
        yield means
        return
    task, data = means
    if other := _other_data(run, benchmark, data):
        yield other
        return
    try:
        arrays = for_run(benchmark, task, data, evaluation_seed(run.lines))
        metrics = score(benchmark, task, run.predictions, arrays)
    except BadPrediction as error:
        stop = run.timeline.run_stop
        if last.value is None and stop is not None and stop.metadata.get("reason") == "refused":
            return  # so the run ended: it claims nothing
        yield _judged(run, task, PREDICTIONS, error.line or None, "predictions that the task can score", str(error))
        return
    except BrokenContract as error:
        mend = f"mend tasks/{benchmark.task}, then review again"
        yield Finding(
            PREDICTIONS, None, "arrays and metrics as the task's contract has them", str(error), mend, "error"
        )
        return
    except (UserError, ImportError, MemoryError) as error:
        yield Finding(PREDICTIONS, None, "a machine that can score them", said(error), "mend that and repeat", "error")
        return
    except Exception as error:  # a task's metric met values that it did not foresee: the submission's fault
        yield Finding(PREDICTIONS, None, "predictions that the task can score", type(error).__name__, _PREDICT)
        return
    logged = last.metadata.get("metrics")
    named = logged if isinstance(logged, dict) else {}
    for name, where, value in (
        (benchmark.metric, "value", last.value),
        *((name, "metrics", named.get(name)) for name in metrics),
    ):
        scored = metrics[name]
        if not (close(scored, value) or (value is None and not math.isfinite(scored))):
            expected = f"{name} in {where}: {scored:.9g}, as the predictions score"
            yield _judged(run, task, LOG, last.number, expected, value)


def _unlike_metrics(run: Evidence, benchmark: Benchmark, last: Line) -> Iterator[Finding]:
    """Findings for evaluations before the last whose quality is not the metric beside it."""
    for line in run.lines_of.get(keys.EVAL_ACCURACY, []):
        metrics = line.metadata.get("metrics")
        if line is last or not isinstance(metrics, dict) or benchmark.metric not in metrics:
            continue
        beside = metrics[benchmark.metric]
        if not (close(beside, line.value) or (line.value is None and number(beside) is None)):
            expected = f"{benchmark.metric} {shown(beside)}, as in metrics"
            yield Finding(LOG, line.number, expected, line.value, LOG_AS_WRITTEN)


def _other_data(run: Evidence, benchmark: Benchmark, data: Arrays) -> Finding | None:
    """The finding where the reviewer's data are not the run's, of arrays that the suite declares no sum of."""
    line = run.line(DATASET)
    logged = line.metadata.get("arrays") if line else None
    if line is None or not isinstance(logged, dict):
        return None
    for name, declared in benchmark.dataset.arrays.items():
        if declared is None and name in data and name.startswith(("test_", "answer_")):
            here = array_sha256(data[name])
            if logged.get(name) != here:
                mend = "review it with the run's data: data_dir=FOLDER"
                expected = f"sha256 of {name}: {here}, which is here to score with"
                return Finding(LOG, line.number, expected, logged.get(name), mend, "error")
    return None


def _judged(run: Evidence, task: Task, file: str, line: int | None, expected: str, found: object) -> Finding:
    """The finding for predictions that do not score as logged: an error if draws may have come out otherwise here."""
    if draws(task) and (unlike := _unlike(run)):
        mend = "review it on a machine of the run's kind, with the run's packages"
        return Finding(file, line, expected, f"{shown(found)} ({'; '.join(unlike)})", mend, "error")
    return Finding(file, line, expected, found, _PREDICT)


def _unlike(run: Evidence) -> list[str]:
    """Where the run's architecture and versions differ from the reviewer's. Older evidence has no architecture."""
    if run.benchmark is None or not run.intact(SYSTEM):
        return []
    versions = {**packages.versions(run.benchmark.task), "numpy": metadata.version("numpy")}
    pairs = {name: (run.described("software", name), version) for name, version in versions.items()}
    if (architecture := run.described("detected", "architecture")) is not None:
        pairs["architecture"] = architecture, platform.machine()
    return [shown(f"{name} {theirs}, here {ours}") for name, (theirs, ours) in pairs.items() if not same(theirs, ours)]


def _to_score_with(run: Evidence, benchmark: Benchmark) -> tuple[Task, Arrays] | Finding:
    """The benchmark's task and its data, or a finding that says what keeps this reviewer from having them."""
    if names := packages.missing(benchmark.task):
        expected, mend = f"the packages of {benchmark.task}, to score with", packages.install(benchmark.task)
        return Finding(PREDICTIONS, None, expected, f"{packages.listed(names)} missing", mend, "error")
    try:
        task = load_task(benchmark.task)
        check_metric(benchmark, task)
    except UserError as error:
        own = f"conf/task/{benchmark.task}.yaml or tasks/{benchmark.task}"
        mend = f"install what it lacks, or mend {own}, then review again"
        return Finding(PREDICTIONS, None, "a task that scores the benchmark's metric", str(error), mend, "error")
    try:
        return task, prepared_to_score(benchmark, task, run.data_dir)
    except UserError as error:
        mend = f"python -m suite.data fetch {benchmark.name}, or name the folder that has it with data_dir=FOLDER"
        return Finding(PREDICTIONS, None, f"the dataset of {benchmark.name}, to score with", str(error), mend, "error")


def _predicted(run: Evidence) -> Line | None:
    """The evaluation whose predictions are kept: the last one. In a run with success it must be one that counts."""
    stop, counting = run.timeline.run_stop, run.timeline.evaluations
    if stop is not None and stop.metadata.get(keys.STATUS) == keys.SUCCESS and counting:
        return counting[-1]
    return run.last(keys.EVAL_ACCURACY)
