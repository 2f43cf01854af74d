"""Steps with a shadow in float64, held to the same steps written in float64."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from suite.harness.implementation import Device
from suite.probe import instruments
from suite.probe.shadow import STEPS, Distance
from suite.probe.workload import Workload
from tests.probe.made import Calls

DEVICE = Device("cpu", "fp32")
RATE = 0.125
RANDOM = np.random.default_rng(1)
IMAGES, LABELS = RANDOM.standard_normal((8, 8, 8, 3)).astype(np.float32), np.arange(8) % 4
WEIGHTS = [RANDOM.standard_normal(shape).astype(np.float32) / 4 for shape in [(3, 3, 3, 8), (8,), (32, 4), (4,)]]


class Steps(Workload):
    """Steps of a small network, and its parameters after each, [step][parameter]."""

    samples = len(LABELS)

    def __init__(self, step: Callable[[], object], parameters: Callable[[], Sequence[np.ndarray]]) -> None:
        self.step, self.parameters = step, parameters
        self.after: list[list[np.ndarray]] = []

    def run(self, steps):
        for _ in range(steps):
            self.step()
            self.after.append([np.array(each, np.float64) for each in self.parameters()])


def in_torch(weights, exact=False, reduced=False, dropout=0.0, waves=False) -> Steps:
    import torch

    kind = torch.float64 if exact else torch.float32
    convolution, head = torch.nn.Conv2d(3, 8, 3), torch.nn.Linear(32, 4)
    layers = torch.nn.Sequential(
        convolution,
        torch.nn.ReLU(inplace=True),
        torch.nn.MaxPool2d(3),
        torch.nn.Flatten(),
        torch.nn.Dropout(dropout),
        head,
    ).to(kind)
    with torch.no_grad():
        for parameter, array in zip(layers.parameters(), weights, strict=True):
            parameter.copy_(torch.from_numpy(array.transpose(3, 2, 0, 1) if array.ndim == 4 else array.T))
    optimizer = torch.optim.SGD(layers.parameters(), RATE)
    images, labels = torch.from_numpy(IMAGES).permute(0, 3, 1, 2).to(kind), torch.from_numpy(LABELS)

    def step():
        given = images.clone()
        given[:, 0] *= 0.25  # a view that is written in place
        if waves:
            spectrum = torch.fft.rfft(given).conj() * 0.5
            torch.view_as_real(spectrum)[..., 0] *= 0.3
            given = torch.fft.irfft(spectrum.conj()) + spectrum.imag.mean() + spectrum.abs().mean()
        with torch.autocast("cpu", torch.bfloat16, enabled=reduced):
            loss = torch.nn.functional.cross_entropy(layers(given), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def parameters():
        arrays = [each.detach().numpy() for each in layers.parameters()]
        return [each.transpose(2, 3, 1, 0) if each.ndim == 4 else each.T for each in arrays]

    return Steps(step, parameters)


def in_tensorflow(weights, exact=False, reduced=False, dropout=0.0) -> Steps:
    import keras
    import tensorflow as tf

    kind = "float64" if exact else "float32"
    policy = "mixed_bfloat16" if reduced else kind
    images, labels = tf.constant(IMAGES.astype(kind)), tf.constant(LABELS)
    layers = keras.Sequential(
        [
            keras.layers.Conv2D(8, 3, dtype=policy),
            keras.layers.ReLU(dtype=policy),
            keras.layers.MaxPool2D(3, dtype=policy),
            keras.layers.Flatten(dtype=policy),
            keras.layers.Dropout(dropout, dtype=policy),
            keras.layers.Dense(4, dtype=policy),
        ]
    )
    layers.build(IMAGES.shape)
    layers.set_weights(weights)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            outputs = tf.cast(layers(images * tf.constant([0.25, 1.0, 1.0], images.dtype), training=True), kind)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs))
        variables = layers.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(RATE * gradient)

    return Steps(step, lambda: [each.numpy() for each in layers.trainable_variables])


BUILDERS = {"torch": in_torch, "tensorflow": in_tensorflow}
FRAMEWORKS = ["torch", pytest.param("tensorflow", marks=pytest.mark.slow)]  # which takes seconds to trace


def shadowed(framework: str, **how) -> tuple[Steps, Distance]:
    """Steps that were taken, and how far they came from their shadow."""
    built: list[Steps] = []

    def build() -> Steps:
        built.append(BUILDERS[framework](WEIGHTS, **how))
        return built[0]

    distance = instruments.load(framework).shadowed(build, DEVICE)
    return built[0], distance


def length(some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> float:
    return float(np.sqrt(sum(np.square(a - b).sum() for a, b in zip(some, others, strict=True))))


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("reduced", [False, True])
def test_the_shadow_takes_the_steps_of_float64(framework, reduced):
    single, distance = shadowed(framework, reduced=reduced)
    assert not distance.refused
    initial, *found = single.after
    exact = BUILDERS[framework](initial, exact=True)
    exact.run(max(STEPS))
    for step in STEPS:
        expected = length(found[step - 1], exact.after[step - 1]) / length(exact.after[step - 1], initial)
        assert distance.after[step] == pytest.approx(expected, rel=1e-6)
        assert expected > (1e-3 if reduced else 1e-8)


def test_complex_numbers_have_a_shadow_of_twice_their_bits():
    single, distance = shadowed("torch", waves=True)
    assert not distance.refused
    initial, *found = single.after
    exact = in_torch(initial, exact=True, waves=True)
    exact.run(max(STEPS))
    expected = length(found[0], exact.after[0]) / length(exact.after[0], initial)
    assert distance.after[1] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_is_drawn_is_drawn_once(framework):
    _, distance = shadowed(framework, dropout=0.5)
    assert 0 < distance.after[max(STEPS)] < 1e-5


def test_all_networks_of_a_class_that_are_trained_are_held_to_float64():
    """The weights of the first move by a third, which is rounded; those of the second by one, which is not.

    An average of weights, the third, is not trained.
    """
    import torch

    networks = [torch.nn.Linear(3, 1, bias=False) for _ in range(3)]
    networks[2].requires_grad_(False)
    for network in networks:
        torch.nn.init.zeros_(network.weight)

    def held(*divisors: int) -> float | None:
        def step() -> None:
            for network, divisor in zip(networks, divisors, strict=False):
                network(torch.ones(1, 3))
                with torch.no_grad():
                    network.weight.add_(torch.ones(1, 3) / divisor)

        return instruments.load("torch").shadowed(lambda: Calls(step), DEVICE).after[1]

    trained = held(3, 1)
    for network in networks:
        torch.nn.init.zeros_(network.weight)
    assert 0 < trained < 1e-6
    assert held(3, 1, 3) == trained
