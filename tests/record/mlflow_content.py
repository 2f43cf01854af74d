"""All that MLflow holds, read with its own client, so that two states can be compared."""

from __future__ import annotations

from typing import Any

from mlflow import MlflowClient


def content(uri: str) -> list[dict[str, Any]]:
    """One entry for each run: tags, params, every metric point, artifacts, status; parents last."""
    client = MlflowClient(uri)
    runs = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    return sorted(
        (
            {
                "id": run.info.run_id,
                "name": run.info.run_name,
                "status": run.info.status,
                "times": (run.info.start_time, run.info.end_time),
                "tags": run.data.tags,
                "params": run.data.params,
                "points": {
                    key: sorted((m.step, m.timestamp, m.value) for m in client.get_metric_history(run.info.run_id, key))
                    for key in run.data.metrics
                },
                "artifacts": sorted(file.path for file in client.list_artifacts(run.info.run_id, "evidence")),
            }
            for run in runs
        ),
        key=lambda run: str(run["tags"].get("suite.run_id", "~")),
    )
