"""What the host does between the calls of a step in PyTorch, by a clock that the tests move on."""

from types import SimpleNamespace

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from suite import config
from suite.bricks.frameworks import torch_recording
from suite.harness.implementation import TrainStats
from suite.probe.workload import Training
from tests.probe.made import Calls


class Taking(TorchFunctionMode):
    """A clock that only what functions of torch are said to take moves on, and what is added to `now` and `waited`."""

    def __init__(self, monkeypatch, takes):
        super().__init__()
        self.now, self.waited, self.takes = 0.0, 0.0, takes
        clocks = SimpleNamespace(thread_time=lambda: self.now, perf_counter=lambda: self.now + self.waited)
        monkeypatch.setattr(torch_recording, "time", clocks)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.now += self.takes.get(func, 0.0)
        return func(*args, **(kwargs or {}))


def test_what_the_host_does_between_the_calls(monkeypatch):
    def wait():
        clock.now += 1.0
        torch.linalg.svdvals(torch.eye(3))
        torch.matmul(torch.ones(3, 3), torch.ones(3, 3))

    # the second has no brick
    with Taking(monkeypatch, {torch.matmul: 8.0, torch.linalg.svdvals: 2.0}) as clock:
        assert torch_recording.between(Calls(wait), 2) == 1.0 + 2.0


def test_a_step_waits_between_the_calls_for_other_processes(monkeypatch):
    """As for environments, whose rules are computed in processes of their own."""
    plays = iter((5.0, 4.0, 0.0, 6.0))  # each try whole, then call by call

    def play():
        clock.waited += next(plays)
        torch.matmul(torch.ones(3, 3), torch.ones(3, 3))
        clock.waited += 0.5

    with Taking(monkeypatch, {torch.matmul: 8.0}) as clock:
        assert torch_recording.between(Calls(play), 2) == 4.0 + 0.5


def test_what_the_host_does_is_told_of_one_step_where_batches_differ(monkeypatch):
    lengths = (1.0, 9.0, 4.0, 2.0, 8.0, 3.0)

    class Translating:
        """A call takes as long as a batch's sentences are, and the first step after a state as an epoch's order."""

        def __init__(self):
            self.samples = self.began = 0

        def state_dict(self):
            return {"samples": np.asarray(self.samples)}

        def load_state_dict(self, state):
            self.samples = self.began = int(state["samples"])

        def train_until(self, samples):
            while self.samples < samples:
                clock.now += 50.0 if self.samples == self.began else 1.0
                clock.takes = {torch.matmul: lengths[self.samples % len(lengths)]}
                torch.matmul(torch.ones(3, 3), torch.ones(3, 3))
                self.samples += 1
            return TrainStats(self.samples, None)

    with Taking(monkeypatch, {}) as clock:
        workload = Training(Translating(), config.benchmark("translation", "mini"))
        for _ in lengths:
            assert torch_recording.between(workload, 3) == 1.0
            workload.run(1)
