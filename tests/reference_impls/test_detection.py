"""Both frameworks are one recipe: same parameters, same batches, same outputs, same work."""

import importlib
from functools import cache

import numpy as np
import pytest

from reference_impls.detection.decoding import records, suppress
from reference_impls.detection.shared import Batches, Hyperparameters, move, normalise, patches, sampling, targets
from suite import config
from suite.harness.implementation import Device
from suite.store.arrays import prepared
from suite.store.task import load_task

TASK = load_task("detection")


def made_up(height: int, width: int, channels: int, classes: int):
    """Noise with boxes: what the tests need of BCCD are its shapes."""
    random = np.random.default_rng(0)
    low = random.uniform(0, [width - 40, height - 40], (16, 3, 2))
    boxes = np.concatenate([low, low + random.uniform(12, 40, (16, 3, 2))], -1).astype(np.float32)
    return {
        "train_images": random.integers(0, 256, (16, height, width, channels), np.uint8),
        "train_boxes": boxes,
        "train_classes": random.integers(-1, classes, (16, 3)).astype(np.int8),
        "test_images": random.integers(0, 256, (8, height, width, channels), np.uint8),
    }


DATA = {"mini": made_up(64, 64, 1, 10), "small": made_up(96, 128, 3, 3)}  # smaller images than BCCD's, for speed


@cache
def built(framework: str, scale: str, precision: str = "fp32"):
    """An implementation and the state it starts with, built once for all tests."""
    module = importlib.import_module(f"reference_impls.detection.{framework}")
    values = config.benchmark("detection", scale).hyperparameters | {"global_batch_size": 4}
    made = module.build(values, DATA[scale], 3, Device("cpu", precision))
    return made, made.state_dict()


def fresh(framework: str, scale: str, precision: str = "fp32"):
    implementation, initial = built(framework, scale, precision)
    implementation.load_state_dict(initial)
    return implementation


def hyperparameters(scale: str, **changes):
    return Hyperparameters.of(config.benchmark("detection", scale).hyperparameters | changes)


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_torch_weights_give_the_same_outputs_in_tensorflow(scale):
    torch, tensorflow = fresh("torch", scale), fresh("tensorflow", scale)
    torch.train_until(8)
    tensorflow.load_state_dict(torch.state_dict())
    images = DATA[scale]["test_images"]
    for ours, theirs in zip(torch.outputs(images), tensorflow.outputs(images), strict=True):
        assert np.ptp(ours) > 0
        assert np.abs(ours - theirs).max() < 1e-4


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_both_start_from_the_same_parameters(scale):
    torch, tensorflow = fresh("torch", scale).state_dict(), fresh("tensorflow", scale).state_dict()
    assert torch.keys() == tensorflow.keys()
    assert all(np.array_equal(torch[name], tensorflow[name]) for name in torch)


def test_both_take_the_same_steps():
    torch, tensorflow = fresh("torch", "mini"), fresh("tensorflow", "mini")
    losses = [implementation.train_until(12).loss for implementation in (torch, tensorflow)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    ours, theirs = torch.state_dict(), tensorflow.state_dict()
    assert max(np.abs(ours[name] - theirs[name]).max() for name in ours) < 1e-3


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_goes_on_from_a_state_as_if_never_stopped(framework):
    implementation = fresh(framework, "mini", "bf16")
    implementation.train_until(12)
    cut = implementation.state_dict()
    implementation.train_until(24)
    whole = implementation.state_dict()
    implementation.load_state_dict(cut)
    implementation.train_until(24)
    resumed = implementation.state_dict()
    assert int(resumed["step"]) == 6
    assert not np.array_equal(whole["head_weight"], cut["head_weight"])
    assert all(np.array_equal(whole[name], resumed[name]) for name in whole)


def test_building_does_not_touch_the_training_data():
    class Untouchable(np.ndarray):
        def __array_function__(self, function, types, arguments, keywords):
            raise AssertionError(f"{function.__name__} of the training data")

        def __getitem__(self, key):
            raise AssertionError("the training data was read")

    data = {name: a.view(Untouchable) if name.startswith("train_") else a for name, a in DATA["mini"].items()}
    for framework in ("torch", "tensorflow"):
        module = importlib.import_module(f"reference_impls.detection.{framework}")
        module.build(config.benchmark("detection", "mini").hyperparameters, data, 3, Device("cpu", "fp32"))


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_both_do_the_same_floating_point_operations(scale):
    import tensorflow as tf
    import torch
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    from torch.utils.flop_counter import FlopCounterMode

    hyper = hyperparameters(scale)
    ours, theirs = fresh("torch", scale), fresh("tensorflow", scale)
    cells = patches(normalise(DATA[scale]["test_images"]), hyper.stride)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        importlib.import_module("reference_impls.detection.torch").network(ours.p, ours.to_device(cells), hyper, False)
    network = importlib.import_module("reference_impls.detection.tensorflow").network
    concrete = tf.function(lambda x: network(theirs.p, x, hyper, False)).get_concrete_function(
        tf.TensorSpec(cells.shape, tf.float32)
    )
    flops = 0
    for operation in convert_variables_to_constants_v2(concrete).graph.get_operations():
        if operation.type == "Conv2D":
            weights, outputs = operation.inputs[1].shape, operation.outputs[0].shape
            flops += 2 * outputs.num_elements() * weights.num_elements() // outputs[-1]
    assert flops == counter.get_total_flops()


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_fp16_with_loss_scaling_follows_fp32(framework):
    losses = {precision: fresh(framework, "mini", precision).train_until(20).loss for precision in ("fp16", "fp32")}
    assert losses["fp16"] != losses["fp32"]
    assert losses["fp16"] == pytest.approx(losses["fp32"], rel=0.02)


@pytest.mark.gpu
@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_trains_on_a_gpu(framework, precision):
    benchmark = config.benchmark("detection", "mini")
    data = prepared(benchmark, TASK)
    module = importlib.import_module(f"reference_impls.detection.{framework}")
    implementation = module.build(benchmark.hyperparameters, data, 3, Device("gpu", precision))
    implementation.train_until(benchmark.hyperparameters["opt_learning_rate_training_samples"])
    assert TASK.score(implementation.predict(), data)["map"] > benchmark.target - 0.03


def test_one_seed_gives_one_order_and_another_seed_another():
    def first(seed: int):
        return next(Batches(DATA["small"], hyperparameters("small", global_batch_size=4), seed).iterate(1)).cells

    assert np.array_equal(first(1), first(1))
    assert not np.array_equal(first(1), first(2))


def test_boxes_move_with_their_pixels():
    """A bright rectangle, moved by the matrices that move images, fills the box that was moved as boxes are."""
    image = np.zeros((40, 60), np.float32)
    image[10:20, 15:45] = 1
    scales, shifts = np.array([[-1.2, 0.8]]), np.array([[3.0, -5.0]])  # of y, upside down, and x
    rows, columns = (sampling(scales[:, i], shifts[:, i], side)[0] for i, side in enumerate(image.shape))
    seen = rows @ image @ columns.T
    boxes, classes = move(np.float32([[[15, 10, 45, 20]]]), np.int8([[0]]), scales, shifts, *image.shape)
    y, x = np.nonzero(seen > 0.5)
    assert classes.tolist() == [[0]]
    assert np.abs(boxes[0, 0] - [x.min(), y.min(), x.max() + 1, y.max() + 1]).max() <= 0.6


def test_objects_that_leave_the_picture_are_none_any_more():
    boxes, classes = np.float32([[[0, 0, 10, 10], [20, 20, 30, 30]]]), np.int8([[1, 0]])
    moved, left = move(boxes, classes, np.ones((1, 2)), np.array([[-4.0, -8.0]]), 40, 60)
    assert left.tolist() == [[-1, 0]]  # 2x6 of 10x10 pixels are left of the first
    assert moved[0, 1].tolist() == [12, 16, 22, 26]


def test_targets_say_where_each_object_is_and_decoding_finds_it_there():
    hyper = hyperparameters("small")
    boxes = np.float32([[[10, 20, 50, 64], [30, 30, 46, 50], [90, 8, 126, 40]]])
    classes = np.int8([[0, 2, 0]])
    goal = targets(boxes, classes, np.zeros((1, 24, 32)), hyper)
    assert (goal.heat == 1).sum() == goal.objects == 3
    assert goal.weight.sum() == pytest.approx(3, abs=0.5)  # the smaller box takes some cells from the larger
    found = records(goal.heat, goal.sides, 7, hyper)[0]
    best = [r for r in found if r["score"] == 1]
    expected = [[*box[:2], *(box[2:] - box[:2])] for box in boxes[0]]
    assert all(r["image_id"] == 7 for r in found)
    assert sorted((r["category_id"], *r["bbox"]) for r in best) == sorted(
        (int(c), *map(float, box)) for c, box in zip(classes[0], expected, strict=True)
    )


def test_suppression_drops_the_weaker_of_two_boxes_of_one_class():
    boxes = np.float32([[0, 0, 10, 10], [0, 0, 10, 9], [0, 0, 10, 9], [5, 0, 15, 10]])  # best first
    assert suppress(boxes, np.array([0, 0, 1, 0]), 0.6).tolist() == [0, 2, 3]
