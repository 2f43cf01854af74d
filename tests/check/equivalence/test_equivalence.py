"""What is not the reference is found, by one trial or several; what differs from it by rounding alone passes."""

import math

import numpy as np
import pytest

from suite import config
from suite.check.equivalence import trials
from suite.check.equivalence.trials import Subject, equivalence
from suite.config.bounds import bounds
from suite.harness.implementation import TrainStats, frameworks
from suite.rules.equivalence import beyond
from tests.check.equivalence.altered import (
    BEGUN_OTHERWISE,
    COMPILED,
    DRAWN_ALIKE,
    FAULTS,
    FREEDOMS,
    IMAGES,
    ITEMS,
    WITH_OWN_DRAWS,
)
from tests.check.equivalence.comparing import compared, equivalent, tensorflow, told

QUICK = (IMAGES,)
OTHERS = [each for each in config.names("task") if each not in QUICK and "tensorflow" in frameworks(each)]
each_fault = pytest.mark.parametrize("fault", FAULTS)
each_freedom = pytest.mark.parametrize("freedom", FREEDOMS)
QUICK_DRAWS = ("half of the batch skipped", "every other image mirrored")
QUICK_BEGINNINGS = (("without_a_number", True), ("begun_later", False))


@each_fault
def test_fault_is_found(fault):
    report = compared(FAULTS[fault], FAULTS[fault].task)
    assert not equivalent(report), told(report)
    assert type(report).model_validate_json(report.model_dump_json()) == report


@each_freedom
def test_freedom_passes(freedom):
    report = compared(FREEDOMS[freedom], FREEDOMS[freedom].task)
    assert equivalent(report), told(report)
    assert list(beyond(report, {"fp32"})) == []  # nor does a review find fault with it
    assert all(row.found is not None for row in report.trials if "least time" not in row.trial)


@pytest.mark.soak
@each_freedom
def test_freedom_passes_in_bf16(freedom):
    report = compared(FREEDOMS[freedom], FREEDOMS[freedom].task, "bf16")
    assert equivalent(report), told(report)


@pytest.mark.parametrize(
    "name", [each if each in QUICK_DRAWS else pytest.param(each, marks=pytest.mark.soak) for each in WITH_OWN_DRAWS]
)
def test_draws_of_another_distribution_are_found(name):
    report = compared(WITH_OWN_DRAWS[name], IMAGES, own_draws=True)
    assert not equivalent(report), told(report)


@pytest.mark.parametrize(
    ("change", "own_draws"),
    [each if each in QUICK_BEGINNINGS else pytest.param(*each, marks=pytest.mark.soak) for each in BEGUN_OTHERWISE],
)
def test_another_beginning_is_found(change, own_draws):
    report = compared(BEGUN_OTHERWISE[change, own_draws], IMAGES, own_draws=own_draws)
    assert [row.trial for row in report.trials if not row.holds] == ["the initial state"], told(report)


def test_draws_of_its_own_pass_as_such_alone():
    for own_draws in (True, False):
        report = compared(DRAWN_ALIKE, IMAGES, own_draws=own_draws)
        assert equivalent(report) == own_draws, told(report)


def test_a_loss_that_a_nudge_moves_anywhere_is_not_judged(monkeypatch):
    """As a review has it: it takes no bound of more than the whole loss."""
    wide = bounds("fp32").model_copy(update={"slack": 1e12})
    monkeypatch.setattr(trials, "bounds", lambda precision: wide)
    report = compared(FREEDOMS["gradient accumulation"], ITEMS)
    losses = [row for row in report.trials if row.trial.endswith(": loss")]
    assert {(row.found, row.remark[:13]) for row in losses} == {(None, "a nudge moves")}


def test_what_no_processor_can_have_done_so_soon_is_found(monkeypatch):
    monkeypatch.setattr(trials, "CPU_PEAK", 1e3)  # of a processor that would need hours for these samples
    report = compared(FREEDOMS["gradient accumulation"], ITEMS)
    broken = [row.trial for row in report.trials if not row.holds]
    assert broken == [f"the least time of a sample in {what} over its time" for what in ("training", "evaluation")]


class Tiny:
    """An implementation whose steps multiply one array by 0.9, and tell `loss`."""

    def __init__(self, loss):
        self.loss, self.state = loss, {"a": np.ones(3)}

    def train_until(self, samples):
        self.state = {"a": 0.9 * self.state["a"]}
        return TrainStats(1, self.loss)

    def predict(self, data):
        return [1]

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


def both_tiny(loss=0.5):
    """The trials of one against another like it, of a benchmark with dropout."""
    benchmark = config.benchmark(ITEMS, "mini")
    return equivalence(Subject(benchmark, lambda *_: Tiny(loss), lambda *_: Tiny(loss), {}, "gpu", 1), ["fp32"])


def test_a_step_of_which_a_nudge_sends_every_array_anywhere_is_not_judged(monkeypatch):
    hopeless = bounds("fp32").model_copy(update={"hopeless": 0.0})
    monkeypatch.setattr(trials, "bounds", lambda precision: hopeless)
    steps = [row for row in both_tiny().trials if row.remark == "a nudge sends every array anywhere"]
    assert [row.found for row in steps] == [None] * 4


def test_a_loss_that_is_not_finite_in_the_reference_itself_is_not_judged():
    report = both_tiny(loss=math.inf)
    assert equivalent(report), told(report)
    assert not any(row.trial.endswith(": loss") for row in report.trials)
    (dropout,) = [row for row in report.trials if "dropout adds" in row.trial]
    assert (dropout.found, dropout.remark) == (None, "the reference's loss is not finite")


def test_an_array_of_another_form_is_told_with_both_forms():
    counting = Tiny(0.5)
    counting.state["updates"] = np.array(0)
    report = equivalence(
        Subject(config.benchmark(ITEMS, "mini"), lambda *_: counting, lambda *_: Tiny(0.5), {}, "gpu", 1), ["fp32"]
    )
    (row,) = report.trials
    assert (row.where, row.remark) == (
        "updates",
        "missing, int64 [] in the reference; 3 numbers, 3 in the reference",
    )


class Drawing(Tiny):
    """A `Tiny` whose loss is that of samples of its own, drawn from `seed` and step, to which dropout adds."""

    def __init__(self, benchmark, seed):
        super().__init__(None)
        self.seed, self.dropout = seed, benchmark.hyperparameters["dropout"]
        self.state["step"] = np.array(0)

    def train_until(self, samples):
        of_samples, of_dropout = np.random.default_rng([self.seed, int(self.state["step"])]).random(2)
        self.state = {"a": 0.9 * self.state["a"], "step": self.state["step"] + 1}
        return TrainStats(1, of_samples + self.dropout * of_dropout)


def test_what_dropout_adds_is_told_from_what_samples_of_its_own_differ_by():
    builders = [lambda benchmark, _, seed=seed: Drawing(benchmark, seed) for seed in (1, 2)]
    report = equivalence(Subject(config.benchmark(ITEMS, "mini"), *builders, {}, "gpu", 1, own_draws=True), ["fp32"])
    assert equivalent(report), told(report)


class Dropping(Tiny):
    """A `Tiny` that leaves dropout on in its evaluation."""

    def __init__(self, benchmark):
        super().__init__(0.5)
        self.dropout = benchmark.hyperparameters["dropout"]

    def predict(self, data):
        return [1 + self.dropout]


def test_dropout_that_is_left_on_in_evaluation_is_found():
    builders = [lambda *_: Tiny(0.5), lambda benchmark, _: Dropping(benchmark)]
    report = equivalence(Subject(config.benchmark(ITEMS, "mini"), *builders, {}, "gpu", 1), ["fp32"])
    broken = [row.trial for row in report.trials if not row.holds]
    assert broken == [f"predictions of the {name} state" for name in ("trained", "shaken")], told(report)


@pytest.mark.soak
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_compiled_passes(precision, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # where no killed process has left half a kernel
    report = compared(COMPILED, IMAGES, precision)
    assert equivalent(report), told(report)


@pytest.mark.slow
@pytest.mark.parametrize("task", [*QUICK, *(pytest.param(each, marks=pytest.mark.soak) for each in OTHERS)])
def test_references_are_each_others_equals(task):
    report = compared(tensorflow(task), task)
    assert equivalent(report), told(report)


@pytest.mark.soak
@pytest.mark.parametrize("task", [IMAGES, ITEMS])
def test_references_are_each_others_equals_in_bf16(task):
    report = compared(tensorflow(task), task, "bf16")
    assert equivalent(report), told(report)
