"""What is peculiar to recommendation: histories, questions, rankings and the compiled step."""

from functools import cache

import numpy as np
import pytest

from reference_impls.recommendation.shared import NEVER, Histories, Hyperparameters, rankings
from suite import config
from tests.reference_impls.builds import goes_on
from tests.reference_impls.cases import BY_ID, FRAMEWORKS, SHORT_HISTORIES, build
from tests.reference_impls.material import few_histories

DATA = few_histories()
ITEMS = 120
CASE = BY_ID["recommendation-small"]


def hyperparameters(scale: str, **changes) -> dict:
    return config.benchmark("recommendation", scale).hyperparameters | changes


def histories(seed: int = 1, **changes) -> Histories:
    return Histories(DATA, Hyperparameters.of(hyperparameters("small", **SHORT_HISTORIES | changes)), seed)


def on_device(framework: str, windows: np.ndarray, length: int) -> list[np.ndarray]:
    """Inputs, targets and from where items are taken, as the frameworks make them of windows."""
    if framework == "torch":
        import torch

        from reference_impls.recommendation import torch as module

        tensor = torch.from_numpy
    else:
        import tensorflow

        from reference_impls.recommendation import tensorflow as module

        tensor = tensorflow.constant
    items, windows = tensor(DATA["train_items"].astype(np.int64)), tensor(windows)
    made = (
        module.inputs_before(items, windows, length, ITEMS),
        module.targets_of(items, windows, length),
        module.taken_from(items, windows, ITEMS),
    )
    return [array.numpy() for array in made]


def histories_of_users() -> list[list[int]]:
    return [DATA["train_items"][DATA["train_users"] == user].tolist() for user in range(40)]


each_framework = pytest.mark.parametrize("framework", FRAMEWORKS)


@each_framework
def test_every_training_interaction_is_a_target_once_an_epoch(framework):
    known = histories(global_batch_size=1)
    batches = known.batches(0)
    seen = [on_device(framework, *next(batches))[1] for _ in range(known.steps_per_epoch)]
    assert sorted(np.concatenate([each[each >= 0] for each in seen])) == sorted(DATA["train_items"].tolist())


@each_framework
def test_an_input_is_what_came_before_and_what_was_taken_cannot_come_again(framework):
    known = histories()
    batches = known.batches(0)
    cut = 0
    for _ in range(3 * known.steps_per_epoch):
        for inputs, targets, taken in zip(*on_device(framework, *next(batches)), strict=True):
            targets = targets[targets >= 0].tolist()
            history, end = next(
                (history, end)
                for history in histories_of_users()
                for end in range(len(history), 0, -20)
                if history[max(end - 20, 0) : end] == targets
            )
            begin = end - len(targets)
            cut += begin > 0
            assert inputs[: len(targets)].tolist() == [ITEMS, *history][begin:end]
            for position in range(len(targets)):
                assert set(np.flatnonzero(taken <= position)) == set(history[: begin + position])
            assert set(np.flatnonzero(taken < NEVER)) == set(history[:end])
    assert cut > 10


@each_framework
def test_a_question_is_the_end_of_the_history(framework):
    rows, questions = histories().questions(DATA["test_candidates"])
    asked = []
    for each in questions:
        inputs, _, _ = on_device(framework, each.windows, each.length)
        last = each.windows[:, 2] - each.windows[:, 1]
        asked += [row[: end + 1].tolist() for row, end in zip(inputs, last, strict=True)]
    assert [asked[row] for row in rows] == [[ITEMS, *history][-20:] for history in histories_of_users()]
    assert np.array_equal(np.concatenate([each.candidates for each in questions])[rows], DATA["test_candidates"])


def test_one_seed_gives_one_order_and_another_seed_another():
    first, again, other = (next(histories(seed).batches(2))[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@cache
def plain(framework: str):
    """The implementation of the case, built once, for XLA takes its time; each test loads the state that it needs."""
    return build(CASE, framework)


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["torch", pytest.param("tensorflow", marks=pytest.mark.soak)])
def test_goes_on_with_dropout_as_if_never_stopped(framework):
    state, loss = goes_on(build(CASE, framework, dropout=0.25), 40, 80)
    without = plain(framework)
    without.load_state_dict(state)
    assert without.train_until(80).loss != pytest.approx(loss, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_forward_and_loss_are_one_graph(precision):
    import torch

    made = build(CASE, "torch", precision)
    known = made.known()
    compiled = torch.compile(made.loss, backend="aot_eager", fullgraph=True, dynamic=False)
    windows, length = next(known.batches(0))
    windows = torch.from_numpy(windows)
    gradients, losses = [], []
    for function in (made.loss, compiled):
        made.optimizer.zero_grad()
        loss = function(made.items, windows, length)
        loss.backward()
        losses.append(loss.item())
        gradients.append([p.grad.numpy() for p in made.model.parameters()])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for one, other in zip(*gradients, strict=True):
        assert np.abs(one - other).max() <= (1e-5 if precision == "fp32" else 1e-2) * np.abs(one).max()


def test_rankings_hold_the_best_ten_and_all_that_tie():
    scores = np.float32([9, 8, 7, 6, 5, 5, 4, 3, 2, *[1] * 12, -np.inf])
    plain = np.float32(range(22, 0, -1))
    candidates = np.array([range(50, 72), range(22), range(22)])
    assert rankings(np.stack([scores, plain, np.full(22, -np.inf, np.float32)]), candidates) == [
        [[50], [51], [52], [53], [54, 55], [56], [57], [58], list(range(59, 71))],
        [[item] for item in range(10)],
        [list(range(22))],
    ]  # fmt: skip


@pytest.mark.slow
@each_framework
def test_what_is_not_a_number_is_ranked_last(framework):
    made = plain(framework)
    state = made.state_dict()
    state["item_bias"][5] = np.nan
    made.load_state_dict(state)
    for user, groups in enumerate(made.predict({"test_candidates": np.tile(np.arange(11), (40, 1))})):
        assert [item for group in groups for item in group if item == 5] == [], user
