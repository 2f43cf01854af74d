"""Operations are counted as by hand: Levinthal's check, AlexNet of one, two and four affine layers of 4096 units."""

from itertools import pairwise

import keras
import pytest
import tensorflow as tf
import torch
from torch import nn

from suite.probe import instruments

WIDTH, FLATTENED, BATCH = 4096, 256 * 6 * 6, 2


def torch_alexnet(affine: int) -> nn.Module:
    units = [FLATTENED, *[WIDTH] * affine, 1000]
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Flatten(), *(nn.Linear(a, b) for a, b in pairwise(units)),
    )  # fmt: skip


def torch_counts(affine: int) -> tuple[int, int]:
    """Of inference and of a training step that wants the gradient by the images too, as all other layers do."""
    network = torch_alexnet(affine).to("meta")
    images = torch.empty(BATCH, 3, 224, 224, device="meta", requires_grad=True)
    count = instruments.load("torch").flops
    with torch.no_grad():
        infer = count(lambda: network(images))
    return sum(infer.values()), sum(count(lambda: network(images).sum().backward()).values())


def tensorflow_counts(affine: int) -> tuple[int, int]:
    layers = keras.layers
    network = keras.Sequential([
        layers.ZeroPadding2D(2), layers.Conv2D(64, 11, 4), layers.MaxPooling2D(3, 2),
        layers.Conv2D(192, 5, padding="same"), layers.MaxPooling2D(3, 2),
        layers.Conv2D(384, 3, padding="same"), layers.Conv2D(256, 3, padding="same"),
        layers.Conv2D(256, 3, padding="same"), layers.MaxPooling2D(3, 2),
        layers.Flatten(), *(layers.Dense(WIDTH) for _ in range(affine)), layers.Dense(1000),
    ])  # fmt: skip
    images = tf.Variable(tf.zeros((BATCH, 224, 224, 3)))
    network(images)

    def train() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(network(images))
        tape.gradient(loss, [images, *network.trainable_variables])

    count = instruments.load("tensorflow").flops
    return sum(count(lambda: network(images)).values()), sum(count(train).values())


@pytest.mark.parametrize("counts", [torch_counts, tensorflow_counts])
def test_an_affine_layer_more_is_its_own_operations_more(counts):
    one, two, four = counts(1), counts(2), counts(4)
    slope = BATCH * 2 * WIDTH * WIDTH
    assert two[0] - one[0] == slope
    assert four[0] - two[0] == 2 * slope
    assert [train for _, train in (one, two, four)] == [3 * infer for infer, _ in (one, two, four)]


def test_both_count_alike():
    assert torch_counts(2) == tensorflow_counts(2)
    by_hand = 2 * BATCH * (
        55 * 55 * 64 * 3 * 121 + 27 * 27 * 192 * 64 * 25 + 13 * 13 * (384 * 192 + 256 * 384 + 256 * 256) * 9
        + FLATTENED * WIDTH + WIDTH * WIDTH + WIDTH * 1000
    )  # fmt: skip
    assert torch_counts(2)[0] == by_hand
