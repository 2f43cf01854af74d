"""A command as it was planned: the plan of its runs, and what that was made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from suite.config.plan import Plan
from suite.harness.contestant import OwnImplementation, read
from suite.harness.folder import used
from suite.measure.accelerators import nvidia
from suite.measure.machine import Machine
from suite.measure.systems import AUTO
from suite.run.options import Options
from suite.run.planning import from_options
from suite.run.resuming import from_evidence, gone_on_by


@dataclass(frozen=True)
class Planned:
    """The `plan` that `options` make on the machine that was `found`.

    `own` is the implementation that they name, None for the reference; `resumed` is the folder of the run that the
    command goes on with, None where it makes a new result.
    """

    options: Options
    found: Machine
    own: OwnImplementation | None
    resumed: Path | None
    plan: Plan

    @classmethod
    def of(cls, options: Options, found: Machine, resumed: Path | None) -> Planned:
        """Plan a command. Raises UserError for a value that is not allowed or contradicts the resumed run."""
        framework = options.framework if "framework" in options.given else None
        own = read(Path(options.implementation), framework) if options.implementation else None
        plan = from_evidence(resumed, options.given, own) if resumed else from_options(options, found, own)
        return cls(options, found, own, resumed, plan)

    @property
    def resume(self) -> str:
        """The options of a command that goes on with these runs."""
        return gone_on_by(self.plan.out, self.options.given)

    def taken(self) -> str | None:
        """Why no new result can begin in the plan's folder; None if one can."""
        return None if self.resumed else used(self.plan.out, self.resume)

    def unseen(self) -> dict[str, str]:
        """Why a plan for CPUs may have been meant for accelerators; empty if there is no sign of any."""
        if self.resumed or self.options.hw != AUTO or self.plan.system.device_kind != "cpu":
            return {}
        why = nvidia.broken()
        return {"accelerators": f"none, for NVML does not answer ({why}): see python -m suite.doctor"} if why else {}
