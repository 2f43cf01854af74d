"""Both frameworks are one recipe: same parameters, same batches, same outputs, same work."""

import importlib

import numpy as np
import pytest

from reference_impls.image_classification.shared import Batches, Hyperparameters, classify, shrink
from suite import config
from suite.harness.implementation import Device
from suite.store.task import load_task

TASK = load_task("image_classification")
SMALL_SHAPES = {  # what the tests need of CIFAR-10: its shapes
    "train_images": np.random.default_rng(0).integers(0, 256, (1000, 32, 32, 3), np.uint8),
    "train_labels": np.random.default_rng(1).integers(0, 10, 1000, np.uint8),
    "test_images": np.random.default_rng(2).integers(0, 256, (64, 32, 32, 3), np.uint8),
}


def build(framework: str, scale: str, data, seed: int = 3, precision: str = "fp32"):
    module = importlib.import_module(f"reference_impls.image_classification.{framework}")
    hyper = config.benchmark("image_classification", scale).hyperparameters
    return module.build(hyper, data, seed, Device("cpu", precision))


@pytest.fixture(scope="module")
def digits():
    return TASK.prepare("mini", None)


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_torch_weights_give_the_same_logits_in_tensorflow(scale, digits):
    data = digits if scale == "mini" else SMALL_SHAPES
    torch, tensorflow = build("torch", scale, data), build("tensorflow", scale, data, seed=4)
    torch.train_until(1)
    tensorflow.load_state_dict(torch.state_dict())
    images = data["test_images"][:64]
    expected = torch.logits(images)
    assert np.abs(expected).max() > 0.1
    assert np.abs(expected - tensorflow.logits(images)).max() < 1e-4


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_both_start_from_the_same_parameters(scale, digits):
    data = digits if scale == "mini" else SMALL_SHAPES
    torch, tensorflow = build("torch", scale, data).state_dict(), build("tensorflow", scale, data).state_dict()
    assert torch.keys() == tensorflow.keys()
    assert all(np.array_equal(torch[name], tensorflow[name]) for name in torch)


def test_both_take_the_same_steps(digits):
    torch, tensorflow = build("torch", "mini", digits), build("tensorflow", "mini", digits)
    losses = [implementation.train_until(500).loss for implementation in (torch, tensorflow)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    ours, theirs = torch.state_dict(), tensorflow.state_dict()
    assert max(np.abs(ours[name] - theirs[name]).max() for name in ours) < 1e-3


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_goes_on_from_a_state_as_if_never_stopped(framework, digits):
    whole, cut, resumed = (build(framework, "mini", digits) for _ in range(3))
    whole.train_until(1500)
    cut.train_until(700)
    resumed.load_state_dict(cut.state_dict())
    resumed.train_until(1500)
    assert all(np.array_equal(whole.state_dict()[name], resumed.state_dict()[name]) for name in whole.state_dict())


def test_building_does_not_touch_the_training_data(digits):
    class Untouchable(np.ndarray):
        def __array_function__(self, function, types, arguments, keywords):
            raise AssertionError(f"{function.__name__} of the training data")

        def __getitem__(self, key):
            raise AssertionError("the training data was read")

    data = {name: a.view(Untouchable) if name.startswith("train_") else a for name, a in digits.items()}
    for framework in ("torch", "tensorflow"):
        build(framework, "mini", data)


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_both_do_the_same_floating_point_operations(scale, digits):
    import tensorflow as tf
    import torch
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    from torch.utils.flop_counter import FlopCounterMode

    data = digits if scale == "mini" else SMALL_SHAPES
    ours, theirs = build("torch", scale, data), build("tensorflow", scale, data)
    pixels = data["test_images"][:8].astype(np.float32)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        ours_module = importlib.import_module("reference_impls.image_classification.torch")
        ours_module.network(ours.p, ours.to_device(pixels), False, 0.6)
    theirs_module = importlib.import_module("reference_impls.image_classification.tensorflow")
    concrete = tf.function(lambda x: theirs_module.network(theirs.p, x, False, 0.6)).get_concrete_function(
        tf.TensorSpec(pixels.shape, tf.float32)
    )
    graph = convert_variables_to_constants_v2(concrete).graph
    flops = 0
    for operation in graph.get_operations():
        if operation.type in ("Conv2D", "MatMul"):
            weights = operation.inputs[1].shape
            outputs = operation.outputs[0].shape.num_elements()
            per_output = weights.num_elements() // operation.outputs[0].shape[-1]
            flops += 2 * outputs * per_output
    assert flops == counter.get_total_flops()


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_fp16_with_loss_scaling_learns(framework, digits):
    implementation = build(framework, "mini", digits, precision="fp16")
    first = implementation.train_until(100).loss
    assert implementation.train_until(2000).loss < first / 2


@pytest.mark.gpu
@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_trains_on_a_gpu(framework, precision, digits):
    module = importlib.import_module(f"reference_impls.image_classification.{framework}")
    hyper = config.benchmark("image_classification", "mini").hyperparameters
    implementation = module.build(hyper, digits, 3, Device("gpu", precision))
    implementation.train_until(12000)
    assert TASK.score(implementation.predict(), digits)["accuracy"] > 0.97


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

    assert classify(logits, images, hyper).tolist() == [1, 1, 1, 0, 1, 1, 0, 1]
    assert np.array_equal(seen[1][0][1:, 1:], images[6][:-1, :-1]) or np.array_equal(
        seen[1][0][1:, 1:], images[3][:-1, :-1]
    )


def test_shrinking_averages_areas():
    images = np.random.default_rng(0).random((2, 32, 32, 3), np.float32)
    assert np.allclose(shrink(images, 16), images.reshape(2, 16, 2, 16, 2, 3).mean((2, 4)), atol=1e-6)
    assert shrink(images, 20).mean() == pytest.approx(images.mean(), abs=1e-3)
