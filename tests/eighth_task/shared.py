"""Logistic regression by several workers, which share out each batch: `implementation=` of the eighth task."""

import time

import numpy as np
import torch
import torch.distributed as dist

from reference_impls.torch_workers import Workers
from suite.harness.implementation import TrainStats

ACCELERATORS = 16


class LogisticRegression:
    def __init__(self, hyperparameters, data, seed, device):
        self.hyper, self.data, self.seed, self.device = hyperparameters, data, seed, device
        self.weights, self.samples = np.random.default_rng(seed).normal(size=2), 0
        Workers(device)

    def train_until(self, samples):
        size = self.hyper["global_batch_size"]
        while True:
            time.sleep(self.hyper["milliseconds_per_step"] / 1000)
            chosen = self.share(np.random.default_rng([self.seed, self.samples]).integers(0, 1000, size))
            points, sides = self.data["train_points"][chosen], self.data["train_sides"][chosen]
            probability = 1 / (1 + np.exp(-points @ self.weights))
            gradient = torch.from_numpy(points.T @ (probability - sides))
            if self.device.world_size > 1:
                dist.all_reduce(gradient)
            self.weights -= self.hyper["opt_base_learning_rate"] * gradient.numpy() / size
            self.samples += size
            if self.samples >= samples:
                return TrainStats(self.samples, float(np.mean(np.abs(probability - sides))))

    def share(self, array):
        return np.array_split(array, self.device.world_size)[self.device.rank]

    def predict(self, data):
        return [int(side) for side in self.share(data["test_points"]) @ self.weights > 0]

    def state_dict(self):
        return {"weights": self.weights.copy(), "samples": np.array(self.samples)}

    def load_state_dict(self, state):
        self.weights, self.samples = state["weights"].copy(), int(state["samples"])


def build(hyperparameters, data, seed, device):
    return LogisticRegression(hyperparameters, data, seed, device)
