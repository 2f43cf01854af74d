"""What is peculiar to image classification: the order and shifts of its images."""

import numpy as np
import pytest

from reference_impls.image_classification.shared import Batches, Hyperparameters, classify, shrink
from suite import config
from tests.reference_impls.material import coloured_noise

SMALL_SHAPES = coloured_noise()


def test_one_seed_gives_one_order_and_another_seed_another():
    hyper = Hyperparameters.of(config.benchmark("image_classification", "small").hyperparameters)

    def first(seed: int):
        batches = Batches(SMALL_SHAPES["train_images"], SMALL_SHAPES["train_labels"], hyper, seed)
        return next(batches.iterate(1))

    assert np.array_equal(first(1).images, first(1).images)
    assert not np.array_equal(first(1).labels, first(2).labels)


def test_every_epoch_sees_every_image_once_and_mirrored_in_turn():
    hyper = Hyperparameters.of(
        config.benchmark("image_classification", "small").hyperparameters
        | {"translate": 0, "epoch_sizes": [32], "global_batch_size": 100}
    )
    images = SMALL_SHAPES["train_images"][:200]
    batches = Batches(images, np.arange(200), hyper, 1).iterate(0)
    epochs = [
        {int(label): image for _ in range(2) for image, label in zip(*pair(next(batches)), strict=True)}
        for _ in range(2)
    ]
    assert all(set(epoch) == set(range(200)) for epoch in epochs)
    assert all(np.array_equal(epochs[0][i], epochs[1][i][:, ::-1]) for i in range(200))


def pair(batch):
    return batch.images, batch.labels


def test_uncertain_images_are_also_seen_shifted():
    hyper = Hyperparameters.of(
        config.benchmark("image_classification", "small").hyperparameters | {"eval_shift_fraction": 0.25}
    )
    images = SMALL_SHAPES["test_images"][:8]
    seen = []

    def logits(batch):
        seen.append(batch)
        sure = np.tile(np.float32([0, 5]), (8, 1)) if len(seen) == 1 else np.tile(np.float32([9, 0]), (2, 1))
        if len(seen) == 1:
            sure[[3, 6]] = [0.4, 0.5]
        return sure

    def part(images, chosen, pixels):
        return images[chosen][:, pixels][:, :, pixels]

    assert classify(logits, part, images, hyper).tolist() == [1, 1, 1, 0, 1, 1, 0, 1]
    assert np.array_equal(seen[1][0][1:, 1:], images[6][:-1, :-1]) or np.array_equal(
        seen[1][0][1:, 1:], images[3][:-1, :-1]
    )


def test_shrinking_averages_areas():
    images = np.random.default_rng(0).random((2, 32, 32, 3), np.float32)
    assert np.allclose(shrink(images, 16), images.reshape(2, 16, 2, 16, 2, 3).mean((2, 4)), atol=1e-6)
    assert shrink(images, 20).mean() == pytest.approx(images.mean(), abs=1e-3)
