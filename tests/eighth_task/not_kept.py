"""Promises that a task or an implementation does not keep, and that a check alone finds out: a run could not tell."""

import numpy as np

from suite.errors import BadPrediction
from tests.eighth_task.spoiling import (
    IMPLEMENTATION,
    TASK,
    answering,
    declaring,
    having,
    method,
    peeking,
    recount,
    returning,
)


def unseeded(arrays):
    return {**arrays, "train_points": np.random.default_rng().normal(size=(1000, 2))}


def forget(true):
    def load_state_dict(self, state):
        true(self, {**state, "weights": np.round(state["weights"], 3)})

    return load_state_dict


def stale(true):
    """Loads weights, but not how far it was."""

    def load_state_dict(self, state):
        self.weights = state["weights"].copy()

    return load_state_dict


def once(true):
    """Prepares at the first call of its life, not whenever training begins."""

    def train_until(self, samples):
        if not hasattr(self, "prepared") and self.samples == 0:
            self.weights = self.weights + 1
        self.prepared = True
        return true(self, samples)

    return train_until


def drifting(true):
    """Predicting moves the weights."""

    def predict(self, data):
        self.weights = self.weights * 1.001
        return true(self, data)

    return predict


def remembering(true):
    """Predicts for the first arrays that it was ever given."""

    def predict(self, data):
        self.kept = getattr(self, "kept", data)
        return true(self, self.kept)

    return predict


def lenient(true):
    return lambda predictions, data: {"accuracy": 0.5}


def strict(true):
    return lambda predictions, data: {"accuracy": float(np.mean(np.array(predictions) == data["answer_sides"]))}


def numeric(kind):
    """A score that squares numbers, of whatever size if they are of this kind."""

    def scoring(true):
        def score(predictions, data):
            for line, each in enumerate(predictions, 1):
                if type(each) not in (int, float) or (type(each) is not kind and not abs(each) < 100):
                    raise BadPrediction(line, "no number")
            if len(predictions) != len(data["answer_sides"]):
                raise BadPrediction(0, "wrong number of predictions")
            numbers = np.array([float(each) for each in predictions])
            with np.errstate(over="ignore"):
                return {"accuracy": float(1 - np.mean((numbers - data["answer_sides"]) ** 2))}

        return score

    return scoring


# What is wrong, the promise that is not kept, and what was found. A run could not tell.
NOT_KEPT = {
    "the sums are missing": (
        declaring(lambda scale: scale["dataset"].pop("arrays")),
        "sums and sizes of the data are declared",
        "other sums of answer_sides, test_points, train_points, train_sides than the data has",
    ),
    "a size is missing": (
        declaring(lambda scale: scale["dataset"].pop("eval_samples")),
        "sums and sizes of the data are declared",
        "eval_samples 0 than the data has",
    ),
    "prepare draws without a seed": (
        returning("prepare", unseeded),
        "sums and sizes of the data are declared",
        "prepare makes another 'train_points' each time",
    ),
    "the answers have a second name": (
        returning("prepare", lambda arrays: {**arrays, "test_sides": arrays["answer_sides"]}),
        "no array but answer_* holds the answers",
        "'test_sides', which implementations are given, is 'answer_sides'",
    ),
    "evaluation arrays know one seed": (
        having(TASK, evaluation_arrays=lambda _: lambda data, seed: {"test_noise": np.zeros(3)}),
        "a run's evaluation arrays are those of its seed",
        "evaluation_arrays makes the same of seeds 1 and 2",
    ),
    "evaluation arrays are drawn from entropy": (
        having(TASK, evaluation_arrays=lambda _: lambda data, seed: {"test_noise": np.random.default_rng().random(3)}),
        "a run's evaluation arrays are those of its seed",
        "evaluation_arrays makes another 'test_noise' each time, of one seed",
    ),
    "the wrong direction": (
        declaring(lambda scale: scale.update(direction="lower")),
        "a few steps do not reach the target",
        "target 0.97, direction lower",
    ),
    "bounds that are too narrow": (
        having(TASK, METRICS={"accuracy": (0.99, 1.0)}),
        "score is finite or nan, within METRICS, the same each time",
        "METRICS says from 0.99 to 1",
    ),
    "build looks at the training data": (
        peeking("train_points"),
        "build reads no training data",
        "build reads 'train_points'",
    ),
    "build copies the training data": (
        peeking("train_sides", np.array),
        "build reads no training data",
        "build reads 'train_sides'",
    ),
    "a batch of another size": (
        answering("train_until", recount(lambda samples: samples * 2)),
        "train_until counts whole steps, at least one",
        "train_until(1) of reference_impls.parity.numpy stopped at 40 samples, in steps of 20",
    ),
    "predict clings to its first arrays": (
        method("predict", remembering),
        "predict answers for the arrays that it is given",
        "a second predict asks for none of its arrays (test_points)",
    ),
    "predict changes the model": (
        method("predict", drifting),
        "predict leaves the state as it was",
        "'weights' has changed",
    ),
    "the seed is not used": (
        having(IMPLEMENTATION, build=lambda true: lambda hyper, data, seed, device: true(hyper, data, 1, device)),
        "another seed gives another trajectory",
        "seeds 1 and 2 end in the same state",
    ),
    "a state is rounded": (
        method("load_state_dict", forget),
        "a second implementation takes over the state, bit by bit",
        "'weights' is not what was loaded",
    ),
    "a state is half loaded": (
        method("load_state_dict", stale),
        "from a state, training goes on as if never stopped",
        "differs after",
    ),
    "it prepares once in its life": (
        method("train_until", once),
        "from its initial state, training begins anew",
        "'weights' differs when a trained implementation begins anew",
    ),
    "tuples as predictions": (
        answering("predict", lambda sides: [(side,) for side in sides]),
        "predictions are values that JSON gives back",
        "prediction 0 is (",
    ),
    "score takes anything": (
        having(TASK, score=lenient),
        "score refuses wrong predictions by BadPrediction",
        "score returned {'accuracy': 0.5} for no predictions",
    ),
    "score stumbles": (
        having(TASK, score=strict),
        "score refuses wrong predictions by BadPrediction",
        "for no predictions",
    ),
    "score stumbles over a whole number of any length": (
        having(TASK, score=numeric(int)),
        "score refuses wrong predictions by BadPrediction",
        "int too large to convert to float, for the prediction 1000",
    ),
    "score squares numbers of any size": (
        having(TASK, score=numeric(float)),
        "score refuses wrong predictions by BadPrediction",
        "'accuracy', scored by parity, is a float, -inf, for the prediction 1e+200",
    ),
}
