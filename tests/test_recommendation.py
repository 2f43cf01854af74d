"""Recommendation: the data, the protocol, the metric, and runs through the commands."""

import math
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite import config
from suite.errors import BadPrediction, UserError
from suite.store.arrays import prepared
from suite.store.task import load_task
from suite.store.unpack import unpack
from tasks.recommendation import baselines, generated
from tasks.recommendation.movielens import read_ratings
from tasks.recommendation.protocol import Interactions, leave_one_out
from tests.command import run

TASK = load_task("recommendation")


@pytest.fixture(scope="module")
def mini():
    return prepared(config.benchmark("recommendation", "mini"), TASK)


def test_the_target_of_mini_is_within_five_percent_of_the_true_model(mini):
    ceiling = baselines.metrics(generated.utilities(), mini)["hr_10"]
    assert ceiling == 0.684
    assert 0.95 * ceiling <= config.benchmark("recommendation", "mini").target < ceiling
    assert baselines.metrics(baselines.popularity(mini), mini)["hr_10"] < ceiling / 4


# --- Files ---------------------------------------------------------------------------------------------------------

RATINGS = [(7, 30, 4, 100), (7, 10, 3, 90), (9, 10, 5, 80), (7, 20, 1, 110), (9, 20, 2, 85)]
U_DATA = "".join(f"{u}\t{i}\t{r}\t{t}\n" for u, i, r, t in RATINGS)


def test_reads_the_ratings_of_movielens_100k(tmp_path):
    (tmp_path / "u.data").write_text(U_DATA)
    ratings = read_ratings(tmp_path / "u.data")
    columns = zip(ratings.users.tolist(), ratings.items.tolist(), ratings.times.tolist(), strict=True)
    assert list(columns) == [(u, i, t) for u, i, _, t in RATINGS]


@pytest.mark.data("recommendation/small")
def test_small_is_movielens_100k():
    data = prepared(config.benchmark("recommendation", "small"), TASK)
    assert (len(data["train_items"]), len(data["answer_items"]), len(data["item_ids"])) == (99_057, 943, 1_682)
    check(data)
    assert baselines.metrics(baselines.popularity(data), data)["hr_10"] == pytest.approx(386 / 943)


def test_the_file_comes_out_of_grouplens_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "ml-100k.zip", "w") as archive:
        archive.writestr("ml-100k/README", "read me")
        archive.writestr("ml-100k/u.data", U_DATA)
    files = config.benchmark("recommendation", "small").dataset.members
    unpack(tmp_path / "ml-100k.zip", {file.path for file in files}, tmp_path / "root")
    assert len(read_ratings(tmp_path / "root" / "ml-100k" / "u.data").users) == len(RATINGS)


# --- Protocol ------------------------------------------------------------------------------------------------------


def check(data):
    """What the protocol promises of its arrays."""
    users, items = data["train_users"], data["train_items"]
    candidates, answers = data["test_candidates"], data["answer_items"]
    assert (np.diff(users) >= 0).all()
    pairs = set(zip(users.tolist(), items.tolist(), strict=True))
    assert len(pairs) == len(users)
    for user, (row, answer) in enumerate(zip(candidates.tolist(), answers.tolist(), strict=True)):
        assert answer in row
        assert len(set(row)) == len(row)
        assert row == sorted(row)
        assert not any((user, item) in pairs for item in row)


def interactions(*triples):
    return Interactions("the test", *np.array(triples, np.int64).T)


def test_the_last_interaction_is_held_out_and_the_later_line_breaks_ties():
    data = leave_one_out(
        interactions((5, 40, 3), (5, 10, 9), (5, 30, 9), (5, 20, 1), (2, 10, 7), (2, 20, 8), (2, 50, 6)), 1
    )
    assert data["item_ids"].tolist() == [10, 20, 30, 40, 50]
    assert data["answer_items"].tolist() == [1, 2]  # user 2: item 20; user 5: item 30, below item 10 at the same time
    assert data["train_users"].tolist() == [0, 0, 1, 1, 1]
    assert data["train_items"].tolist() == [4, 0, 1, 3, 0]


def test_an_item_taken_twice_counts_once_at_the_first_time():
    data = leave_one_out(interactions((1, 10, 1), (1, 20, 2), (1, 10, 3), (2, 30, 1), (2, 10, 2)), 1)
    assert data["train_items"].tolist() == [0, 2]
    assert data["answer_items"].tolist() == [1, 0]


def test_negatives_are_the_same_each_time_and_uniform_over_what_was_not_taken():
    random = np.random.default_rng(0)
    users = np.repeat(np.arange(1500), 4)  # more than are drawn for at a time
    items = np.concatenate([random.permutation(30)[:4] for _ in range(1500)])
    given_ones = Interactions("the test", users, items, np.tile(np.arange(4), 1500))
    data = leave_one_out(given_ones, 10)
    check(data)
    again = leave_one_out(given_ones, 10)
    assert all(np.array_equal(data[name], again[name]) for name in data)
    counts = np.bincount(data["test_candidates"].ravel(), minlength=30)
    assert counts.sum() == 1500 * 11
    assert np.abs(counts - 550).max() < 5 * math.sqrt(550)


@pytest.mark.parametrize(
    ("triples", "negatives", "user", "expected"),
    [
        ([(8, 1, 1), (8, 2, 2), (9, 1, 1)], 0, 9, "at least 2 different items"),
        ([(8, 1, 1), (8, 2, 2), (9, 1, 1), (9, 1, 2)], 0, 9, "at least 2 different items"),
        ([(8, 1, 1), (8, 2, 2), (7, 3, 1), (7, 2, 4)], 2, 7, "at least 2 of 3 items not taken"),
    ],
)
def test_a_user_who_cannot_be_tested_is_named(triples, negatives, user, expected):
    with pytest.raises(UserError) as caught:
        leave_one_out(interactions(*triples), negatives)
    assert f"user {user} took" in str(caught.value)
    assert expected in str(caught.value)


# --- Metric --------------------------------------------------------------------------------------------------------

CANDIDATES = {"test_candidates": np.int32([range(20), range(100, 120)]), "answer_items": np.int32([3, 104])}


def scored(first, second=([100],)):
    return TASK.score([list(first), list(second)], CANDIDATES)


@pytest.mark.parametrize(
    ("ranking", "rank"),
    [
        ([[3]], 1),
        ([[5], [3], [4]], 2),
        ([[5], [3, 4]], 3),  # a tie counts against the model
        ([[3, *range(4, 13)]], 10),
        ([list(range(20))], None),
        ([[0], [1], [2], [4], [5], [6], [7], [8], [9], [10], [3]], None),
        ([[0], [1]], None),
        ([], None),
    ],
)
def test_scores_the_rank_of_the_item_that_was_taken(ranking, rank):
    found = scored(ranking)
    assert found["hr_10"] == (0.5 if rank else 0.0)
    assert found["ndcg_10"] == pytest.approx(0.5 / math.log2(1 + rank) if rank else 0.0)


@pytest.mark.parametrize(
    "wrong", [None, 3, "3", {}, [3], [[3], 4], [[]], [[3.0]], [[True]], [["3"]], [[20]], [[-1]], [[3], [3]], [[3, 3]]]
)
def test_refuses_what_is_no_ranking_of_the_candidates(wrong):
    with pytest.raises(BadPrediction) as caught:
        TASK.score([[[1]], wrong], CANDIDATES | {"test_candidates": np.int32([range(20)] * 2)})
    assert caught.value.line == 2


def test_refuses_another_number_of_rankings():
    with pytest.raises(BadPrediction) as caught:
        TASK.score([[[1]]], CANDIDATES)
    assert caught.value.line == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 21) | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
)


@given(st.lists(JSON, max_size=3))
def test_any_json_is_scored_or_refused(predictions):
    with suppress(BadPrediction):
        found = TASK.score(predictions, CANDIDATES)
        assert 0 <= found["ndcg_10"] <= found["hr_10"] <= 1


def test_a_prediction_nested_deep_is_refused():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BadPrediction):
        TASK.score([deep, [[100]]], CANDIDATES)


def test_the_baselines_say_what_they_need(tmp_path):
    done = run(tmp_path, "tasks.recommendation.baselines", "nano")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "nano" in done.stderr
