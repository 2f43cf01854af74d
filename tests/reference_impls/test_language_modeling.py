"""What is peculiar to language modelling: causality, the pointer, the order of the text, dropout, learning rates."""

import importlib

import numpy as np
import pytest

from reference_impls.language_modeling import shared
from reference_impls.language_modeling.shared import Batches, Hyperparameters, dropout_masks
from suite import config
from suite.harness.contract import evaluation_data
from tests.reference_impls.cases import BY_ID, FRAMEWORKS, build
from tests.reference_impls.material import short_text


def values(predictions):
    return np.concatenate([np.array(row) for row in predictions])


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_word_depends_on_no_later_one(framework):
    data = short_text()
    changed = {**data, "test_tokens": np.concatenate([data["test_tokens"][:3000], data["test_tokens"][:2000]])}
    first, second = (
        values(build(BY_ID["language_modeling-mini"], framework, data=each).predict(evaluation_data(each))[:10])[:5000]
        for each in (data, changed)
    )
    assert np.array_equal(first[:3000], second[:3000])
    assert not np.array_equal(first[3000:], second[3000:])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_pointer_chooses_among_the_last_words(framework):
    window, width, length = 4, 6, 16
    hyper = Hyperparameters.of(
        config.benchmark("language_modeling", "mini").hyperparameters
        | {"segment_length": window, "width": width, "layers": 1, "global_batch_size": 2 * window}
    )
    random = np.random.default_rng(0)
    p = {"query": (width, width), "sentinel": (1, width), "sentinel_bias": (1,)}
    p = {name: random.standard_normal(shape).astype(np.float32) for name, shape in p.items()}
    x = random.standard_normal((length, 2, width)).astype(np.float32)
    words, targets = random.integers(0, 5, (2, length, 2))

    module = importlib.import_module(f"reference_impls.language_modeling.{framework}_network")
    library = importlib.import_module(framework)
    tensor, dtype = (library.as_tensor if framework == "torch" else library.constant), library.float32
    carry = {name: tensor(value) for name, value in shared.initial_carry(hyper, 2).items()}
    again, left = [], []
    for part in (slice(0, 8), slice(8, 16)):
        here = [tensor(a[part]) for a in (x, words)]
        places, chosen, rest = module.pointer({n: tensor(v) for n, v in p.items()}, *here, carry, hyper, dtype)
        carry = {"outputs": here[0][-window:], "words": here[1][-window:]}
        again.append((np.asarray(chosen) * (np.asarray(places) == targets[part][..., None])).sum(-1))
        left.append(np.asarray(rest))

    for t in range(length):
        for b in range(2):
            seen = range(max(0, t - window + 1), t + 1)
            scores = [x[t, b] @ p["query"].T @ x[place, b] / width for place in seen]
            shares = np.exp([*scores, x[t, b] @ p["sentinel"][0] + p["sentinel_bias"][0]])
            shares /= shares.sum()
            expected = sum(
                share for share, place in zip(shares, seen, strict=False) if words[place, b] == targets[t, b]
            )
            assert np.concatenate(again)[t, b] == pytest.approx(expected, abs=1e-5)
            assert np.concatenate(left)[t, b] == pytest.approx(shares[-1], abs=1e-5)


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_the_learning_rate_rises_and_falls_to_zero(scale):
    hyper = Hyperparameters.of(config.benchmark("language_modeling", scale).hyperparameters)
    steps = hyper.schedule_samples // hyper.global_batch_size
    rates = np.array([hyper.learning_rate(step) for step in range(steps + 1)])
    top = rates.argmax()
    assert 0 < rates[0] < 0.1
    assert rates[top] > 0.99
    assert rates[-1] < 0.01
    assert (np.diff(rates[: top + 1]) > 0).all()
    assert (np.diff(rates[top:]) < 0).all()


def test_every_epoch_reads_the_text_once_and_in_order():
    hyper = Hyperparameters.of(
        config.benchmark("language_modeling", "mini").hyperparameters
        | {"global_batch_size": 40, "segment_length": 10, "width": 4}
    )
    text = np.arange(200)
    batches = Batches(text, hyper, 1).iterate(0)
    first, second = ([next(batches) for _ in range(5)] for _ in range(2))
    for epoch in (first, second):
        assert [batch.fresh for batch in epoch] == [True, False, False, False, False]
        assert all(np.array_equal((batch.words + 1) % 200, batch.targets) for batch in epoch)
        streams = np.concatenate([batch.words for batch in epoch])
        assert streams.shape == (50, 4)
        assert np.array_equal((streams[:-1] + 1) % 200, streams[1:])
        assert np.array_equal(np.sort(streams.flatten()), text)
    assert not np.array_equal(first[0].words, second[0].words)


def test_batches_and_dropout_are_a_function_of_seed_and_step():
    hyper = Hyperparameters.of(config.benchmark("language_modeling", "small").hyperparameters)
    text = np.random.default_rng(0).integers(0, 100, 20_000)

    def batch(seed: int, start: int):
        batches = Batches(text, hyper, seed).iterate(start)
        return [next(batches) for _ in range(12 - start)][-1]

    assert np.array_equal(batch(1, 0).words, batch(1, 7).words)
    assert np.array_equal(batch(1, 0).masks, batch(1, 7).masks)
    assert not np.array_equal(batch(1, 0).words, batch(2, 0).words)
    masks = dropout_masks(hyper, 1, 0)
    assert np.mean(masks == 0) == pytest.approx(hyper.dropout, abs=0.01)
    assert masks.mean() == pytest.approx(1, abs=0.01)
