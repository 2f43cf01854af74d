"""Mistakes of a task's author that a run tells as a check does, each in one line."""

import sys
from pathlib import Path

import numpy as np

from suite.harness.implementation import TrainStats
from tests.eighth_task.spoiling import (
    IMPLEMENTATION,
    TASK,
    answering,
    declaring,
    having,
    lacking,
    method,
    peeking,
    recount,
    returning,
)


def with_name(name):
    """A state with one more array, of that name."""
    return answering("state_dict", lambda state: {**state, name: np.zeros(1)})


def follow(scale, other):
    """Let the learning rate follow another hyperparameter."""
    scale["free"]["opt_base_learning_rate"].update(proportional_to=other)


def circle():
    """A list that holds itself."""
    made = []
    made.append(made)
    return made


def nested(depth):
    """A list in as many others."""
    made = []
    for _ in range(depth):
        made = [made]
    return made


class Tensor:
    """What a framework's tensor is to a harness that knows none."""


def without_metric(metrics):
    return {"acuracy": metrics["accuracy"]}


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
    "a target in percent": (
        declaring(lambda scale: scale.update(target=97)),
        "target 97 of parity/mini is out of reach: accuracy goes from 0 to 1",
    ),
    "no evaluation before the end": (
        declaring(lambda scale: scale.update(budget_samples=300)),
        "evaluation.first 400 of parity/mini is beyond budget_samples 300",
    ),
    "prepare returns a list": (returning("prepare", list), "prepare of parity returned a list"),
    "prepare returns lists": (
        returning("prepare", lambda arrays: {**arrays, "test_points": arrays["test_points"].tolist()}),
        "'test_points', prepared by parity, is a list",
    ),
    "prepare returns objects": (
        returning("prepare", lambda arrays: {**arrays, "test_points": np.array([{}, None])}),
        "'test_points', prepared by parity, is a numpy array of dtype object",
    ),
    "an array to train on is drawn": (
        having(TASK, evaluation_arrays=lambda _: lambda data, seed: {"train_points": data["train_points"]}),
        "evaluation_arrays of parity named an array 'train_points'. The contract: evaluation_arrays(data, seed): More",
    ),
    "nothing is drawn": (
        having(TASK, evaluation_arrays=lambda _: lambda data, seed: None),
        "evaluation_arrays of parity returned None",
    ),
    "evaluation_arrays without a seed": (
        having(TASK, evaluation_arrays=lambda _: lambda data: {}),
        "evaluation_arrays of tasks.parity takes other arguments (too many positional arguments)",
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
    "build looks at the evaluation data": (
        peeking("test_points"),
        "'test_points' is asked for, which build is not given. The contract: build(hyperparameters, data,",
    ),
    "predict looks at the answers": (
        method("predict", lambda true: lambda self, data: true(self, data) and data["answer_sides"].tolist()),
        "'answer_sides' is asked for, which predict is not given. The contract: predict(data): One JSON value",
    ),
    **{
        f"an exit of {name}": (
            having(TASK, **{name: lambda _: lambda *given: sys.exit(0)}),
            f"{name} of parity called sys.exit(0) at eighth_task/told.py:",
        )
        for name in ("prepare", "split_sizes", "score", "evaluation_arrays")
    },
    "an exit of build": (
        having(IMPLEMENTATION, build=lambda _: lambda hyperparameters, data, seed, device: sys.exit()),
        "build of reference_impls.parity.numpy called sys.exit(None) at eighth_task/told.py:",
    ),
    "an exit of train_until": (
        method("train_until", lambda true: lambda self, samples: sys.exit(0)),
        "train_until of reference_impls.parity.numpy called sys.exit(0) at eighth_task/told.py:",
    ),
    "an exit of predict": (
        method("predict", lambda true: lambda self, data: sys.exit("enough")),
        "predict of reference_impls.parity.numpy called sys.exit('enough') at eighth_task/told.py:",
    ),
    "a file that is not there": (
        method("predict", lambda true: lambda self, data: Path("nope.bin").read_bytes()),
        "predict of reference_impls.parity.numpy raised FileNotFoundError at eighth_task/told.py:",
    ),
    "a tuple for TrainStats": (
        answering("train_until", lambda stats: (stats.samples, stats.loss)),
        "train_until of reference_impls.parity.numpy returned a tuple. The contract: TrainStats: `samples` seen",
    ),
    "samples as float": (answering("train_until", recount(float)), "returned a float, 20.0 as samples"),
    "samples without end": (
        answering("train_until", recount(lambda _: 10**400)),
        "train_until of reference_impls.parity.numpy returned an int of 1329 bits as samples. The contract: TrainStats",
    ),
    "loss without end": (
        answering("train_until", lambda stats: TrainStats(stats.samples, 10**400)),
        "train_until of reference_impls.parity.numpy returned an int of 1329 bits as loss. The contract: TrainStats",
    ),
    "loss as array": (
        answering("train_until", lambda stats: TrainStats(stats.samples, np.float32(stats.loss))),
        "returned a numpy.float32, ",
    ),
    "samples that stand still": (
        answering("train_until", recount(lambda _: 0)),
        "train_until(1) of reference_impls.parity.numpy stopped at 0 samples. The contract: train_until(samples)",
    ),
    "samples beyond those asked for": (
        method("train_until", lambda true: lambda self, samples: true(self, samples + 100)),
        "train_until(1) of reference_impls.parity.numpy stopped at 120 samples, in steps of 20. The contract: train_",
    ),
    "samples of half a step": (
        answering("train_until", recount(lambda samples: samples + 10)),
        "train_until(1) of reference_impls.parity.numpy stopped at 30 samples, in steps of 20. The contract: Train",
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
        "predict of reference_impls.parity.numpy returned a numpy array of dtype int64. The contract: predict(data): ",
    ),
    "predictions that hold themselves": (
        answering("predict", lambda sides: [*sides[:2], circle()]),
        "prediction 2 (from 0) that predict returned is a list: Circular reference detected",
    ),
    "predictions in many lists": (
        answering("predict", lambda sides: [nested(100_000)]),
        "prediction 0 (from 0) that predict returned is a list: maximum recursion depth exceeded",
    ),
    "a prediction of many digits": (
        answering("predict", lambda sides: [10**5000]),
        "prediction 0 (from 0) that predict returned is an int of 16610 bits: Exceeds the limit",
    ),
    "tuples as predictions": (
        answering("predict", lambda sides: [(side,) for side in sides]),
        "when read back from JSON",
    ),
    "numpy's numbers as predictions": (
        answering("predict", lambda sides: [*sides[:2], *map(np.int64, sides[2:])]),
        "prediction 2 (from 0) that predict returned is a numpy.int64, ",
    ),
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
    "a free hyperparameter that there is none of": (
        declaring(lambda scale: scale["free"].update(batch_size={"low": 1, "high": 2})),
        "scales.mini.free 'batch_size': did you mean 'global_batch_size'?",
    ),
    "a formula of a hyperparameter that there is none of": (
        declaring(lambda scale: follow(scale, "batch")),
        "unknown hyperparameter in conf/task/parity.yaml: scales.mini.free 'batch'",
    ),
    "a range without the benchmark's own value": (
        declaring(lambda scale: scale["free"]["global_batch_size"].update(low=40)),
        "scales.mini.free.global_batch_size goes from 40 to 100, without the benchmark's own 20",
    ),
    "a range that lacks a bound": (
        declaring(lambda scale: scale["free"]["global_batch_size"].pop("low")),
        "conf/task/parity.yaml: scales.mini.free.global_batch_size.low is missing: The smallest value that is allowed.",
    ),
    "a formula with a mistake": (
        declaring(lambda scale: scale["free"]["opt_base_learning_rate"].update(tolerance=2)),
        "conf/task/parity.yaml: scales.mini.free.opt_base_learning_rate.tolerance is 2: Input should be less than 1.",
    ),
    "a formula of a text": (
        declaring(lambda scale: scale["hyperparameters"].update(opt_base_learning_rate="high")),
        "scales.mini.free.opt_base_learning_rate: opt_base_learning_rate is 'high', which is no number",
    ),
    "a formula of what is 0": (
        declaring(lambda scale: (follow(scale, "momentum"), scale["hyperparameters"].update(momentum=0))),
        "scales.mini.free.opt_base_learning_rate follows momentum, which is 0: make that more than 0",
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

# What the task refuses to score, and what it says. Such a run has failed, and its evidence says so.
REFUSED = {
    "one prediction too few": (answering("predict", lambda sides: sides[1:]), "wrong number of predictions"),
    "a prediction that cannot be scored": (answering("predict", lambda sides: [*sides[:-1], 7]), "not 0 or 1"),
}
