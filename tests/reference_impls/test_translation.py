"""What is peculiar to translation: padding, causality, the cached step, order, dropout, learning rates."""

from itertools import pairwise

import numpy as np
import pytest

from reference_impls.translation.shared import Batches, Hyperparameters, make_batch, sentences
from suite import config
from suite.harness.contract import evaluation_data
from tasks.translation import PAD
from tests.reference_impls.cases import BY_ID, FRAMEWORKS, build
from tests.reference_impls.material import few_phrases, some_sentences


@pytest.fixture(scope="module")
def data():
    return few_phrases()


@pytest.fixture(scope="module")
def tiny():
    """A small model in each framework, built once."""
    return {framework: build(BY_ID["translation-tiny"], framework) for framework in FRAMEWORKS}


def values(scale: str = "mini", **changed):
    return config.benchmark("translation", scale).hyperparameters | changed


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_padding_changes_nothing(framework, tiny):
    source, inputs = some_sentences()
    longer = np.pad(source, ((0, 0), (0, 6)), constant_values=PAD)
    logits = tiny[framework].logits
    assert np.abs(logits(source, inputs) - logits(longer, inputs)).max() < 1e-5


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_subword_depends_on_no_later_one(framework, tiny):
    source, inputs = some_sentences()
    changed = inputs.copy()
    changed[:, 5:] = 7
    difference = np.abs(tiny[framework].logits(source, inputs) - tiny[framework].logits(source, changed))
    assert difference[:, :5].max() < 1e-5
    assert difference[:, 5:].max() > 1e-2


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_cached_step_gives_the_probabilities_of_the_whole_decoder(framework, tiny):
    source, inputs = some_sentences()
    logits = tiny[framework].logits(source, inputs[:, :3])
    probabilities = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    step = tiny[framework].begin(tiny[framework].on_device(source))
    swapped = np.arange(16).reshape(8, 2)[:, ::-1].ravel()  # each sentence has two rows, here the same
    for position in range(3):
        scores, subwords = step(np.repeat(inputs[:, position], 2), swapped)
        expected = np.sort(probabilities[:, position])[:, :-4:-1]
        assert np.abs(scores[::2] - expected).max() < 1e-4
        assert np.array_equal(subwords[::2, 0], probabilities[:, position].argmax(-1))


@pytest.mark.slow
def test_both_translate_alike(tiny):
    torch, tensorflow = tiny.values()
    torch.train_until(2000)
    tensorflow.load_state_dict(torch.state_dict())
    evaluation = evaluation_data(few_phrases())
    translations = torch.predict(evaluation)
    assert len(translations) == 20
    assert len(set(translations)) > 1
    assert translations == tensorflow.predict(evaluation)


def test_every_epoch_sees_every_pair_once_alike_in_length(data):
    hyper = Hyperparameters.of(values(global_batch_size=50))
    batches = Batches(data["train_source"], data["train_target"], hyper, 1).iterate(0)
    pairs = {
        (tuple(source.tolist()), tuple(target.tolist()))
        for source, target in zip(*(sentences(data[name]) for name in ("train_source", "train_target")), strict=True)
    }
    orders = []
    for _ in range(2):
        epoch = [next(batches) for _ in range(20)]
        rows = [
            (tuple(source[source != PAD].tolist()), tuple(target[target != PAD].tolist()))
            for batch in epoch
            for source, target in zip(batch.source, batch.labels, strict=True)
        ]
        assert set(rows) == pairs
        assert len(rows) == 1000
        assert all(np.array_equal(batch.inputs[:, 1:], batch.labels[:, :-1]) for batch in epoch)
        assert np.mean([(batch.source == PAD).mean() for batch in epoch]) < 0.25
        orders.append(rows)
    assert orders[0] != orders[1]


def test_one_seed_gives_one_order_and_dropout_and_another_seed_another(data):
    hyper = Hyperparameters.of(values())

    def third(seed: int):
        return next(Batches(data["train_source"], data["train_target"], hyper, seed).iterate(2))

    one, again, other = third(1), third(1), third(2)
    assert np.array_equal(one.source, again.source)
    assert all(np.array_equal(a, b) for a, b in zip(one.noise, again.noise, strict=True))
    assert one.source.shape != other.source.shape or not np.array_equal(one.source, other.source)
    assert one.noise[0][:, 0, 0].tolist() != other.noise[0][:, 0, 0].tolist()


def test_the_learning_rate_rises_then_falls_to_zero():
    hyper = Hyperparameters.of(values(warmup_steps=10, epochs=2))
    factors = [hyper.learning_rate(step, 50) for step in range(101)]
    assert factors[0] == pytest.approx(0.1)
    assert max(factors) == factors[9] == factors[10] == 1
    assert all(later < earlier for earlier, later in pairwise(factors[10:]))
    assert factors[100] == 0


def test_noise_is_spread_evenly_over_bytes():
    hyper = Hyperparameters.of(values())
    rows = [np.full(16, 5)] * 100
    noise = make_batch(hyper, rows, rows, [1]).noise[0]
    assert noise.dtype == np.uint8
    assert np.mean(noise < 26) == pytest.approx(26 / 256, abs=1e-3)
