"""GELU of the implementations in TensorFlow, which has its own gradient and is compiled where its shape is known."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from reference_impls.tensorflow_shared import gelu  # noqa: E402


def with_gradient(function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return y, tape.gradient(y, x, 1 + tf.cast(tf.range(x.shape[-1]), x.dtype))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("bfloat16", 2e-2), ("float16", 2e-3)])
def test_it_is_tensorflow_s_with_its_gradient_compiled_or_not(dtype, tolerance):
    x = tf.cast(np.linspace(-6, 6, 96).reshape(2, 6, 8), dtype)
    wide = with_gradient(lambda x: tf.nn.gelu(x, approximate=False), tf.cast(x, tf.float32))
    known = tf.function(lambda x: with_gradient(gelu, x), autograph=False)
    unknown = tf.function(lambda x: gelu(x), [tf.TensorSpec((None, 6, 8), dtype)], autograph=False)
    compiled = [
        any(function.attr["_XlaMustCompile"].b for function in each.graph.as_graph_def().library.function)
        for each in (known.get_concrete_function(x), unknown.get_concrete_function())
    ]
    assert compiled == [True, False]
    for found in (known(x), with_gradient(gelu, x), with_gradient(unknown, x)):
        for one, other in zip(found, wide, strict=True):
            assert one.dtype == x.dtype
            np.testing.assert_allclose(tf.cast(one, tf.float32), other, tolerance, tolerance)


def test_its_shape_is_known_in_a_graph_whatever_shape_came_before():
    shapes = [(2, 3), (4, 3), (4, 5, 5, 2), (8, 3)]

    @tf.function(autograph=False)
    def made():
        return [gelu(tf.zeros(shape)) for shape in shapes]

    assert [tuple(each.shape) for each in made.get_concrete_function().outputs] == shapes
