"""Points in the plane and the side of a line they lie on."""

import numpy as np

from suite.errors import BadPrediction

METRICS = {"accuracy": (0.0, 1.0)}


def prepare(scale, files):
    points = np.random.default_rng(0).normal(size=(2000, 2)).astype(np.float32)
    sides = (points @ np.float32([2, -1]) > 0).astype(np.uint8)
    return {
        "train_points": points[:1000],
        "train_sides": sides[:1000],
        "test_points": points[1000:],
        "answer_sides": sides[1000:],
    }


def split_sizes(data):
    return {"train_samples": len(data["train_points"]), "eval_samples": len(data["test_points"])}


def score(predictions, data):
    if len(predictions) != len(data["answer_sides"]):
        raise BadPrediction(0, "wrong number of predictions")
    for line, prediction in enumerate(predictions, 1):
        if prediction not in (0, 1):
            raise BadPrediction(line, "not 0 or 1")
    return {"accuracy": float(np.mean(np.asarray(predictions) == data["answer_sides"]))}
