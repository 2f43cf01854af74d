"""Small wrong variants of the eighth task: one mistake each, that its author could have made.

Each is a function of pytest's `monkeypatch` that changes the task's module, the implementation's, or
conf/task/parity.yaml, of which the test has a copy.
"""

import dataclasses
import importlib
import types

import numpy as np
import yaml

from suite.config import folder
from suite.harness.implementation import TrainStats

TASK, IMPLEMENTATION = "tasks.parity", "reference_impls.parity.numpy"


def lacking(module, name):
    """The module without `name`."""
    return lambda patch: patch.delattr(importlib.import_module(module), name)


def having(module, **names):
    """The module with other values, which are made from the true ones where they are functions of them."""

    def apply(patch):
        target = importlib.import_module(module)
        for name, value in names.items():
            made = value(getattr(target, name, None)) if isinstance(value, types.LambdaType) else value
            patch.setattr(target, name, made)

    return apply


def returning(name, change):
    """The task's function `name`, its value changed."""
    return having(TASK, **{name: lambda true: lambda *arguments: change(true(*arguments))})


def answering(name, change):
    """The implementation's method `name`, its value changed."""
    return method(name, lambda true: lambda self, *arguments: change(true(self, *arguments)))


def method(name, make):
    """The implementation's method `name`, made from the true one."""

    def apply(patch):
        model = importlib.import_module(IMPLEMENTATION).LogisticRegression
        patch.setattr(model, name, make(getattr(model, name)))

    return apply


def declaring(change):
    """conf/task/parity.yaml after `change(scale's values)`."""

    def apply(patch):
        path = folder.CONF / "task" / "parity.yaml"
        values = yaml.safe_load(path.read_text())
        change(values["scales"]["mini"])
        path.write_text(yaml.safe_dump(values))
        folder.load.cache_clear()

    return apply


def with_name(name):
    """A state with one more array, of that name."""
    return answering("state_dict", lambda state: {**state, name: np.zeros(1)})


class Tensor:
    """What a framework's tensor is to a harness that knows none."""


def without_metric(metrics):
    return {"acuracy": metrics["accuracy"]}


def recount(change):
    return lambda stats: dataclasses.replace(stats, samples=change(stats.samples))


# What is wrong, and what the one line must say. Told by suite.run as by suite.check.
TOLD = {
    "no build": (lacking(IMPLEMENTATION, "build"), "reference_impls.parity.numpy has no function build."),
    "no ACCELERATORS": (lacking(IMPLEMENTATION, "ACCELERATORS"), "reference_impls.parity.numpy has no ACCELERATORS"),
    "no accelerator": (having(IMPLEMENTATION, ACCELERATORS=0), "has ACCELERATORS 0"),
    "build without device": (
        having(IMPLEMENTATION, build=lambda _: lambda hyperparameters, data, seed: None),
        "build of reference_impls.parity.numpy takes other arguments (too many positional arguments)",
    ),
    "no prepare": (lacking(TASK, "prepare"), "tasks.parity has no function prepare. The contract: prepare(scale, "),
    "no split_sizes": (lacking(TASK, "split_sizes"), "tasks.parity has no function split_sizes."),
    "no score": (lacking(TASK, "score"), "tasks.parity has no function score. The contract: score(predictions, data)"),
    "no METRICS": (lacking(TASK, "METRICS"), "tasks.parity.METRICS is None"),
    "METRICS without bounds": (having(TASK, METRICS=["accuracy"]), "tasks.parity.METRICS is ['accuracy']"),
    "prepare returns a list": (returning("prepare", list), "prepare of parity returned a list"),
    "prepare returns lists": (
        returning("prepare", lambda arrays: {**arrays, "test_points": arrays["test_points"].tolist()}),
        "'test_points', prepared by parity, is a list",
    ),
    "prepare returns objects": (
        returning("prepare", lambda arrays: {**arrays, "test_points": np.array([{}, None])}),
        "'test_points', prepared by parity, is a numpy array of dtype object",
    ),
    "split_sizes of arrays": (
        returning("split_sizes", lambda _: {"eval_samples": np.int64(1000)}),
        "split_sizes of parity returned {'eval_samples': ",
    ),
    "wrong train_samples": (
        declaring(lambda scale: scale["dataset"].update(train_samples=999)),
        "train_samples of points is 999, but its arrays hold 1000",
    ),
    "wrong eval_samples": (
        declaring(lambda scale: scale["dataset"].update(eval_samples=10)),
        "eval_samples of points is 10, but its arrays hold 1000",
    ),
    "misspelt metric": (
        declaring(lambda scale: scale.update(metric="acuracy")),
        "unknown metric of parity/mini 'acuracy': did you mean 'accuracy'? Allowed: accuracy.",
    ),
    "build returns nothing": (
        having(IMPLEMENTATION, build=lambda _: lambda hyperparameters, data, seed, device: None),
        "what build of reference_impls.parity.numpy made has no train_until. The contract: train_until(samples): Take",
    ),
    "a tuple for TrainStats": (
        answering("train_until", lambda stats: (stats.samples, stats.loss)),
        "train_until of reference_impls.parity.numpy returned a tuple. The contract: TrainStats: `samples` seen",
    ),
    "samples as float": (answering("train_until", recount(float)), "returned a float, 20.0 as samples"),
    "loss as array": (
        answering("train_until", lambda stats: TrainStats(stats.samples, np.float32(stats.loss))),
        "returned a numpy.float32, ",
    ),
    "samples that stand still": (
        answering("train_until", recount(lambda _: 0)),
        "train_until(1) of reference_impls.parity.numpy stopped at 0 samples. The contract: train_until(samples)",
    ),
    "tensors in the state": (
        answering("state_dict", lambda state: {**state, "weights": Tensor()}),
        "'weights' in the state_dict of reference_impls.parity.numpy is a tests.Tensor. The contract: state_dict",
    ),
    "objects in the state": (
        answering("state_dict", lambda state: {**state, "weights": np.array([None])}),
        "'weights' in the state_dict of reference_impls.parity.numpy is a numpy array of dtype object",
    ),
    "a state that is a list": (
        answering("state_dict", list),
        "state_dict of reference_impls.parity.numpy returned a list.",
    ),
    "a number as name": (with_name(3), "state_dict of reference_impls.parity.numpy has the name 3"),
    "a name that a file loses": (with_name("weights.npy"), "has the name 'weights.npy'"),
    "a name with a zero": (with_name("a\0b"), "has the name 'a\\x00b'"),
    "predictions in an array": (
        answering("predict", np.array),
        "predict of reference_impls.parity.numpy returned a numpy array of dtype int64. The contract: predict(): One",
    ),
    "numpy's numbers as predictions": (
        answering("predict", lambda sides: [*sides[:2], *map(np.int64, sides[2:])]),
        "prediction 2 (from 0) that predict returned is a numpy.int64, ",
    ),
    "one prediction too few": (answering("predict", lambda sides: sides[1:]), "wrong number of predictions"),
    "a prediction that cannot be scored": (answering("predict", lambda sides: [*sides[:-1], 7]), "not 0 or 1"),
    "score returns a number": (
        returning("score", lambda metrics: metrics["accuracy"]),
        "score of parity returned a float, ",
    ),
    "score returns infinity": (
        returning("score", lambda _: {"accuracy": float("inf")}),
        "'accuracy', scored by parity, is a float, inf. The contract: score(predictions, data): The metrics of",
    ),
    "score returns numpy's number": (
        returning("score", lambda metrics: {"accuracy": np.float32(metrics["accuracy"])}),
        "'accuracy', scored by parity, is a numpy.float32",
    ),
    "score lacks the metric": (
        returning("score", without_metric),
        "score of parity/mini returned 'acuracy' without the benchmark's metric 'accuracy'. The contract: score(",
    ),
    "a field that is missing": (
        declaring(lambda scale: scale["dataset"].pop("licence")),
        "conf/task/parity.yaml: scales.mini.dataset.licence is missing: Its licence.",
    ),
    "a field that is misspelt": (
        declaring(lambda scale: scale["dataset"].update(evl_samples=1000)),
        "unknown field of conf/task/parity.yaml: scales.mini.dataset 'evl_samples': did you mean 'eval_samples'?",
    ),
    "a value of another type": (
        declaring(lambda scale: scale.update(evaluation=["first", 400] * 100)),
        "conf/task/parity.yaml: scales.mini.evaluation is ['first', 400, 'first', 400, 'first', 400, ...]: Input",
    ),
}


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


def drifting(true):
    """Predicting moves the weights."""

    def predict(self):
        self.weights = self.weights * 1.001
        return true(self)

    return predict


def reading(change):
    """`build` that does `change(hyperparameters, data)` first."""

    def made(true):
        def build(hyperparameters, data, seed, device):
            return true(*change(hyperparameters, data), seed, device)

        return build

    return having(IMPLEMENTATION, build=made)


def peek(hyperparameters, data):
    data["train_points"].mean()
    return hyperparameters, data


def lenient(true):
    return lambda predictions, data: {"accuracy": 0.5}


def strict(true):
    return lambda predictions, data: {"accuracy": float(np.mean(np.array(predictions) == data["answer_sides"]))}


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
    "a target in percent": (
        declaring(lambda scale: scale.update(target=97)),
        "the target lies within the metric's bounds",
        "target 97; accuracy goes from 0 to 1",
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
        reading(peek),
        "build reads no training data",
        "build reads 'train_points' (numpy.add)",
    ),
    "a batch of another size": (
        answering("train_until", recount(lambda samples: samples * 2)),
        "train_until counts whole steps, at least one",
        "samples [40, ",
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
}
