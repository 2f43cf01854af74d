"""Sums over many rows, in 16 bits on a CPU: Keras's biases and PyTorch's layer norm lose a part of their gradients."""

import numpy as np
import pytest
import tensorflow as tf
import torch

from reference_impls.tensorflow_shared import Conv2D, Dense
from reference_impls.torch_layers import LayerNorm

ROWS = 4096


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("kind", [Dense, Conv2D])
def test_the_gradient_of_a_bias_is_that_of_float32(kind, precision):
    drawn = np.random.default_rng(0).normal(1, 1, (1, ROWS, 1, 8)).astype(np.float32)
    gradients = []
    for policy in ("float32", precision):
        layer = kind(4, dtype=policy) if kind is Dense else kind(4, 1, dtype=policy)
        layer.build(drawn.shape)
        with tf.GradientTape() as tape:
            outputs = tf.cast(layer(drawn), tf.float32)
            loss = tf.reduce_sum(outputs * tf.constant(drawn[..., :4])) / 4
        gradients.append(tape.gradient(loss, layer.bias.value).numpy())
    expected, found = gradients
    assert np.linalg.norm(found - expected) < 0.01 * np.linalg.norm(expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_gradients_of_a_layer_norm_are_those_of_float32(dtype):
    drawn = torch.from_numpy(np.random.default_rng(0).normal(1, 1, (2, ROWS, 64)).astype(np.float32)).to(dtype)
    gradients = []
    for inputs, wanted in (drawn.float(), drawn):
        layer = LayerNorm(64)
        with torch.autocast("cpu", dtype, enabled=inputs.dtype == dtype):
            outputs = layer(inputs)
        assert outputs.dtype == inputs.dtype
        outputs.backward(wanted)
        gradients.append(torch.stack([layer.weight.grad, layer.bias.grad]))
    expected, found = gradients
    assert (found - expected).norm() < 0.01 * expected.norm()
