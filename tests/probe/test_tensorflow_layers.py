"""A gradient in TensorFlow is of the layer that its operation is of, also where it bears the name of a scope alone."""

import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from suite.probe.instruments.tensorflow_watch import Places  # noqa: E402


class Norm(keras.layers.Layer):
    def call(self, x):
        return tf.compat.v1.nn.fused_batch_norm(x, tf.ones(3), tf.zeros(3))[0]


def test_the_gradient_of_a_fused_batch_norm_is_of_its_layer():
    layer, places = Norm(name="norm"), Places()

    @tf.function(autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.square(layer(x)))
        return tape.gradient(loss, x)

    layer(tf.ones((2, 4, 4, 3)))
    with places.followed():
        step(tf.ones((2, 4, 4, 3)))
    (noted,) = places.functions.values()
    assert [each.layer for each in noted.values() if each.kind == "FusedBatchNormGradV3"] == ["norm"]


def test_gradients_within_a_loop_and_a_branch_are_of_the_layers_called_there():
    class Network(keras.Model):
        def __init__(self):
            super().__init__(name="network")
            self.dense, self.cell = keras.layers.Dense(3, name="dense"), keras.layers.LSTM(4, name="lstm")

        def call(self, x):
            return self.cell(tf.cond(tf.reduce_sum(x) > 0, lambda: self.dense(x), lambda: x))

    network, x, places = Network(), tf.ones((2, 5, 3)), Places()
    network.dense(x)
    network.cell(x)

    @tf.function(autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(network(x))
        return tape.gradient(loss, network.trainable_variables)

    with places.followed():
        step(x)
    (noted,) = places.functions.values()
    products = {each.layer for each in noted.values() if each.kind == "MatMul" and each.phase == "backward"}
    assert products == {"network.dense", "network.lstm.lstm_cell"}
