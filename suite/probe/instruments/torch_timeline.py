"""A Chrome trace of steps in PyTorch: what its profiler exports, with regions for run, steps, phases and layers."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.profiler import record_function

from suite.probe.instruments.torch_counting import apart
from suite.probe.instruments.torch_watch import Places, Watched
from suite.probe.tracing import LAYER, OPERATOR, PHASE, RUN, STEP, Timeline

KINDS = {"cpu_op": OPERATOR, "kernel": "kernel"}  # by the profiler's categories


class Regions(Places):
    """Makes each phase and each layer's forward pass a region of the profiler, one within the other."""

    def __init__(self) -> None:
        super().__init__(self._phase)
        self.open: list[Any] = []  # regions of layers, after that of the phase

    def close(self) -> None:
        """End the current phase and the layers in it."""
        while self.open:
            self.open.pop().__exit__(None, None, None)

    def _phase(self, phase: str) -> None:
        self.close()
        self._enter(f"{PHASE} {phase}")

    def _enter(self, name: str) -> None:
        region: Any = record_function(name)
        region.__enter__()
        self.open.append(region)

    def _before(self, module: torch.nn.Module, given: Any) -> None:
        super()._before(module, given)
        self._enter(f"{LAYER} {self.names[module]}")

    def _after(self, *given: Any) -> None:
        self.open.pop().__exit__(None, None, None)
        super()._after(*given)


def timeline(watched: Watched, steps: int, path: Path) -> Timeline:
    """See `Instruments.timeline`."""
    workload, regions = watched.workload, Regions()
    workload.ready(steps)
    with apart(), regions.followed(), watched.profiled() as profiler:
        start = time.perf_counter()
        with record_function(RUN):
            for step in range(1, steps + 1):
                with record_function(f"{STEP} {step}"):
                    regions.enter("data")
                    workload.run(1)
                    regions.close()
        seconds = time.perf_counter() - start
    path.parent.mkdir(parents=True, exist_ok=True)
    profiler.export_chrome_trace(str(path))
    return Timeline(steps, seconds, _spans(path))


def _spans(path: Path) -> dict[str, int]:
    """How many spans of each kind the file holds."""
    found: Counter[str] = Counter()
    for event in json.loads(path.read_text())["traceEvents"]:
        kind, first = event.get("cat"), str(event.get("name", "")).partition(" ")[0]
        if kind == "user_annotation" and first in (RUN, STEP, PHASE, LAYER):
            found[first] += 1
        elif kind in KINDS:
            found[KINDS[kind]] += 1
    return dict(found)
