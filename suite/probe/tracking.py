"""A probe in MLflow: one run, logged only once, with the options, each figure of each cell, and the files."""

from __future__ import annotations

import calendar
import hashlib
import tempfile
import time
from pathlib import Path

from suite.errors import UserError
from suite.probe import page, record
from suite.probe.record import Conditions, Probe
from suite.record.tracking_server import METRICS_PER_REQUEST, PATIENCE_S, connect, experiment, locked, only, reached
from suite.record.view import MAX_KEY, MAX_TEXT, plain_key

EXPERIMENT = "probe"
ID_TAG = "suite.probe_id"
LEVEL_TAG = "suite.probe"
ARTIFACTS = "probe"
PAGE = "probe.html"


def track(folder: Path) -> None:
    """Bring the probe of a folder into MLflow, at the tracking server that runs go to.

    Raises BehindError where MLflow does not take it; UserError for a folder that holds no probe.
    """
    probe = record.read(folder)
    identity = hashlib.sha256(probe.model_dump_json().encode()).hexdigest()
    ended = _milliseconds(probe.date)
    with reached():
        from mlflow.entities import Metric, Param

        client = connect()
        with locked(identity, PATIENCE_S):
            at = experiment(client, EXPERIMENT)
            found = only(client, at, ID_TAG, identity)
            if found and found.info.status == "FINISHED":
                return
            run = found or client.create_run(at, ended, {ID_TAG: identity, **tags(probe)}, title(probe))
            name = run.info.run_id
            client.log_batch(name, params=[Param(key, value) for key, value in parameters(probe).items()])
            measured = [Metric(key, value, ended, 0) for key, value in metrics(probe).items()]
            for start in range(0, len(measured), METRICS_PER_REQUEST):
                client.log_batch(name, measured[start : start + METRICS_PER_REQUEST])
            with tempfile.TemporaryDirectory() as made:
                record.write(probe, Path(made))
                (Path(made) / PAGE).write_text(page.html(probe))
                client.log_artifacts(name, made, ARTIFACTS)
            client.set_terminated(name, "FINISHED", ended)


def title(probe: Probe) -> str:
    """The name of the run: the level, and what was measured."""
    return f"{probe.level} of {', '.join(dict.fromkeys(cell.conditions.name for cell in probe.cells))}"[:MAX_KEY]


def tags(probe: Probe) -> dict[str, str]:
    """The tags by which MLflow lists a probe."""
    return {LEVEL_TAG: probe.level, "system": probe.system, "noisy": str(bool(probe.noisy)).lower()}


def parameters(probe: Probe) -> dict[str, str]:
    """The options as on the command line; a sweep's values as a list."""
    found = {"level": probe.level, "repeats": str(probe.repeats), "seconds": f"{probe.seconds:g}"}
    for name in Conditions.model_fields:
        values = dict.fromkeys(getattr(cell.conditions, name) for cell in probe.cells)
        if given := [str(each) for each in values if each is not None]:
            found[name] = ",".join(given)[:MAX_TEXT]
    return found


def metrics(probe: Probe) -> dict[str, float]:
    """Each known figure and the ends of its interval, by the name of the figure and of its cell."""
    found: dict[str, float] = {}
    for cell in probe.cells:
        for name, figure in cell.figures.items():
            key = f"{plain_key(name)}/{plain_key(cell.conditions.described)}"
            known = {key: figure.value, f"{key}/low": figure.low, f"{key}/high": figure.high}
            found |= {each: value for each, value in known.items() if value is not None}
    return found


def _milliseconds(date: str) -> int:
    try:
        return calendar.timegm(time.strptime(date, "%Y-%m-%dT%H:%M:%SZ")) * 1000
    except ValueError as error:
        raise UserError(f"a probe ended at {date!r}, which is no time") from error
