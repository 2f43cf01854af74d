"""A session: the plan of a command, and all that was loaded to make its runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console

from suite.config.plan import Plan
from suite.harness.cache import clear_cache
from suite.harness.contestant import OwnImplementation
from suite.harness.implementation import ImplementationModule
from suite.harness.workers.leading import Followers
from suite.measure.machine import Machine
from suite.record import system
from suite.store.task import Task


@dataclass(frozen=True)
class Session:
    """What the runs of one plan have in common. `data` holds all arrays of the benchmark, the answers among them.

    `module` is that of the implementation `own`, or of the reference where `own` is None. `followers` are the other
    workers, if any. `resume` holds the options of a command that resumes the runs.
    """

    plan: Plan
    machine: Machine
    task: Task
    module: ImplementationModule
    data: Mapping[str, np.ndarray]
    console: Console
    mlflow: bool
    resume: str
    own: OwnImplementation | None = None
    followers: Followers | None = None

    @property
    def workers(self) -> list[int]:
        """The process ids of the other workers on this node."""
        return self.followers.processes(0) if self.followers else []

    def clear_caches(self) -> bool:
        """Drop the data from the memory of all workers and the page caches of their nodes; False if a system cannot.

        Pages that a worker still maps stay, so only the last worker of a node empties its page cache.
        """
        if self.followers is None:
            return clear_cache(self.data)
        self.followers.tell("clear_cache")
        own, others = self.followers.with_own(lambda: clear_cache(self.data))
        return own and all(each["cleared"] for each in others)

    def description(self) -> dict[str, Any]:
        """What system.json says of the machine, the software and the environment, as they are now."""
        plan = self.plan
        described = system.describe(plan.system, self.machine, plan.framework, plan.declared, plan.contestant)
        others = self.followers.machines() if self.followers else []
        return {**described, **({"other_nodes": others} if others else {})}
