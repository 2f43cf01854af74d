"""TensorFlow's models as bricks."""

import re
from collections import Counter
from functools import partial
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

from suite.bricks import frameworks, record
from suite.bricks.__main__ import main
from suite.bricks.brick import Brick, Call, Tensor
from suite.bricks.chaining import Bricks
from suite.bricks.record import Made
from suite.errors import UserError
from suite.harness.implementation import Device
from tests.bricks import made
from tests.probe.made import Calls


def test_bricks_do_what_the_layers_do():
    import tensorflow as tf

    from suite.bricks.frameworks.tensorflow_recording import Recorder
    from suite.bricks.frameworks.tensorflow_running import Runner

    random = np.random.default_rng(0)
    pictures, filters = (tf.constant(random.standard_normal(s, np.float32)) for s in ((1, 6, 6, 2), (3, 3, 2, 4)))
    recorder = Recorder()
    with recorder.told():
        expected = tf.reduce_mean(tf.nn.relu(tf.nn.conv2d(pictures, filters, 1, "SAME")), [1, 2])
    bricks = Bricks(3)
    model = bricks.add(made.CONDITIONS, [recorder.recorded])
    assert model.calls == 3
    assert model.left_out == {}
    (brick,) = bricks.made
    runner = Runner(brick, Device("cpu", "fp32"))
    (found,) = runner.forward([pictures, filters])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_gradient_that_nobody_uses_is_no_brick():
    """A graph leaves it out."""
    import tensorflow as tf

    from suite.bricks.frameworks.tensorflow_recording import Recorder

    pictures, filters = tf.ones((1, 6, 6, 2)), [tf.Variable(tf.ones((3, 3, 2, 2))) for _ in range(2)]
    recorder = Recorder()
    with recorder.told():
        with tf.GradientTape() as tape:
            made = tf.nn.conv2d(tf.nn.conv2d(pictures, filters[0], 1, "SAME"), filters[1], 1, "SAME")
        for each, gradient in zip(filters, tape.gradient(made, filters), strict=True):
            each.assign_sub(gradient)
    kinds = Counter(called.call.op for called in recorder.recorded.calls)
    assert {kind: kinds[kind] for kind in kinds if "Conv" in kind or "Assign" in kind} == {
        "Conv2D": 2,
        "Conv2DBackpropFilter": 2,
        "Conv2DBackpropInput": 1,
        "AssignSubVariableOp": 2,
    }


def test_an_operation_whose_tensor_no_brick_can_hold_is_left_out():
    """Here one of nine axes, as the gradient of Keras' UpSampling2D makes."""
    import tensorflow as tf

    from suite.bricks.frameworks.tensorflow_recording import Recorder

    recorder = Recorder()
    with recorder.told():
        many = tf.identity(tf.reshape(tf.ones((4, 8)), (2, 2, 2, 2, 2, 1, 1, 1, 1)))
        tf.nn.relu(tf.reduce_sum(many, (0, 1, 2)))
    assert [called.call.op for called in recorder.recorded.calls] == ["Fill", "Relu"]
    assert recorder.recorded.left_out == {"Reshape": 1, "Identity": 1, "Sum": 1}


def test_draws_are_bricks_which_no_seed_makes_others():
    import tensorflow as tf

    from suite.bricks.frameworks.tensorflow import runner
    from suite.bricks.frameworks.tensorflow_recording import Recorder

    recorder, bricks = Recorder(), Bricks(1)
    with recorder.told():
        for seed in ((1, 2), (3, 4)):
            tf.random.stateless_uniform((8, 8), seed)
    assert bricks.add(made.CONDITIONS, [recorder.recorded]).left_out == {}
    kinds = [call.op for brick in bricks.made for call in brick.calls]
    assert kinds == ["StatelessRandomGetKeyCounter", "StatelessRandomUniformV2", "Sub", "Mul", "AddV2"]
    for brick in bricks.made:
        assert runner(brick, Device("cpu", "fp32"), "train", 1 << 20).run() > 0


def test_the_gradient_of_a_pooling_stands_behind_it():
    """As in a model: else TensorFlow takes an operation of its own, which is not oneDNN's."""
    import tensorflow as tf

    from suite.bricks.frameworks.tensorflow_running import Runner

    pooled = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID", "data_format": "NHWC"}
    call = Call(op="MaxPoolGrad", arguments=({"tensor": 0}, {"tensor": 1}, {"tensor": 2}), keywords=pooled)
    shapes = (1, 4, 4, 2), (1, 2, 2, 2), (1, 2, 2, 2)
    brick = Brick(tensors=tuple(Tensor(shape=s, dtype="float32", fresh=True) for s in shapes), calls=(call,))
    runner = Runner(brick, Device("cpu", "fp32"))
    given, result, _ = runner.ready(runner.sources)
    np.testing.assert_array_equal(result, tf.nn.max_pool2d(given, 2, 2, "VALID"))


def test_a_brick_multiplies_in_its_own_precision():
    """On a GPU, where TensorFlow multiplies fp32 as tf32 if it is not told otherwise."""
    import tensorflow as tf

    from suite.bricks.frameworks.tensorflow_running import Runner

    for precision in ("tf32", "fp32"):
        Runner(_addition(4), Device("cpu", precision))
        assert tf.config.experimental.tensor_float_32_execution_enabled() == (precision == "tf32")


@pytest.mark.parametrize(("size", "times"), [(4, 16), (1 << 14, 1)])
def test_a_small_brick_is_run_several_times_in_a_graph_and_large_weights_are_read_once(size, times):
    from suite.bricks.frameworks.tensorflow import runner

    made = runner(_addition(size), Device("cpu", "fp32"), "train", 1 << 30)
    (weights, added), before = made.sources, made.sources[0].numpy()
    made.prepare()
    assert made.run() > 0
    np.testing.assert_allclose(weights, before + times * added.numpy(), rtol=1e-5)


def test_what_a_reading_of_the_clock_takes_is_taken_off(monkeypatch):
    from suite.bricks.frameworks import tensorflow_clock
    from suite.bricks.frameworks.tensorflow_running import Runner

    runner, read = Runner(_addition(4), Device("cpu", "fp32"), repeats=4), iter([0.0, 1.0, 17.0])
    monkeypatch.setattr(tensorflow_clock, "time", SimpleNamespace(perf_counter=lambda: next(read)))
    tensorflow_clock.empty_seconds(runner.device).clear()
    assert runner.run() == (16 - 1) / 4


def test_the_operations_of_a_chain_are_joined():
    from tensorflow.python.eager.context import context

    from suite.bricks.frameworks.tensorflow import runner

    shapes, fresh = ((1, 8, 8, 4), (1, 1, 4, 4), (4,)), {"tensor": 0}
    chain = Brick(
        tensors=tuple(Tensor(shape=each, dtype="float32", fresh=len(each) == 4 and each[1] > 1) for each in shapes),
        calls=(
            Call(op="Conv2D", arguments=(fresh, {"tensor": 1}), keywords={"strides": [1] * 4, "padding": "SAME"}),
            Call(op="BiasAdd", arguments=({"output": [0, 0]}, {"tensor": 2})),
            Call(op="Relu", arguments=({"output": [1, 0]},)),
        ),
    )
    context().enable_run_metadata()
    try:
        runner(chain, Device("cpu", "fp32"), "infer", 1 << 30)
        graph = context().export_run_metadata().function_graphs[-1].post_optimization_graph
    finally:
        context().disable_run_metadata()
    kinds = {node.op for node in graph.node}
    assert "_FusedConv2D" in kinds
    assert not {"Conv2D", "BiasAdd", "Relu"} & kinds


def _addition(size):
    """To weights that a graph may write to."""
    return Brick(
        tensors=(
            Tensor(shape=(size,), dtype="float32", variable=True),
            Tensor(shape=(size,), dtype="float32", fresh=True),
        ),
        calls=(Call(op="AssignAddVariableOp", arguments=({"tensor": 0}, {"tensor": 1})),),
    )


@pytest.mark.parametrize("mode", ["infer", "train"])
def test_from_a_model_to_its_time(mode, tmp_path, capsys):
    file, timings, found = made.composed(capsys, tmp_path, made.KERAS, f"mode={mode}")
    assert found["unique"] == len(file.bricks) < found["steps"]
    assert found["calls left out"] == {}
    assert found["ms"] > 0
    assert found["between"] > 0
    assert [each.why for each in timings.times if each.why] == []
    kinds = {call.op for brick in file.bricks for call in brick.calls}
    assert {"Conv2D", "Relu", "MatMul"} <= kinds
    assert ("Conv2DBackpropFilter" in kinds) == (mode == "train")


def test_a_model_of_ones_own_is_built_on_its_device_for_pictures_of_the_size_asked_for(tmp_path):
    placed = "    from tensorflow.python.eager import context\n    assert context.context().device_name\n    return"
    out = tmp_path / "bricks.json"
    own = made.own(tmp_path, made.KERAS.replace("(16, 16, 3)", "(None, None, 3)").replace("    return", placed))
    assert main(["make", f"models={own}", "size=8", f"out={out}"]) == 0
    assert (1, 8, 8, 3) in {each.shape for brick in record.read(Made, out).bricks for each in brick.tensors}
    own = made.own(tmp_path, made.KERAS)
    with pytest.raises(UserError, match=r"size=384: this keras\.Model takes pictures of 16 x 16: leave out size="):
        main(["make", f"models={own}", "size=384", f"out={out}"])


SUBCLASS = """
import keras


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.convolution, self.head = keras.layers.Conv2D(8, 3), keras.layers.Dense(10)

    def call(self, x):
        return {"classes": self.head(keras.ops.mean(self.convolution(x), (1, 2)))}


def build():
    return Net()
"""


@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.parametrize("text", [SUBCLASS, made.KERAS.replace("keras.Input((16, 16, 3)), ", "")])
def test_a_model_that_does_not_say_what_it_takes_is_given_pictures(text, mode, tmp_path):
    own, out = made.own(tmp_path, text), tmp_path / "bricks.json"
    assert main(["make", f"models={own}", "size=16", f"mode={mode}", f"out={out}"]) == 0
    kinds = {call.op for brick in record.read(Made, out).bricks for call in brick.calls}
    assert {"Conv2D", "MatMul"} <= kinds


def test_a_model_that_gives_no_logits_does_not_train(tmp_path):
    own = made.own(tmp_path, SUBCLASS.replace('{"classes":', '{"features": self.convolution(x), "classes":'))
    with pytest.raises(UserError, match=r"gives logits \[batch, classes\], and this one \[1, 14, 14, 8\]"):
        main(["make", f"models={own}", "size=16", "mode=train", f"out={tmp_path / 'bricks.json'}"])


@pytest.mark.parametrize("shape", [(4,), (None, None, None)])
def test_a_model_of_something_else_than_a_picture_is_refused(shape, tmp_path):
    text = f"import keras\n\n\ndef build():\n    return keras.Sequential([keras.Input({shape}), keras.layers.ReLU()])\n"
    own, said = made.own(tmp_path, text), re.escape(f"[batch, height, width, channels], and this one {(None, *shape)}")
    with pytest.raises(UserError, match=f"takes one of {said}"):
        main(["make", f"models={own}", f"out={tmp_path / 'bricks.json'}"])


def test_a_model_may_give_one_number_a_picture(tmp_path):
    own = made.own(tmp_path, SUBCLASS.replace('{"classes": self.head(', "keras.ops.max(").replace("))}", "), 1)"))
    assert main(["make", f"models={own}", "size=16", f"out={tmp_path / 'bricks.json'}"]) == 0


@pytest.mark.parametrize("imported", ["keras", "torch"])
def test_what_is_no_model_is_refused(imported, tmp_path):
    own = made.own(tmp_path, f"import {imported}\n\n\ndef build():\n    return []\n")
    with pytest.raises(UserError, match=r"net\.py: build\(\) gave list, and not a torch\.nn\.Module or keras\.Model"):
        main(["make", f"models={own}", f"out={tmp_path / 'bricks.json'}"])


def test_a_brick_that_would_fill_the_memory_is_not_run():
    runs = partial(frameworks.runs, frameworks.load("tensorflow"))
    shape = [{"dtype": "int64"}, [1 << 40]]
    fill = {
        "tensors": [{"shape": [], "dtype": "float32"}],
        "calls": [{"op": "Fill", "arguments": [shape, {"tensor": 0}]}],
    }
    assert not runs(Brick.model_validate(fill), Device("cpu", "fp32"), "infer", 1 << 30)
    shape[1] = [4]
    assert runs(Brick.model_validate(fill), Device("cpu", "fp32"), "infer", 1 << 30)


def test_what_the_host_does_beside_its_graphs(monkeypatch):
    import tensorflow as tf

    from suite.bricks.frameworks import tensorflow_between

    clock = SimpleNamespace(now=0.0)

    def takes(value):
        clock.now += 8.0
        return value

    weight = tf.Variable(1.0)
    graph = tf.function(lambda value: tf.numpy_function(takes, [value * weight], tf.float32))

    def wait():
        clock.now += 1.0
        graph(tf.ones(()))

    waiting = Calls(wait)
    waiting.run(1)
    monkeypatch.setattr(tensorflow_between, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    empty = mock.Mock(wraps=tensorflow_between.empty_call)
    monkeypatch.setattr(tensorflow_between, "empty_call", empty)
    assert tensorflow_between.between(waiting, 2) == 1.0
    assert empty.call_count == 1  # of a graph that is called again and again


def test_what_an_operation_keeps_for_itself_needs_no_shape():
    from suite.bricks.frameworks.tensorflow import runner

    channels = Tensor(shape=(4,), dtype="float32")
    brick = Brick(
        tensors=(Tensor(shape=(2, 3, 3, 4), dtype="float32", fresh=True), *[channels] * 4),
        calls=(
            Call(
                op="FusedBatchNormV3",
                arguments=tuple({"tensor": at} for at in range(5)),
                keywords={"epsilon": 1e-3, "data_format": "NHWC", "is_training": True},
            ),
        ),
    )
    assert runner(brick, Device("cpu", "fp32"), "train", 1 << 20).run() > 0
