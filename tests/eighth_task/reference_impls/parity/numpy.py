"""Logistic regression."""

import os
import sys
import time

import numpy as np

from suite.harness.implementation import TrainStats

ACCELERATORS = 1
STALL_AT = "PARITY_STALL_AT"  # a number of samples, at which training never ends: whoever is to be killed waits there


class LogisticRegression:
    def __init__(self, hyperparameters, data, seed):
        assert set(data) == {"train_points", "train_sides"}
        self.hyper, self.data, self.seed = hyperparameters, data, seed
        self.weights, self.samples = np.random.default_rng(seed).normal(size=2), 0

    def train_until(self, samples):
        size = self.hyper["global_batch_size"]
        while True:
            time.sleep(self.hyper["milliseconds_per_step"] / 1000)
            chosen = np.random.default_rng([self.seed, self.samples]).integers(0, 1000, size)
            points, sides = self.data["train_points"][chosen], self.data["train_sides"][chosen]
            probability = 1 / (1 + np.exp(-points @ self.weights))
            self.weights -= self.hyper["opt_base_learning_rate"] * points.T @ (probability - sides) / size
            self.samples += size
            if self.samples >= float(os.environ.get(STALL_AT, "inf")):
                print("stalled", file=sys.stderr, flush=True)
                while True:
                    time.sleep(1)
            if self.samples >= samples:
                return TrainStats(self.samples, float(np.mean(np.abs(probability - sides))))

    def predict(self, data):
        assert set(data) == {"test_points"}
        return [int(side) for side in data["test_points"] @ self.weights > 0]

    def state_dict(self):
        return {"weights": self.weights.copy(), "samples": np.array(self.samples)}

    def load_state_dict(self, state):
        self.weights, self.samples = state["weights"].copy(), int(state["samples"])


def build(hyperparameters, data, seed, device):
    return LogisticRegression(hyperparameters, data, seed)
