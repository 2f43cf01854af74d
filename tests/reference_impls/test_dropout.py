"""Dropout that several tasks share, or draw alike: its seeds, its share, its scale."""

import numpy as np
import pytest

from reference_impls.recipe import Recipe, dropout_seed
from suite.errors import UserError

SEEDS = [(seed, step) for seed in (0, 1, 2**62) for step in range(20)]


def torch_shared(rate, shape):
    import torch

    from reference_impls.torch_layers import Dropout

    def dropped(seed, step):
        torch.manual_seed(dropout_seed(seed, step))
        return Dropout(rate)(torch.ones(shape)).numpy()

    return dropped


def of_tensorflow(layer, shape):
    import tensorflow as tf

    from reference_impls.tensorflow_shared import dropout_seed

    return lambda seed, step: layer(tf.ones(shape), tf.constant(dropout_seed(seed, step))).numpy()


def tensorflow_recommendation(rate, shape):
    import tensorflow as tf

    from reference_impls.recommendation.tensorflow import dropout

    return of_tensorflow(tf.function(lambda x, seed: dropout(x, rate, seed, 1), jit_compile=True), shape)


def tensorflow_translation(rate, shape):
    import keras

    from reference_impls.translation.tensorflow_network import Dropout

    return of_tensorflow(Dropout(rate, 3, keras.DTypePolicy("float32")), shape)


def test_each_step_of_each_run_has_a_seed_of_its_own():
    seeds = {dropout_seed(*each) for each in SEEDS}
    assert len(seeds) == len(SEEDS)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert max(seeds) > 2**61  # no few small numbers


def test_tensorflow_takes_all_of_the_seed():
    pytest.importorskip("tensorflow")
    from reference_impls import tensorflow_shared

    pairs = {tuple(tensorflow_shared.dropout_seed(*each).tolist()) for each in SEEDS}
    assert len(pairs) == len({low for low, _ in pairs}) == len({high for _, high in pairs}) == len(SEEDS)


@pytest.mark.parametrize("rate", [0.1, 0.25])
@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (torch_shared, (40, 50, 64)),
        (torch_shared, (40, 51, 63)),  # no multiple of the bytes that are drawn together
        (tensorflow_recommendation, (40, 51, 63)),
        (tensorflow_translation, (40, 50, 64)),
    ],
)
def test_drops_its_share_and_scales_the_rest_as_seed_and_step_say(make, shape, rate):
    pytest.importorskip(make.__name__.partition("_")[0])
    dropped = make(rate, shape)
    first = dropped(1, 3)
    assert len(np.unique(first)) == 2
    assert (first == 0).mean() == pytest.approx(rate, abs=5e-3)
    assert first.mean() == pytest.approx(1, abs=5e-3)
    assert np.array_equal(first, dropped(1, 3))
    assert not np.array_equal(first, dropped(1, 4))
    assert not np.array_equal(first, dropped(2, 3))


@pytest.mark.parametrize("make", [torch_shared, tensorflow_translation])
def test_bytes_tell_no_rate_above_255_in_256(make):
    pytest.importorskip(make.__name__.partition("_")[0])
    assert set(np.unique(make(0.999, (40, 50, 64))(1, 3))) == {0, 256}


@pytest.mark.parametrize("rate", [-0.1, 1, 2.0])
def test_a_rate_that_is_none_is_a_user_s_mistake(rate):
    with pytest.raises(UserError, match=f"hyperparameters.embedding_dropout={rate}: a share"):
        Recipe.of({"embedding_dropout": rate})
