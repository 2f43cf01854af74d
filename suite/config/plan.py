"""The plan of a command: which benchmark, system, framework and seeds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from suite import __version__
from suite.config.contestant import Contestant
from suite.config.models import Benchmark, Framework, Precision, System

Checkpointing = Literal["last", "keep"]  # the last state while the run lasts, or that at each evaluation too


@dataclass(frozen=True)
class Plan:
    """What a command will do: `len(seeds)` runs of one benchmark on one system, together one result.

    `token` is that of the round that drew the seeds, None if none did; `witness` is the address of a time-stamping
    authority, None if none is asked. `contestant` is the implementation that trains, None for the reference.
    """

    benchmark: Benchmark
    system: System
    framework: Framework
    precision: Precision
    seeds: tuple[int, ...]
    token: str | None
    result_id: str
    submitter: str
    division: str
    status: str
    witness: str | None
    out: Path
    checkpoints: Checkpointing = "last"
    contestant: Contestant | None = None

    @property
    def declared(self) -> dict[str, str]:
        """What the submitter says of the result, which log, configuration and system description repeat."""
        return {"submitter": self.submitter, "division": self.division, "status": self.status}

    def folder(self, index: int) -> Path:
        """The evidence folder of run `index`, which counts from 1."""
        return self.out / f"run_{index}" if len(self.seeds) > 1 else self.out

    def resolved(self, index: int) -> dict[str, Any]:
        """The content of `config.yaml` of run `index`: all that determines what the run does, no path of a machine."""
        return {
            "suite_version": __version__,
            "task": self.benchmark.task,
            "scale": self.benchmark.scale,
            "framework": self.framework.name,
            "implementation": self.contestant.model_dump() if self.contestant else None,
            "precision": self.precision,
            "device": self.system.device_kind,
            "checkpoints": self.checkpoints,
            **self.declared,
            "run_id": f"{self.result_id}-{index}",
            "result_id": self.result_id,
            "run_index": index,
            "runs": len(self.seeds),
            "token": self.token,
            "seed": self.seeds[index - 1],
            "seeds": list(self.seeds),
            "witness": self.witness,
            "system": self.system.model_dump(mode="json"),
            "benchmark": self.benchmark.model_dump(mode="json"),
        }
