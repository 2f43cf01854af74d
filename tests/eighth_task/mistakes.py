"""Mistakes in a task or an implementation, each made of the true function that it takes the place of."""

import numpy as np

from suite.errors import BadPrediction


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


def at_a_rate_of_its_own(true):
    """Each implementation that is built learns at another rate."""

    def train_until(self, samples):
        if not hasattr(self, "own"):
            self.own = np.random.default_rng().random()
            rate = self.own * self.hyper["opt_base_learning_rate"]
            self.hyper = {**self.hyper, "opt_base_learning_rate": rate}
        return true(self, samples)

    return train_until


def from_the_second_on(true):
    """Loads no state the first time."""

    def load_state_dict(self, state):
        if hasattr(self, "asked"):
            true(self, state)
        self.asked = True

    return load_state_dict


def counted_as(kind):
    def loading(true):
        def load_state_dict(self, state):
            true(self, state)
            self.samples = kind(self.samples)

        return load_state_dict

    return loading


def of_the_first(true):
    """A score of as many predictions as there are answers, whatever follows."""
    return lambda predictions, data: true(predictions[: len(data["answer_sides"])], data)


def of_those_given(true):
    """A score of as many answers as there are predictions."""
    return lambda predictions, data: true(
        predictions, {**data, "answer_sides": data["answer_sides"][: max(1, len(predictions))]}
    )


def of_any_kind(true):
    """A score that takes what it does not know for a wrong side."""
    return lambda predictions, data: true([each if each in (0, 1) else 0 for each in predictions], data)


def by_chance(true):
    return lambda predictions, data: {
        "accuracy": true(predictions, data)["accuracy"] * np.random.default_rng().random()
    }


def wavering(true):
    """Answers otherwise whenever it is asked again."""

    def predict(self, data):
        self.asked = getattr(self, "asked", 0) + 1
        return [(side + self.asked) % 2 for side in true(self, data)]

    return predict


def doubling(true):
    """A first step of a life that is as far as two."""

    def train_until(self, samples):
        ended = true(self, samples)
        if not hasattr(self, "begun") and self.samples > self.hyper["global_batch_size"]:
            self.weights = self.weights * 2
        self.begun = True
        return ended

    return train_until
