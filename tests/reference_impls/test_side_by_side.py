"""Convolutions of images that stand side by side (`torch_convolution.py`, `tensorflow_convolution.py`)."""

import runpy

import numpy as np
import pytest

SHAPES = [(8, 7, 4), (5, 3, 8), (7, 1, 3)]
each_shape = pytest.mark.parametrize(("batch", "side", "count"), SHAPES)


@each_shape
def test_images_side_by_side_do_not_see_each_other_in_torch(batch, side, count):
    torch = pytest.importorskip("torch")
    from reference_impls.image_classification.torch_convolution import apart, side_by_side

    images = torch.randn(batch, 4, side, side, dtype=torch.float64, requires_grad=True)
    convolution = torch.nn.Conv2d(4, 6, 3, padding=1, bias=False).double()
    given = torch.randn(batch, 6, side, side, dtype=torch.float64)
    found = []
    for convolve in (convolution, lambda x: apart(convolution(side_by_side(x, count)), count, batch)):
        convolved = convolve(images)
        found.append((convolved, *torch.autograd.grad(convolved, (images, convolution.weight), given)))
    torch.testing.assert_close(*found)


@each_shape
def test_images_side_by_side_do_not_see_each_other_in_tensorflow(batch, side, count):
    tf = pytest.importorskip("tensorflow")
    from reference_impls.image_classification.tensorflow_convolution import apart, side_by_side

    images, given = (tf.random.normal((batch, side, side, channels), dtype=tf.float64) for channels in (4, 6))
    convolution = tf.keras.layers.Conv2D(6, 3, padding="same", use_bias=False, dtype="float64")
    found = []
    for convolve in (convolution, lambda x: apart(convolution(side_by_side(x, count)), count, batch)):
        with tf.GradientTape() as tape:
            tape.watch(images)
            convolved = convolve(images)
        found.append((convolved, *tape.gradient(convolved, (images, convolution.kernel), given)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, 1e-7, 1e-7)


def test_an_older_torch_need_not_tell_what_the_cpu_has(monkeypatch):
    torch = pytest.importorskip("torch")
    from reference_impls.image_classification import torch_convolution

    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert runpy.run_path(torch_convolution.__file__)["AMX"] == torch_convolution.AMX


def test_a_wide_convolution_in_bf16_has_the_same_gradient_either_way_in_torch():
    torch = pytest.importorskip("torch")
    from reference_impls.image_classification.torch_convolution import AMX, CHANNELS, Conv2d

    convolution, x = Conv2d(CHANNELS, 16), torch.randn(4, CHANNELS, 3, 3).bfloat16()
    assert (convolution.joins_images, Conv2d(CHANNELS // 2, 16).joins_images) == (AMX, False)
    gradients, makers = [], []
    for convolution.joins_images in (True, False):
        convolution.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            made = convolution(x)
        made.square().sum().backward()
        gradients.append(convolution.weight.grad)
        makers.append(made.grad_fn.name())
    assert makers[0] != makers[1]
    assert (gradients[0] - gradients[1]).norm() < 0.01 * gradients[1].norm()


def test_a_wide_convolution_in_bf16_has_the_same_gradient_either_way_in_tensorflow():
    tf = pytest.importorskip("tensorflow")
    from reference_impls.image_classification.tensorflow_convolution import AMX, CHANNELS, Conv2D

    convolution, x = Conv2D(16, on_cpu=True, dtype="mixed_bfloat16"), tf.random.normal((4, 3, 3, CHANNELS))
    assert convolution.joins_images == AMX
    assert not Conv2D(16, on_cpu=False, dtype="mixed_bfloat16").joins_images
    assert not Conv2D(16, on_cpu=True, dtype="float32").joins_images
    gradients, graphs = [], []
    for convolution.joins_images in (True, False):

        @tf.function(autograph=False)
        def gradient():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.square(tf.cast(convolution(x, training=True), tf.float32)))
            return tape.gradient(loss, convolution.kernel)

        gradients.append(gradient())
        graphs.append({node.op for node in gradient.get_concrete_function().graph.as_graph_def().node})
    assert graphs[0] - graphs[1] >= {"ConcatV2"}
    assert tf.norm(gradients[0] - gradients[1]) < 0.01 * tf.norm(gradients[1])
