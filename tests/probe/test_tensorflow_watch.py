"""What is noted of small steps in TensorFlow, or why nothing is."""

import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from suite import config  # noqa: E402
from suite.errors import UserError  # noqa: E402
from suite.harness.implementation import Device  # noqa: E402
from suite.probe.instruments.tensorflow_memory import Tracked  # noqa: E402
from suite.probe.instruments.tensorflow_watch import Places, Watched  # noqa: E402
from suite.probe.record import Conditions  # noqa: E402
from suite.probe.subject import Subject  # noqa: E402
from suite.probe.watching import Tracing  # noqa: E402
from tests.probe.made import Calls  # noqa: E402

CPU = Device("cpu", "fp32")


def of_no_layer() -> Calls:
    weight = tf.Variable(tf.ones((2, 2)))

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weight @ weight)
        weight.assign_sub(tape.gradient(loss, weight))

    return Calls(step)


def of_no_tape() -> Calls:
    layer = keras.layers.Dense(1)
    layer.build((2, 2))

    @tf.function(autograph=False)
    def step():
        return tf.gradients(layer(tf.random.normal((2, 2))), layer.kernel.value)

    return Calls(step)


def test_code_that_calls_no_layer_is_told_so_and_not_taken_for_data():
    for look in (lambda: Watched(of_no_layer, CPU).phases(1), lambda: Tracked(of_no_layer, CPU).step()):
        with pytest.raises(UserError, match="no Keras layer is called"):
            look()


def test_gradients_without_a_tape_are_not_taken_for_the_loss():
    with pytest.raises(UserError, match=r"no tf\.GradientTape gives gradients"):
        Watched(of_no_tape, CPU).phases(1)


def test_a_layer_that_a_function_begins_with_is_of_the_forward_pass():
    layer, x = keras.layers.Dense(2), tf.ones((3, 4))
    layer.build(x.shape)

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x))
        return tape.gradient(loss, layer.trainable_variables)

    calls = Watched(lambda: Calls(step), CPU).trace(1).calls
    assert {each.phase for each in calls if each.operator in ("ReadVariableOp", "MatMul", "BiasAdd")} == {
        "forward",
        "backward",
    }
    assert not [each.operator for each in calls if each.phase == "data"]


def test_activations_that_are_made_again_are_of_the_backward_phase():
    layers = [keras.layers.Dense(4, name=name) for name in ("first", "again", "last")]
    for layer in layers:
        layer.build((3, 4))
    first, again, last = layers
    made_again, weights = tf.recompute_grad(lambda x: again(x)), [each.kernel for each in layers]

    @tf.function(autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(last(made_again(first(x))))
        return loss, tape.gradient(loss, weights)

    calls = Watched(lambda: Calls(lambda: step(tf.ones((3, 4)))), CPU).trace(1).calls
    products = {(each.layer, each.phase) for each in calls if each.operator == "MatMul"}
    assert products == {(layer.name, phase) for layer in layers for phase in ("forward", "backward")}


class Tied(keras.Model):
    """Two layers of one name, and one that has another's weights, as translation's words are tied to its scores."""

    def __init__(self) -> None:
        super().__init__(name="tied")
        self.one, self.other = keras.layers.Dense(4, name="dense"), keras.layers.Dense(2, name="dense")
        self.words = keras.layers.Embedding(5, 3, name="words")
        self.scores = Scores(self.words)

    def call(self, places):
        return self.scores(self.other(self.one(self.words(places))))


class Scores(keras.layers.Layer):
    def __init__(self, words) -> None:
        super().__init__(name="scores")
        self.words = words

    def call(self, x):
        return x @ self.words.embeddings[:2]


def test_each_parameter_is_of_one_layer():
    def build() -> Calls:
        network = Tied()
        network(tf.zeros((1,), tf.int32))
        return Calls(tf.function(lambda: network(tf.zeros((1,), tf.int32)), autograph=False))

    parameters = Watched(build, CPU).trace(1).parameters
    dense = (3 + 1) * 4 + (4 + 1) * 2
    told = {"tied.words": 5 * 3, "tied.dense": dense, "tied.scores": 0, "tied": 0}
    assert {path: count for path, count in parameters.items() if path.startswith("tied")} == told


def test_what_a_batch_norm_reads_and_writes_is_told():
    """All but the last output of the forward pass, which the backward pass reads: a workspace of unknown shape."""
    scale, offset = tf.Variable(tf.ones(3)), tf.Variable(tf.zeros(3))

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            pixels = tf.random.normal((2, 4, 4, 3))
            loss = tf.reduce_sum(tf.square(tf.compat.v1.nn.fused_batch_norm(pixels, scale, offset)[0]))
        return tape.gradient(loss, [scale, offset])

    calls = Watched(lambda: Calls(step), CPU).trace(1).calls
    moved = {each.operator: each.bytes for each in calls if each.operator.startswith("FusedBatchNorm")}
    pixels, channels = 4 * 2 * 4 * 4 * 3, 4 * 3
    assert moved == {"FusedBatchNormV3": 2 * pixels + 6 * channels, "FusedBatchNormGradV3": 3 * pixels + 5 * channels}


def test_a_variable_moves_where_its_numbers_do():
    """It is read and assigned by reference; added to, or picked from, its own numbers are read or written as well."""
    table = tf.Variable(tf.zeros((100, 4)))

    @tf.function(autograph=False)
    def step():
        rows = tf.gather(table, [1, 2])
        table.assign_sub(table * 2.0)
        table.assign_add(tf.random.normal((100, 4)))
        table.assign(tf.random.normal((100, 4)))
        return rows

    calls = Watched(lambda: Calls(step), CPU).trace(1).calls
    moved = {each.operator: each.bytes for each in calls if "Variable" in each.operator or "Gather" in each.operator}
    whole, rows = 100 * 4 * 4, 2 * 4 * 4
    changed = {"AssignAddVariableOp": 3 * whole, "AssignSubVariableOp": 3 * whole}
    assert moved == {"ReadVariableOp": 0, "AssignVariableOp": 0, "ResourceGather": 2 * rows + 2 * 4, **changed}


def test_of_two_branches_that_share_names_neither_is_taken_for_the_one_that_ran():
    narrow, wide = (tf.Variable(tf.ones((4, width))) for width in (2, 64))

    @tf.function(autograph=False)
    def step():
        x = 2 * tf.random.uniform((3, 4))  # which the branches read by a placeholder of its name
        return tf.cond(tf.reduce_sum(x) < 0, lambda: tf.transpose(x @ narrow), lambda: tf.transpose(x @ wide))

    watched = Watched(lambda: Calls(step), CPU)
    calls = {each.operator: each for each in watched.trace(1).calls}
    assert (calls["MatMul"].shapes, calls["MatMul"].flops, calls["MatMul"].bytes) == ("", None, None)
    assert (calls["Transpose"].flops, calls["Transpose"].bytes) == (0, None)
    assert calls["Mul"].bytes == 4 + 2 * 4 * 3 * 4
    (noted,) = watched.places.functions.values()
    assert (noted["cond/matmul"].made, noted["cond/Identity"].made) == ((4 * 3 * 64,), (0,))


def test_code_that_runs_eagerly_is_told_to_make_a_function_of_its_step():
    with pytest.raises(UserError, match=r"a step that runs eagerly is not taken apart: make it a tf\.function"):
        Watched(lambda: Calls(lambda: tf.ones(2) + 1), CPU).phases(1)


class OfValues(Calls):
    """A product of as many rows as the values say."""

    def __init__(self) -> None:
        x = tf.ones((3, 3))
        super().__init__(tf.function(lambda: tf.boolean_mask(x, x[0] > 0) @ x, autograph=False))


def test_operators_of_unknown_shapes_are_named(monkeypatch):
    monkeypatch.setattr(Subject, "build", lambda subject: OfValues())
    monkeypatch.setattr(Subject, "watched", lambda subject: Watched(OfValues, CPU))
    conditions = Conditions(framework="tensorflow", mode="infer", precision="fp32")
    tracing = Tracing(Subject(conditions, config.system("cpu"), 0.01))
    tracing.repeat()
    (note,) = tracing.notes
    assert note.startswith("operations and bytes are unknown where shapes are: ")
    assert {"MatMul", "GatherV2"} <= {*note.partition(": ")[2].split(", ")}


class Norm(keras.layers.Layer):
    def call(self, x):
        return tf.compat.v1.nn.fused_batch_norm(x, tf.ones(3), tf.zeros(3))[0]


def test_the_gradient_of_a_fused_batch_norm_is_of_its_layer():
    """It bears the name of a scope alone."""
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
