"""What the page draws: the histories of runs that belong together, from our own evidence or from MLPerf's logs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from mlperf_logging.mllog import constants as keys

from suite.mlperf import lines
from suite.plots.charts import Group
from suite.record.history import READ, Event, History, history
from suite.record.parsing import value_at, whole
from suite.review.excerpt import content_of
from suite.review.model import Log, Report
from suite.store.disk import UnsafeFile

MAX_GROUPS = 20  # on the page, those that fail first
MAX_RUNS = 20  # of a group
MAX_BYTES = 64 << 20


def groups(report: Report, root: Path) -> list[Group]:
    """What to draw of the review of `root`."""
    return list(_of_suite(report) if report.results else _of_mlperf(report, root))


def _of_suite(report: Report) -> Iterator[Group]:
    for result in sorted(report.results, key=lambda result: all(f.severity == "note" for f in result.findings))[
        :MAX_GROUPS
    ]:
        made, test = result.convergence, ""
        if made and made.reference and made.minimum is not None and made.interval is not None:
            needs, low, high = made.reference.mean, *made.interval
            test = (
                f"{made.mean:,.0f} samples to the target (olympic mean); the reference needs {needs:,.0f}, at least "
                f"{made.minimum:,.0f} pass (p = {made.p_value:.3g}, 90 % interval {low:,.0f} to {high:,.0f})"
            )
        yield Group(
            title=result.path,
            metric=result.benchmark.metric if result.benchmark else "quality",
            target=result.benchmark.target if result.benchmark else None,
            runs=[(run.path.removeprefix(f"{result.path}/"), run.history) for run in result.runs[:MAX_RUNS]],
            reference=made.curves if made else (),
            test=test,
            outcome=made.outcome if made and test else "",
        )


def _of_mlperf(report: Report, root: Path) -> Iterator[Group]:
    folders = [(folder, list(logs)) for folder, logs in groupby(report.logs, lambda log: log.path.rpartition("/")[0])]
    folders.sort(key=lambda folder: all(log.verdict == "pass" for log in folder[1]))
    for folder, logs in folders[:MAX_GROUPS]:
        drawn = ((log.path.removeprefix(f"{folder}/"), log) for log in logs[:MAX_RUNS])
        runs = [(name, history_of(log, root, report.ruleset)) for name, log in drawn]
        yield Group(title=folder, metric="eval_accuracy", target=None, runs=runs)


def history_of(log: Log, root: Path, ruleset: str) -> History:
    """The history of an MLPerf log below `root`; empty where it cannot be read."""
    if (content := content_of(root, log.path, MAX_BYTES)) is None:
        return History()
    try:
        found = lines.read(content, ruleset, READ)
    except UnsafeFile:
        return History()
    events = []
    for line in found.lines:
        value = value_at(line.value, "value")  # in 0.6 a line's own value may be anything
        samples = whole(value_at(line.value, "metadata", keys.SAMPLES_COUNT))
        events.append(Event(line.timestamp / found.second, line.key, value, samples))
    return history(events)
