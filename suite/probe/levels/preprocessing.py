"""Quality that a trained model loses where the evaluation's data is prepared by another library, or wrongly.

Pictures are altered in ways that fit any picture; `tasks/<task>/preprocessing.py` has the task's own alterations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from suite.errors import UserError
from suite.probe import altering, measuring, training
from suite.probe.record import Cell, Figure, Row
from suite.probe.subject import SEED, Inside, Subject
from suite.probe.training import Trained
from suite.store import files
from suite.store.modules import load_alterations

TAKES = ("samples", "from")
WHOLE = True

Arrays = Mapping[str, np.ndarray]


class Measurement:
    """See `levels.Measurement`. Each repeat trains a model by a seed of its own; a kept state is looked at once."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.inside = subject, subject.inside()
        if subject.conditions.mode != "train":
            raise UserError(f"mode={subject.conditions.mode}: level=preprocessing trains a model, then has it predict")
        self.altered: dict[str, Arrays] = {}
        self.missing: dict[str, str] = {}
        for name, alter in self._ways().items():
            try:
                self.altered[name] = {**self.inside.data, **alter()}
            except (ImportError, UserError) as error:
                self.missing[name] = str(error)
        if not self.altered:
            raise UserError(
                f"level=preprocessing: {self.inside.benchmark.name} has no pictures, and no tasks/"
                f"{self.inside.benchmark.task}/preprocessing.py says how else its evaluation could be prepared"
            )
        self.trained: list[Trained] = []
        self.qualities: dict[str, list[float | None]] = defaultdict(list)

    def repeat(self) -> None:
        """See `levels.Measurement`."""
        conditions, seed = self.subject.conditions, SEED + len(self.trained)
        if conditions.state and self.trained:
            return
        kept = conditions.state and training.kept(self.subject, Path(conditions.state))
        model = kept or training.train(self.subject, seed)
        self.trained.append(model)
        for name, data in self.altered.items():
            inside = self.subject.inside(seed)  # anew: an implementation keeps the arrays that it predicted first
            inside.made.load_state_dict(model.state)
            self.qualities[name].append(training.quality(inside, self._drawn(data, inside)))
        self.trained[-1] = replace(model, state={})

    def found(self) -> Cell:
        """See `levels.Measurement`."""
        metric, higher = self.inside.benchmark.metric, self.inside.benchmark.direction == "higher"
        rows = []
        for name, qualities in self.qualities.items():
            pairs = [
                (found, whole.quality)
                for found, whole in zip(qualities, self.trained, strict=True)
                if found is not None and whole.quality is not None
            ]
            quality = measuring.mean([found for found, _ in pairs], "")
            lost = measuring.mean([whole - found if higher else found - whole for found, whole in pairs], "")
            why = "" if len(pairs) == len(qualities) else "predictions that cannot be scored"
            values = {metric: quality.value, "lost": lost.value, "from": lost.low, "to": lost.high, "why": why}
            rows.append(Row(name=name, values=values))
        rows.sort(key=lambda row: -(row.number("lost") or 0))
        rows += [Row(name=name, values={"why": f"unavailable: {why}"}) for name, why in self.missing.items()]
        figures = {
            metric: measuring.mean([each.quality for each in self.trained if each.quality is not None], ""),
            "samples": measuring.mean([each.samples for each in self.trained], ""),
            "most lost": Figure(value=rows[0].number("lost"), unit=""),
        }
        columns = {metric: "", "lost": f"of {metric}", "from": "", "to": "", "why": ""}
        return Cell(conditions=self.subject.conditions, figures=figures, columns=columns, rows=rows)

    def _ways(self) -> dict[str, Callable[[], Arrays]]:
        benchmark, data = self.inside.benchmark, self.inside.data
        ways: dict[str, Callable[[], Arrays]] = dict(altering.alterations(data))
        if own := load_alterations(benchmark.task):
            folder = files.ensure(benchmark.dataset, files.root(self.subject.data_dir))
            ways |= own.alterations(benchmark.scale, folder, data)
        return ways

    def _drawn(self, data: Arrays, inside: Inside) -> Arrays:
        """The altered arrays, and the others as the task drew them for this seed."""
        return {**inside.data, **{name: data[name] for name in data if data[name] is not self.inside.data.get(name)}}


measurement = Measurement
