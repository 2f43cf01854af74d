"""What is peculiar to recommendation: histories, questions, rankings and dropout."""

import numpy as np
import pytest

from reference_impls.recommendation.shared import (
    Histories,
    Hyperparameters,
    dropout_masks,
    ranking,
)
from suite import config
from tests.reference_impls.cases import SHORT_HISTORIES
from tests.reference_impls.material import few_histories

DATA = few_histories()


def hyperparameters(scale: str, **changes) -> dict:
    return config.benchmark("recommendation", scale).hyperparameters | changes


def histories(seed: int = 1, **changes) -> Histories:
    return Histories(DATA, Hyperparameters.of(hyperparameters("small", **SHORT_HISTORIES | changes)), seed)


def test_every_training_interaction_is_a_target_once_an_epoch():
    known = histories(global_batch_size=1)
    batches = known.batches(0)
    seen = [item for _ in range(known.steps_per_epoch) for item in next(batches).targets.ravel().tolist() if item >= 0]
    assert sorted(seen) == sorted(DATA["train_items"].tolist())


def test_an_input_is_what_came_before_and_what_was_taken_cannot_come_again():
    known = histories()
    batches = known.batches(0)
    cut = 0
    for _ in range(3 * known.steps_per_epoch):
        batch = next(batches)
        for inputs, targets, taken in zip(batch.inputs, batch.targets, batch.taken, strict=True):
            targets = targets[targets >= 0]
            user, end = next(
                (u, e)
                for u, history in enumerate(known.histories)
                for e in range(len(history), 0, -20)
                if np.array_equal(history[max(e - 20, 0) : e], targets)
            )
            begin = end - len(targets)
            cut += begin > 0
            history = [120, *known.histories[user].tolist()]
            assert inputs[: len(targets)].tolist() == history[begin:end]
            for position in range(len(targets)):
                assert set(np.flatnonzero(taken <= position)) == set(history[1 : begin + position + 1])
    assert cut > 10


def test_a_question_is_the_end_of_the_history():
    known = histories()
    asked = {}
    for each in known.questions(DATA["test_candidates"]):
        assert len(each.inputs) == len(each.last) == len(each.candidates) == 4
        for user, row, end, candidates in zip(each.users, each.inputs, each.last, each.candidates, strict=False):
            asked[int(user)] = row[: end + 1].tolist()
            assert (row[end + 1 :] == 120).all()
            assert np.array_equal(candidates, DATA["test_candidates"][user])
    assert asked == {u: [120, *history.tolist()][-20:] for u, history in enumerate(known.histories)}


def test_one_seed_gives_one_order_and_another_seed_another():
    first = [next(histories(seed).batches(2)) for seed in (1, 1, 2)]
    assert all(np.array_equal(a, b) for a, b in zip(vars(first[0]).values(), vars(first[1]).values(), strict=True))
    assert not np.array_equal(first[0].keep, first[2].keep)
    assert not np.array_equal(first[0].targets, first[2].targets)


def test_dropout_drops_its_share_and_differs_from_step_to_step():
    hyper = Hyperparameters.of(hyperparameters("small"))
    first, second = (dropout_masks(hyper, 1, step, 50) for step in (0, 1))
    assert set(np.unique(first)) == {0, 1}
    assert first.mean() == pytest.approx(1 - hyper.dropout, abs=0.005)
    assert np.mean(first != second) > 0.2


def test_a_ranking_holds_the_best_ten_and_all_that_tie():
    scores = np.float32([5, 5, 9, *[1] * 12, np.nan, 7, 6, 4, 3, 2, 8])
    assert ranking(scores, range(50, 72)) == [
        [52], [71], [66], [67], [50, 51], [68], [69], [70], list(range(53, 65))
    ]  # fmt: skip
    assert ranking(np.full(30, np.nan), range(30)) == [list(range(30))]
