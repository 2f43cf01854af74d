"""Bring a run's view into MLflow exactly once, however often and wherever an attempt breaks off.

MLflow's SQL stores drop a metric point that they already have, its file store does not, and a request that timed out
may still have been carried out. So every connection begins by reading what is there, and only the rest is sent. Only
the creation of a run could happen twice: the duplicate is then found by its tag and deleted.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import AcquireReturnProxy, FileLock

from suite.record.evidence import MANIFEST
from suite.record.scoring import olympic_mean
from suite.record.tracking_server import (
    METRICS_PER_REQUEST,
    PATIENCE_S,
    BehindError,
    connect,
    experiment,
    locked,
    only,
    reached,
)
from suite.record.view import MAX_KEY, Point, View
from suite.store.disk import read_safely

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

RUN_TAG = "suite.run_id"
MANIFEST_TAG = "suite.manifest_sha256"  # of the evidence that was uploaded
RESULT_TAG = "suite.result_id"
PARENT_TAG = "mlflow.parentRunId"
ARTIFACTS = "evidence"
# Tags that the runs of a result differ in.
OF_A_RUN = ("seed", "status", "reason", "noisy", "restarts", "aborted_starts", "energy_source")

_PARAMS_PER_REQUEST = 100  # MLflow's limit


class Mirror:
    """One run's evidence and its copy in MLflow. `update` may be repeated at will, also after it failed."""

    def __init__(self, folder: Path, patience_s: float = 0) -> None:
        """`patience_s`: how long to wait for another process that is at work on the same run."""
        self.view = View(folder)
        self.sent = 0
        self._patience_s = patience_s
        self._client: MlflowClient | None = None
        self._lock: AcquireReturnProxy[FileLock] | None = None
        self._run: Run | None = None
        self._older = False  # whether MLflow has the end of the run, and the log neither that nor, so far, a restart
        self._parent: str | None = None
        self._points: list[Point] = []
        self._present: set[tuple[str, int, int]] = set()
        self._tags: dict[str, str] = {}

    def contact(self) -> None:
        """Import MLflow and ask for one experiment. Raises BehindError when there is no answer."""
        with reached():
            self._client = self._client or connect()
            self._client.search_experiments(max_results=1)

    def update(self) -> None:
        """Send what MLflow does not have yet. If this raises BehindError, a part may have been sent."""
        sealed = self.view.sealed  # asked before the log is read, which is then whole
        self._points += self.view.read()
        if self.view.run_id is None or self.view.started_ms is None:
            return
        try:
            with reached():
                self._client = self._client or connect()
                if self._run is None or self._older:
                    self._open(self._client)
                if not self._older:
                    self._send(self._client)
                if sealed:
                    self._finish(self._client)
        except BehindError:
            self._run = None
            raise

    def close(self) -> None:
        """Let other processes work on the run."""
        if self._lock:
            self._lock.lock.release()

    def _open(self, client: MlflowClient) -> None:
        view = self.view
        assert view.run_id is not None
        assert view.started_ms is not None
        self._lock = self._lock or locked(view.run_id, self._patience_s)
        self._experiment = experiment(client, view.tags.get("benchmark", "")[:MAX_KEY] or "unknown")
        tags = {**view.tags, RUN_TAG: view.run_id}
        title = " ".join(view.tags.get(name, "") for name in ("benchmark", "framework", "system"))
        if view.runs > 1 and view.result_id:
            with locked(view.result_id, PATIENCE_S):
                parent = only(client, self._experiment, RESULT_TAG, view.result_id) or client.create_run(
                    self._experiment,
                    view.started_ms,
                    {k: v for k, v in view.tags.items() if k not in OF_A_RUN} | {RESULT_TAG: view.result_id},
                    f"{title}, {view.runs} runs"[:MAX_KEY],
                )
            self._parent = parent.info.run_id
            if "runs" not in parent.data.params:
                client.log_param(self._parent, "runs", view.runs)
            tags[PARENT_TAG] = self._parent
            title += f", run {view.run_index}"
        run = only(client, self._experiment, RUN_TAG, view.run_id)
        run = run or client.create_run(self._experiment, view.started_ms, tags, title[:MAX_KEY])
        if self._parent and run.data.tags.get(PARENT_TAG) != self._parent:  # the one before was deleted
            client.set_tag(run.info.run_id, PARENT_TAG, self._parent)
        ended = run.info.status != view.status == "RUNNING"
        self._older = ended and "restarts" not in view.tags
        if ended and not self._older:
            client.update_run(run.info.run_id, view.status)
            run = client.get_run(run.info.run_id)
        self._present = {
            (point.key, point.timestamp, point.step)
            for key in run.data.metrics
            for point in client.get_metric_history(run.info.run_id, key)
        }
        self._tags = dict(run.data.tags)
        self._send_params(client, run)
        self._run = run

    def _send_params(self, client: MlflowClient, run: Run) -> None:
        from mlflow.entities import Param

        missing = [Param(k, v) for k, v in self.view.params.items() if k not in run.data.params]
        for at in range(0, len(missing), _PARAMS_PER_REQUEST):
            client.log_batch(run.info.run_id, params=missing[at : at + _PARAMS_PER_REQUEST])

    def _send(self, client: MlflowClient) -> None:
        assert self._run is not None
        from mlflow.entities import Metric, RunTag

        tags = [RunTag(k, v) for k, v in self.view.tags.items() if self._tags.get(k) != v]
        fresh = {(p.key, p.time_ms, p.step): p for p in self._points}
        missing = [point for identity, point in fresh.items() if identity not in self._present]
        for at in range(0, max(len(missing), bool(tags)), METRICS_PER_REQUEST):
            batch = missing[at : at + METRICS_PER_REQUEST]
            metrics = [Metric(p.key, p.value, p.time_ms, p.step) for p in batch]
            client.log_batch(self._run.info.run_id, metrics=metrics, tags=tags if at == 0 else [])
            self.sent += len(batch)
        self._present |= fresh.keys()
        self._tags |= self.view.tags

    def _finish(self, client: MlflowClient) -> None:
        """Send what only a sealed run has, and close the run in MLflow; also its result, if all its runs have ended."""
        view = self.view
        assert self._run is not None
        assert view.run_id is not None
        run_id = self._run.info.run_id
        self._points += view.power()
        self._send(client)
        if (self._run.info.status, self._run.info.end_time) != (view.status, view.ended_ms):
            client.set_terminated(run_id, view.status, view.ended_ms)
        only(client, self._experiment, RUN_TAG, view.run_id)
        if self._parent is not None and view.result_id is not None:
            with locked(view.result_id, PATIENCE_S):
                self._finish_result(client, self._parent)
        manifest = hashlib.sha256(read_safely(view.folder / MANIFEST)).hexdigest()
        if self._run.data.tags.get(MANIFEST_TAG) != manifest:  # last: the store of artifacts may be another server
            for path in view.artifacts():
                client.log_artifact(run_id, str(path), ARTIFACTS)
            client.set_tag(run_id, MANIFEST_TAG, manifest)

    def _finish_result(self, client: MlflowClient, parent_id: str) -> None:
        """Close the parent when all of its runs have ended."""
        parent, runs = client.get_run(parent_id), self.view.runs
        found = client.search_runs([self._experiment], f"tags.`{PARENT_TAG}` = '{parent_id}'", max_results=runs)
        ends = [child.info.end_time for child in found if child.info.status != "RUNNING"]
        if len(ends) < runs:
            return
        whole = not any(child.info.status == "KILLED" for child in found)  # a killed run may go on
        mean = olympic_mean([child.data.metrics.get("time_to_quality_s") for child in found])
        if whole and mean is not None and "time_to_quality_s" not in parent.data.metrics:
            client.log_metric(parent_id, "time_to_quality_s", mean, max(ends), 0)
        if parent.info.end_time != max(ends):
            client.set_terminated(parent_id, "FINISHED", max(ends))
