"""An implementation on several workers: each call of the leader's goes to the followers first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from suite.errors import WorkerLost
from suite.harness.contract import Checked
from suite.harness.implementation import TrainStats
from suite.harness.workers.leading import Followers
from suite.record.states import state_sha256


class Led:
    """The leader's implementation, `own`, whose calls the followers make as well."""

    def __init__(self, own: Checked, followers: Followers) -> None:
        self.own, self.followers = own, followers

    @classmethod
    def build(cls, make: Callable[[], Checked], followers: Followers, **given: Any) -> Led:
        """Build the leader's implementation by `make`, while the followers build theirs from `given`."""
        followers.needed = True
        followers.raise_if_lost()
        followers.tell("build", addresses=followers.addresses, advice=followers.advice, **given)
        followers.reserved.close()
        own, _ = followers.with_own(make)
        for each in followers.each:
            each.channel.built()
        return cls(own, followers)

    def train_until(self, samples: int) -> TrainStats:
        """Train on all workers; return the samples all have seen, and the mean loss over their shares of a batch."""
        self.followers.tell("train_until", samples=samples)
        stats, others = self.followers.with_own(lambda: self.own.train_until(samples))
        for follower, each in zip(self.followers.each, others, strict=True):
            if each["samples"] != stats.samples:
                raise WorkerLost(f"{follower.name} has seen {each['samples']} samples, the leader {stats.samples}")
        losses = [stats.loss, *(each["loss"] for each in others)]
        known = [loss for loss in losses if loss is not None]
        return TrainStats(stats.samples, sum(known) / len(known) if len(known) == len(losses) else None)

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The predictions of all workers' shares, in order."""
        self.followers.tell("predict")
        predictions, others = self.followers.with_own(lambda: self.own.predict(data))
        if not any(each["predictions"] for each in others):
            return predictions
        return [*predictions, *(prediction for each in others for prediction in each["predictions"])]

    def state_dict(self) -> dict[str, np.ndarray]:
        """The state, bit for bit the same on all workers. Raises WorkerLost that names one with another state."""
        self.followers.tell("state_dict")
        (state, sha256), others = self.followers.with_own(self._state_and_sum)
        for follower, each in zip(self.followers.each, others, strict=True):
            if each["sha256"] != sha256:
                raise WorkerLost(
                    f"{follower.name} has another state, sha256 {each['sha256']}, than the leader, {sha256}"
                )
        return state

    def _state_and_sum(self) -> tuple[dict[str, np.ndarray], str]:
        state = self.own.state_dict()
        return state, state_sha256(state)

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Load the state on all workers."""
        self.followers.tell("load_state_dict", state)
        self.followers.with_own(lambda: self.own.load_state_dict(state))
