"""Digits by the nearest mean, in numpy. Every worker sees each whole batch, so that all are alike without a word.

FAULT=FAULTY_RANK:NAME in the environment lets the worker of that rank do something else.
"""

import os
import sys
import time

import numpy as np

from suite.harness.implementation import TrainStats

ACCELERATORS = 4
PRECISIONS = ("fp32", "bf16")


class NearestMean:
    def __init__(self, hyper, data, seed, device):
        self.size, self.data, self.device = hyper["global_batch_size"], data, device
        rank, _, fault = os.environ.get("FAULT", "-1:").partition(":")
        self.fault = fault if int(rank) == device.rank else ""
        self.order = np.random.default_rng(seed).permutation(len(data["train_images"]))
        self.sums, self.counts, self.step = np.zeros((10, 64)), np.zeros(10), 0
        if self.fault == "waits":
            time.sleep(600)

    def train_until(self, samples):
        while self.step * self.size < samples:
            chosen = self.order[(np.arange(self.size) + self.step * self.size) % len(self.order)]
            images = self.data["train_images"][chosen].reshape(len(chosen), -1)
            np.add.at(self.sums, self.data["train_labels"][chosen], images)
            np.add.at(self.counts, self.data["train_labels"][chosen], 1)
            self.step += 1
        if self.fault == "another state":
            self.sums += 1
        if self.fault == "exits":
            sys.exit()
        if self.fault == "raises":
            raise RuntimeError("out of memory")
        if self.fault == "dies" and self.step * self.size >= 4000:
            os._exit(9)
        return TrainStats(self.step * self.size + (self.fault == "miscounts"), float(self.device.rank))

    def predict(self, data):
        images = np.array_split(data["test_images"], self.device.world_size)[self.device.rank]
        means = self.sums / np.maximum(self.counts, 1)[:, None]
        distances = ((images.reshape(len(images), 1, -1) - means) ** 2).sum(2)
        nearest = distances.argmin(1)
        return list(nearest) if self.fault == "no JSON" else nearest.tolist()

    def state_dict(self):
        return {"sums": self.sums.copy(), "counts": self.counts.copy(), "step": np.array(self.step)}

    def load_state_dict(self, state):
        self.sums, self.counts, self.step = state["sums"].copy(), state["counts"].copy(), int(state["step"])


def build(hyperparameters, data, seed, device):
    return NearestMean(hyperparameters, data, seed, device)
