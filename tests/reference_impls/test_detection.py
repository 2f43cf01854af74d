"""What is peculiar to detection: moving pictures and boxes, targets, decoding, and the order of its batches."""

from importlib import import_module
from itertools import islice

import numpy as np
import pytest

from reference_impls.detection.shared import Hyperparameters, draws, records
from suite import config
from suite.harness.contract import evaluation_data
from tests.reference_impls.cases import BY_ID, FRAMEWORKS, build
from tests.reference_impls.material import digit_scenes, noise_with_boxes

each_framework = pytest.mark.parametrize("framework", FRAMEWORKS)


class Functions:
    """The functions of a framework's boxes.py, from arrays to arrays; maps are [B, h, w, ...] in both."""

    def __init__(self, framework: str) -> None:
        self.torch = framework == "torch"
        self.functions = import_module(f"reference_impls.detection.{framework}_boxes")
        self.tensor = import_module(framework).as_tensor if self.torch else import_module(framework).constant

    def __call__(self, name: str, *arguments):
        """What the function makes of the arguments."""
        made = getattr(self.functions, name)(*(self.tensor(a) if isinstance(a, np.ndarray) else a for a in arguments))
        return [value.numpy() for value in made] if isinstance(made, tuple) else made.numpy()

    def targets(self, *arguments):
        """Heat, sides and weight."""
        heat, sides, weight = self("targets", *arguments)
        return heat.transpose(0, 2, 3, 1) if self.torch else heat, sides, weight

    def decoded(self, heat, sides, hyper):
        """Candidates."""
        maps = [a.transpose(0, 3, 1, 2) for a in (heat, sides)] if self.torch else [heat, sides]
        return self("decoded", *maps, hyper)


@pytest.fixture(params=FRAMEWORKS)
def functions(request):
    return Functions(request.param)


def hyperparameters(scale: str, **changes):
    return Hyperparameters.of(config.benchmark("detection", scale).hyperparameters | changes)


def test_one_seed_gives_one_order_and_another_seed_another():
    hyper = hyperparameters("small", global_batch_size=4)

    def some(seed: int, step: int = 0):
        return [np.concatenate([*map(np.ravel, vars(d).values())]) for d in islice(draws(10, 3, hyper, seed, step), 5)]

    assert np.array_equal(some(1), some(1))
    assert not np.array_equal(some(1), some(2))
    assert np.array_equal(some(1)[3], some(1, step=3)[0])
    assert all(len({*d.chosen.tolist()}) == 4 for d in islice(draws(10, 3, hyper, 1, 0), 5))


def test_boxes_move_with_their_pixels(functions):
    """A bright rectangle that was moved as images are fills the box that was moved as boxes are."""
    image = np.zeros((1, 1, 40, 60), np.float32)
    image[..., 10:20, 15:45] = 1
    scale, shift = np.float32([[0.8, -1.2]]), np.float32([[-5 / 60, 3 / 40]])  # of x, and y, upside down
    seen = functions("moved_planes", image, scale, shift)[0, 0]
    boxes, classes = np.float32([[[15, 10, 45, 20]]]), np.int64([[0]])
    boxes, classes = functions("moved_boxes", boxes, classes, scale, shift, np.float32([60, 40]))
    y, x = np.nonzero(seen > 0.5)
    assert classes.tolist() == [[0]]
    assert np.abs(boxes[0, 0] - [x.min(), y.min(), x.max() + 1, y.max() + 1]).max() <= 0.6


def test_objects_that_leave_the_picture_are_none_any_more(functions):
    boxes, classes = np.float32([[[0, 0, 10, 10], [20, 20, 30, 30]]]), np.int64([[1, 0]])
    shift = np.float32([[-8 / 60, -4 / 40]])
    moved, left = functions("moved_boxes", boxes, classes, np.ones((1, 2), np.float32), shift, np.float32([60, 40]))
    assert left.tolist() == [[-1, 0]]  # 2x6 of 10x10 pixels are left of the first
    assert moved[0, 1] == pytest.approx([12, 16, 22, 26], abs=1e-4)


def test_targets_say_where_each_object_is_and_decoding_finds_it_there(functions):
    hyper = hyperparameters("small")
    boxes = np.float32([[[10, 20, 50, 64], [30, 30, 46, 50], [90, 8, 126, 40], [60, 60, 80, 80]]])
    classes = np.int64([[0, 2, 0, -1]])
    heat, sides, weight = functions.targets(boxes, classes, 24, 32, hyper)
    assert (heat == 1).sum() == 3
    assert weight.sum() == pytest.approx(3, abs=0.5)  # the smaller box takes some cells from the larger
    (found,) = records(functions.decoded(heat, sides, hyper), hyper)
    best = [r for r in found if r["score"] == 1]
    expected = [[*box[:2], *(box[2:] - box[:2])] for box in boxes[0, :3]]
    assert all(r["image_id"] == 0 for r in found)
    assert sorted((r["category_id"], *r["bbox"]) for r in best) == sorted(
        (int(c), *map(float, box)) for c, box in zip(classes[0], expected, strict=False)
    )


def suppressed(boxes: np.ndarray, classes: np.ndarray, iou: float) -> list[int]:
    """The boxes that greedy suppression keeps, of boxes in order of score, one at a time."""
    kept: list[int] = []
    for i, (box, its_class) in enumerate(zip(boxes, classes, strict=True)):
        others = boxes[[k for k in kept if classes[k] == its_class]]
        shared = np.clip(np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2]), 0, None).prod(1)
        areas = [(b[..., 2:] - b[..., :2]).prod(-1) for b in (box, others)]
        if not (shared > iou * (areas[0] + areas[1] - shared)).any():
            kept.append(i)
    return kept


def test_suppression_is_greedy_by_class_and_goes_by_score(functions):
    random = np.random.default_rng(0)
    hyper = hyperparameters("small", max_detections=60)
    heat = random.uniform(0.02, 1, (3, 24, 32, 3)).astype(np.float32)
    sides = random.uniform(5, 40, (3, 24, 32, 4)).astype(np.float32)
    found = functions.decoded(heat, sides, hyper)
    assert found.shape == (3, 240, 7)
    dropped = 0
    for image in found:
        assert (np.diff(image[:, 4]) <= 0).all()
        kept = suppressed(image[:, :4], image[:, 5], hyper.nms_iou)
        assert np.flatnonzero(image[:, 6]).tolist() == kept
        dropped += len(image) - len(kept)
    assert dropped > 30


def test_frameworks_see_the_same_pictures_and_give_the_same_targets():
    hyper, (height, width) = hyperparameters("small"), (96, 128)
    data = noise_with_boxes(height, width, 3, 3)
    draw = next(draws(16, 3, hyper, 1, 0))
    images = data["train_images"][draw.chosen].transpose(0, 3, 1, 2)
    boxes, classes = data["train_boxes"][draw.chosen], data["train_classes"][draw.chosen].astype(np.int64)

    def made(framework: str):
        functions = Functions(framework)
        planes = functions("moved_planes", functions("normalised", images), draw.scale, draw.shift)
        cells = functions("cells_of", planes, hyper.stride)
        moved = functions("moved_boxes", boxes, classes, draw.scale, draw.shift, np.float32([width, height]))
        return [cells.transpose(0, 2, 3, 1) if functions.torch else cells, *functions.targets(*moved, 24, 32, hyper)]

    for ours, theirs in zip(*map(made, FRAMEWORKS), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert (draw.scale < 0).any()


@each_framework
def test_the_last_batch_may_be_smaller(framework):
    implementation, data = build(BY_ID["detection-mini"], framework), evaluation_data(digit_scenes())
    whole = implementation.predict(data)
    assert len(whole) == len(data["test_images"]) == 8
    assert implementation.predict({"test_images": data["test_images"][:5]}) == whole[:5]


@pytest.mark.parametrize("scale", ["mini", pytest.param("small", marks=pytest.mark.soak)])
def test_step_and_evaluation_are_one_graph_each_in_torch(scale):
    torch = pytest.importorskip("torch")
    case = BY_ID[f"detection-{scale}"]
    made = build(case, "torch")
    made.train_until(1)
    draw = next(draws(16, made.channels, made.hyper, 3, 1))
    chosen, *seen = map(torch.from_numpy, vars(draw).values())
    inputs = [*(array[chosen] for array in made.arrays), *seen]
    (cells,) = made.batches(case.data())
    made.model.train()
    torch._dynamo.reset()
    whole = {"backend": "aot_eager", "fullgraph": True, "dynamic": False}
    expected = made._loss(*inputs)
    assert torch.compile(made._loss, **whole)(*inputs).item() == pytest.approx(expected.item(), abs=1e-4)
    made.model.eval()
    with torch.no_grad():
        assert torch.compile(made._detect, **whole)(cells).shape == made._detect(cells).shape


@pytest.mark.soak
def test_step_and_evaluation_compile_in_tensorflow():
    """Of `mini`: those of `small` are the same operations in other numbers and sizes."""
    tf = pytest.importorskip("tensorflow")
    case = BY_ID["detection-mini"]
    made, compiled = build(case, "tensorflow"), build(case, "tensorflow")
    compiled.graph_step = tf.function(compiled._graph_step, jit_compile=True)
    compiled.detect = tf.function(compiled._detect, jit_compile=True)
    assert compiled.train_until(8).loss == pytest.approx(made.train_until(8).loss, abs=1e-3)
    found, expected = (each.predict(evaluation_data(case.data())) for each in (compiled, made))
    assert len(found) == len(expected)
