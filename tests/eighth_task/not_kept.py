"""Promises that a task or an implementation does not keep, and that a check alone finds out: a run could not tell."""

import numpy as np

from tests.eighth_task.mistakes import (
    at_a_rate_of_its_own,
    by_chance,
    counted_as,
    doubling,
    drifting,
    forget,
    from_the_second_on,
    lenient,
    numeric,
    of_any_kind,
    of_the_first,
    of_those_given,
    once,
    remembering,
    stale,
    strict,
    unseeded,
    wavering,
)
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
    "score takes one prediction too many": (
        having(TASK, score=of_the_first),
        "score refuses wrong predictions by BadPrediction",
        "for one prediction too many",
    ),
    "score takes one prediction too few": (
        having(TASK, score=of_those_given),
        "score refuses wrong predictions by BadPrediction",
        "for one prediction too few",
    ),
    "score takes predictions of any kind": (
        having(TASK, score=of_any_kind),
        "score refuses wrong predictions by BadPrediction",
        "for the prediction null",
    ),
    "score draws by chance": (
        having(TASK, score=by_chance),
        "score is finite or nan, within METRICS, the same each time",
        "the same predictions scored twice give other metrics",
    ),
    "bounds that are too low": (
        having(TASK, METRICS={"accuracy": (0.0, 0.01)}),
        "score is finite or nan, within METRICS, the same each time",
        "METRICS says from 0 to 0.01",
    ),
    "predict wavers": (
        method("predict", wavering),
        "predict answers for the arrays that it is given",
        "a second predict of the same arrays gives other predictions",
    ),
    "a state without arrays": (
        method("state_dict", lambda true: lambda self: {}),
        "build makes an implementation with a state of arrays",
        "state_dict returned no array",
    ),
    "a step that moves nothing": (
        method("state_dict", lambda true: lambda self: {"weights": np.ones(2)}),
        "train_until counts whole steps, at least one",
        "train_until(1) left the state as it was",
    ),
    "training depends on how it is cut": (
        method("train_until", doubling),
        "one seed gives one trajectory, however it is cut",
        "'weights' differs after 60 samples in one call and in 3, of one seed",
    ),
    "an implementation learns at a rate of its own": (
        method("train_until", at_a_rate_of_its_own),
        "from a state, training goes on as if never stopped",
        "'weights' differs after another implementation has loaded a state and gone on from it",
    ),
    "a state is loaded from the second time on": (
        method("load_state_dict", from_the_second_on),
        "from a state, training goes on as if never stopped",
        "differs after the same implementation has loaded a state and gone on from it",
    ),
    "a state is loaded as numbers of another kind": (
        method("load_state_dict", counted_as(np.uint64)),
        "a second implementation takes over the state, bit by bit",
        "'samples' is not what was loaded",
    ),
    "a state is loaded in another shape": (
        method("load_state_dict", counted_as(lambda samples: np.array([samples]))),
        "a second implementation takes over the state, bit by bit",
        "'samples' is not what was loaded",
    ),
    "score tells what METRICS does not name": (
        having(TASK, score=lambda true: lambda *given: {**true(*given), "recall": 0.5}),
        "score is finite or nan, within METRICS, the same each time",
        "score returned 'recall', which METRICS does not name",
    ),
}
