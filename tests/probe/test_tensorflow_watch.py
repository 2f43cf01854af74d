"""What is noted of small steps in TensorFlow, or why nothing is."""

import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from suite.errors import UserError  # noqa: E402
from suite.harness.implementation import Device  # noqa: E402
from suite.probe.instruments.tensorflow_memory import Tracked  # noqa: E402
from suite.probe.instruments.tensorflow_watch import Watched  # noqa: E402

CPU = Device("cpu", "fp32")


class Steps:
    """A workload of a function's steps."""

    samples = 1

    def __init__(self, step) -> None:
        self.step = step

    def ready(self, steps: int) -> None:
        """Nothing is to be done before."""

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()


def of_no_layer() -> Steps:
    weight = tf.Variable(tf.ones((2, 2)))

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weight @ weight)
        weight.assign_sub(tape.gradient(loss, weight))

    return Steps(step)


def of_no_tape() -> Steps:
    layer = keras.layers.Dense(1)
    layer.build((2, 2))

    @tf.function(autograph=False)
    def step():
        return tf.gradients(layer(tf.random.normal((2, 2))), layer.kernel.value)

    return Steps(step)


def test_code_that_calls_no_layer_is_told_so_and_not_taken_for_data():
    for look in (lambda: Watched(of_no_layer, CPU).phases(1), lambda: Tracked(of_no_layer, CPU).step()):
        with pytest.raises(UserError, match="no Keras layer is called"):
            look()


def test_gradients_without_a_tape_are_not_taken_for_the_loss():
    with pytest.raises(UserError, match=r"no tf\.GradientTape gives gradients"):
        Watched(of_no_tape, CPU).phases(1)
