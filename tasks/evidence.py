"""What a run predicted, for the commands that show it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suite.errors import BadPrediction, UserError
from suite.record.evidence import CONFIG, PREDICTIONS
from suite.record.parsing import decoded, json_value, yaml_mapping
from suite.store.disk import read_safely, reason
from suite.store.task import Task


def predicted(run: Path, task: str, scales: Collection[str]) -> tuple[str, list[Any]]:
    """The scale and the predictions of the run in the evidence folder `run`.

    Raises UserError if they cannot be read, if there are none, and if the run is of another task or scale.
    """
    try:
        config, _ = yaml_mapping(read_safely(run / CONFIG))
        lines = read_safely(run / PREDICTIONS).splitlines()
        found = [json_value(decoded(line)) for line in lines]
    except (OSError, ValueError) as error:
        raise UserError(f"{run}: {_file(error)}{reason(error)}: name the evidence folder of a run") from error
    trained, scale = (str(config.get(name)) for name in ("task", "scale"))
    if trained != task or scale not in scales:
        wanted = " or ".join(f"{task}/{each}" for each in scales)
        raise UserError(f"{run} holds a run of {trained}/{scale}: name one of {wanted}")
    if not found:
        raise UserError(f"{run} has no predictions: name a run that was evaluated")
    return scale, found


def require_scored(run: Path, task: Task, predictions: Sequence[Any], data: Mapping[str, np.ndarray]) -> None:
    """Raise UserError, which names the line, if the task refuses the predictions of the run in the folder `run`."""
    try:
        task.score(predictions, data)
    except BadPrediction as error:
        line = f", line {error.line}" if error.line else ""
        raise UserError(f"{run}: {PREDICTIONS}{line}: {error}: a review refuses them, too") from error


def _file(error: Exception) -> str:
    return f"{Path(error.filename).name}: " if isinstance(error, OSError) and error.filename else ""
