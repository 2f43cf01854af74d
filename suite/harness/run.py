"""One run of a session: its folder, its log, and what watches it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from suite.config.logkeys import ENVIRONMENT
from suite.harness import begun
from suite.harness.session import Session
from suite.measure.cost import price_per_hour
from suite.measure.machine import Machine
from suite.measure.noise import Environment
from suite.measure.sampler import Sampler
from suite.measure.systems import power_ceiling
from suite.record import evidence
from suite.record.mllog import Log
from suite.record.terminal import Terminal
from suite.record.tracking import Tracker

if TYPE_CHECKING:
    from suite.record.witness import Witness


@dataclass
class Run:
    """Run number `index`, from 1, with its evidence in `folder` and its `log` there."""

    session: Session
    index: int
    folder: Path
    log: Log
    tracker: Tracker | None = field(init=False)
    machine: Machine = field(init=False)  # as in the evidence, from which a review derives cost and energy again
    sampler: Sampler = field(init=False)
    terminal: Terminal = field(init=False)
    witness: Witness | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        session, plan, now_ms = self.session, self.session.plan, self.log.now_ms
        self.tracker = Tracker(self.folder) if session.mlflow else None
        self.machine = begun.machine(self.folder, session.machine) if self.log.lines else session.machine
        ceiling, kind, nodes = power_ceiling(plan.system, self.machine), plan.system.device_kind, plan.system.nodes
        self.sampler = Sampler(self.folder / evidence.POWER, now_ms, ceiling, kind, session.workers, nodes)
        runs = len(plan.seeds)
        what = plan.contestant.name if plan.contestant else plan.framework.name
        title = f"{plan.benchmark.name} {what}" + (f" run {self.index}/{runs}" if runs > 1 else "")
        price = price_per_hour(plan.system, self.machine)
        currency = plan.system.price.currency if plan.system.price else None
        energy = self.sampler.so_far
        self.terminal = Terminal(session.console, title, plan.benchmark, price, currency, energy, now_ms)
        for line in self.log.lines:
            self.terminal.recall(line)
        self.log.listeners.append(self.terminal.line)
        if plan.witness:
            from suite.record import witness  # only if used: importing it takes 0.2 s

            self.witness = witness.Witness(plan.witness, self.folder)
            self.log.listeners.append(self.witness.line)

    def environment(self, when: str, found: Environment) -> None:
        """Log a verdict of the environment gate."""
        value = "noisy" if found.noisy else "quiet"
        self.log.event(ENVIRONMENT, value, when=when, reasons=list(found.reasons), **found.figures)
