"""In which order language modelling reads its text."""

import numpy as np
import pytest

from reference_impls.language_modeling import shared
from reference_impls.language_modeling.shared import Batches, Hyperparameters
from suite import config
from suite.errors import UserError


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


def test_a_batch_that_streams_do_not_fill_is_one_line():
    values = config.benchmark("language_modeling", "mini").hyperparameters
    with pytest.raises(UserError, match="global_batch_size=1024 is no multiple of segment_length=48, the words of a"):
        Hyperparameters.of({**values, "segment_length": 48})


def test_batches_are_a_function_of_seed_and_step():
    hyper = Hyperparameters.of(config.benchmark("language_modeling", "small").hyperparameters)
    text = np.random.default_rng(0).integers(0, 100, 20_000)

    def batch(seed: int, start: int):
        batches = Batches(text, hyper, seed).iterate(start)
        return [next(batches) for _ in range(12 - start)][-1]

    assert np.array_equal(batch(1, 0).words, batch(1, 7).words)
    assert batch(1, 0).begin == batch(1, 7).begin
    assert not np.array_equal(batch(1, 0).words, batch(2, 0).words)
    last = batch(1, 0)
    read = text[(last.begin + shared.places(len(text), hyper)) % len(text)]  # as on the device
    assert np.array_equal(read[:-1], last.words)
    assert np.array_equal(read[1:], last.targets)
