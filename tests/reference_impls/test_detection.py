"""What is peculiar to detection: moving boxes, targets, decoding, and the order of its batches."""

import numpy as np
import pytest

from reference_impls.detection.decoding import records, suppress
from reference_impls.detection.shared import Batches, Hyperparameters, move, sampling, targets
from suite import config
from tests.reference_impls.material import blood_cells


def hyperparameters(scale: str, **changes):
    return Hyperparameters.of(config.benchmark("detection", scale).hyperparameters | changes)


def test_one_seed_gives_one_order_and_another_seed_another():
    def first(seed: int):
        return next(Batches(blood_cells(), hyperparameters("small", global_batch_size=4), seed).iterate(1)).cells

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
