"""Object detection: what the data is, what a prediction may be, and the task from end to end."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from suite import config
from suite.config.folder import ROOT
from suite.errors import BadPrediction
from suite.store.arrays import prepared
from suite.store.task import load_task
from tasks.detection import cells
from tests.command import run

TASK = load_task("detection")
TWO_IMAGES = {
    "test_images": np.zeros((2, 40, 60, 1), np.uint8),
    "answer_boxes": np.float32([[[10, 10, 30, 30], [40, 5, 50, 25]], [[0, 0, 20, 20], [0, 0, 0, 0]]]),
    "answer_classes": np.int8([[0, 1], [0, -1]]),
}
RUN = ROOT / "submissions/example-org/results/one_core_torch/reinforcement_learning-small/run_1"
VOC = """<annotation><size><width>640</width><height>480</height><depth>3</depth></size>
<object><name>RBC</name><bndbox><xmin>10</xmin><ymin>20</ymin><xmax>{xmax}</xmax><ymax>60</ymax></bndbox></object>
</annotation>"""


def record(image_id=0, category_id=0, bbox=(10, 10, 20, 20), score=0.9):
    return {"image_id": image_id, "category_id": category_id, "bbox": list(bbox), "score": score}


PERFECT = [[record(), record(category_id=1, bbox=(40, 5, 10, 20))], [record(1, bbox=(0, 0, 20, 20))]]


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["torch", pytest.param("tensorflow", marks=pytest.mark.soak)])  # equals in parity
def test_mini_evaluates_and_review_finds_the_same_precision(tmp_path, framework):
    done = run(
        tmp_path,
        "suite.run",
        *("task=detection", "scale=mini", "hw=cpu", f"framework={framework}", "seed=1", "mlflow=false", "out=evidence"),
        *("evaluation.first=64", "budget_samples=64"),
    )
    assert done.returncode == 3, done.stdout + done.stderr
    verdict = json.loads(run(tmp_path, "suite.review", "evidence", "--json").stdout)
    failed = {finding["rule"] for finding in verdict["findings"] if finding["severity"] == "fail"}
    assert failed == {"division.2", "quality.3", "quality.4"}  # no more than what the shorter budget breaks
    drawn = run(tmp_path, "tasks.detection.draw", "evidence", "found.jpg")
    assert drawn.returncode == 0, drawn.stderr
    with Image.open(tmp_path / "found.jpg") as picture:
        assert picture.size == (1024, 512)


def test_draws_nothing_where_no_run_is(tmp_path):
    drawn = run(tmp_path, "tasks.detection.draw", "nowhere", "found.jpg")
    assert drawn.returncode == 2
    assert drawn.stderr == (
        "error: nowhere: config.yaml: No such file or directory: name the evidence folder of a run\n"
    )
    other = run(tmp_path, "tasks.detection.draw", RUN, "found.jpg")
    assert other.returncode == 2
    assert other.stderr == (
        f"error: {RUN} holds a run of reinforcement_learning/small: name one of detection/mini or detection/small\n"
    )


@pytest.mark.parametrize(
    ("predictions", "file", "said"),
    [
        (['"a cat"'], "found.jpg", "evidence: predictions.jsonl: 1 predictions for 400 test images: a review"),
        (["[]", "[3]", *["[]"] * 398], "found.jpg", "evidence: predictions.jsonl, line 2: 3 is not a record of bbox"),
        (["[]"] * 400, "found.cat", "found.cat: unknown file extension: .cat: give it the ending of a picture"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(tmp_path, predictions, file, said):
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence/config.yaml").write_text("task: detection\nscale: mini\n")
    (tmp_path / "evidence/predictions.jsonl").write_text("\n".join(predictions))
    drawn = run(tmp_path, "tasks.detection.draw", "evidence", file)
    assert (drawn.returncode, drawn.stderr.count("\n")) == (2, 1)
    assert drawn.stderr.startswith(f"error: {said}")


def test_perfect_predictions_score_one():
    assert TASK.score(PERFECT, TWO_IMAGES) == {"map": 1.0, "ap_50": 1.0, "ap_75": 1.0}


def test_no_predictions_score_zero():
    assert TASK.score([[], []], TWO_IMAGES) == {"map": 0.0, "ap_50": 0.0, "ap_75": 0.0}


def test_precision_is_that_of_coco():
    """By hand: class 0 has IoU 0.8 on one object and a miss on the other; class 1 is perfect."""
    predictions = [[record(bbox=(10, 10, 20, 16)), PERFECT[0][1]], [record(1, bbox=(30, 20, 5, 5), score=0.95)]]
    # class 0: the false positive ranks first, the hit second: precision 1/2 up to recall 1/2, at 51 of 101 recalls
    at_most_80 = 0.5 * 51 / 101
    scores = TASK.score(predictions, TWO_IMAGES)
    assert scores["ap_50"] == pytest.approx((at_most_80 + 1) / 2)
    assert scores["map"] == pytest.approx((0.7 * at_most_80 + 1) / 2)  # 7 of 10 thresholds are at most 0.80


def test_a_second_box_on_one_object_is_an_error():
    twice = [PERFECT[0], [record(1, bbox=(0, 0, 20, 20), score=score) for score in (0.99, 0.98)]]
    # of class 0 the second in rank is false: precision 1 up to recall 1/2, then 2/3 for the other 50 of 101 recalls
    assert TASK.score(twice, TWO_IMAGES)["ap_50"] == pytest.approx(((51 + 50 * 2 / 3) / 101 + 1) / 2)


def test_objects_of_every_size_count():
    """A small one is found and one of 100 x 100 is not: precision 1 up to recall 1/2."""
    scene = {
        "test_images": np.zeros((1, 240, 320, 1), np.uint8),
        "answer_boxes": np.float32([[[10, 10, 110, 110], [200, 10, 210, 20]]]),
        "answer_classes": np.int8([[0, 0]]),
    }
    assert TASK.score([[record(bbox=(200, 10, 10, 10))]], scene)["ap_50"] == pytest.approx(51 / 101)


def test_the_thresholds_that_have_a_metric_are_those_of_their_names():
    """Both boxes of class 0 have an IoU of 0.72, which five of ten thresholds allow; class 1 has an object less."""
    found = [[record(bbox=(10, 10, 20, 14.4)), PERFECT[0][1]], [record(1, bbox=(0, 0, 20, 14.4))]]
    assert TASK.score(found, TWO_IMAGES) == {"map": 0.75, "ap_50": 1.0, "ap_75": 0.5}


def test_a_hundred_objects_of_an_image_are_found_and_boxes_may_lie_far_outside_of_it():
    places = [(x, y) for x in range(0, 60, 6) for y in range(0, 40, 4)]
    crowd = {
        "test_images": np.zeros((1, 40, 60, 1), np.uint8),
        "answer_boxes": np.float32([[[x, y, x + 5, y + 3] for x, y in places]]),
        "answer_classes": np.zeros((1, 100), np.int8),
    }
    assert TASK.score([[record(bbox=(x, y, 5, 3)) for x, y in places]], crowd)["map"] == 1.0
    assert TASK.score([[record(bbox=(1e6, -1e6, 5, 3))]], crowd)["map"] == 0.0


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ([PERFECT[0]], 0),
        ([PERFECT[0], None], 2),
        ([PERFECT[0], json.loads("[" * 900 + "]" * 900)], 2),
        ([PERFECT[0], [record(1)] * 101], 2),
        ([[record(1)], []], 1),
        ([[record(category_id=2)], []], 1),
        ([[record(category_id=True)], []], 1),
        ([[record(score=1.5)], []], 1),
        ([[record(score=float("nan"))], []], 1),
        ([[record(score=-0.1)], []], 1),
        ([[record(score=True)], []], 1),
        ([[], [record(1, bbox=(0, 0, 1.1e6, 5))]], 2),
        ([[], [record(1, bbox=(0, 0, -1, 5))]], 2),
        ([[], [record(1, bbox=(0, 0, 1e300, 5))]], 2),
        ([[], [record(1, bbox=(0, 0, 10**400, 5))]], 2),
        ([[], [record(1, bbox=(0, 0, 5))]], 2),
        ([[record() | {"segmentation": []}], []], 1),
    ],
)
def test_refuses_what_is_not_a_coco_record(wrong, line):
    with pytest.raises(BadPrediction) as caught:
        TASK.score(wrong, TWO_IMAGES)
    assert caught.value.line == line


numbers = st.one_of(st.integers(), st.floats(), st.booleans(), st.none(), st.text(max_size=3))
records = st.fixed_dictionaries(
    {
        "image_id": st.one_of(st.just(0), numbers),
        "category_id": st.one_of(st.just(1), numbers),
        "bbox": st.one_of(
            st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4), st.lists(numbers, max_size=5), numbers
        ),
        "score": st.one_of(st.floats(0, 1), numbers),
    }
)
values = st.recursive(
    numbers, lambda of: st.lists(of, max_size=4) | st.dictionaries(st.text(max_size=9), of, max_size=4)
)


@given(st.lists(st.lists(records | values, max_size=3) | values, min_size=2, max_size=2))
def test_score_never_raises_anything_but_bad_prediction(predictions):
    try:
        scores = TASK.score(predictions, TWO_IMAGES)
    except BadPrediction:
        return
    assert all(0 <= value <= 1 for value in scores.values())


@pytest.fixture(scope="module")
def scenes():
    return prepared(config.benchmark("detection", "mini"), TASK)


def test_scenes_have_digits_of_all_classes_within_their_frame(scenes):
    for split, images in (("train", scenes["train_images"]), ("answer", scenes["test_images"])):
        boxes, classes = scenes[f"{split}_boxes"], scenes[f"{split}_classes"]
        present = classes >= 0
        assert present.any(1).all()
        assert len(np.unique(classes[present])) == 10
        sizes = boxes[present][:, 2:] - boxes[present][:, :2]
        assert sizes.min() > 0
        assert boxes.min() >= 0
        assert boxes.max() <= images.shape[1] == images.shape[2]


def test_a_box_holds_its_digit(scenes):
    """Digits are brighter than the ground: within the boxes more than around them, in every scene."""
    inside = np.zeros(scenes["test_images"].shape[:3], bool)
    for image, box in zip(*np.nonzero(scenes["answer_classes"] >= 0), strict=True):
        x_min, y_min, x_max, y_max = scenes["answer_boxes"][image, box].astype(int)
        inside[image, y_min:y_max, x_min:x_max] = True
    pixels = scenes["test_images"][..., 0]
    assert all(p[i].mean() > p[~i].mean() for p, i in zip(pixels, inside, strict=True))


@pytest.mark.data("detection/small")
def test_bccd_is_what_its_card_says():
    data = prepared(config.benchmark("detection", "small"), TASK)
    assert data["train_images"].shape == (205, 240, 320, 3)
    assert data["test_images"].shape == (72, 240, 320, 3)
    counts = [np.bincount(data[f"{split}_classes"][data[f"{split}_classes"] >= 0]) for split in ("train", "answer")]
    assert counts[0].tolist() == [2381, 214, 209]  # one box of a red cell has no area
    assert counts[1].tolist() == [805, 71, 69]


def write_voc(folder, xmax):
    for part in ("ImageSets/Main", "Annotations", "JPEGImages"):
        (folder / part).mkdir(parents=True)
    (folder / "ImageSets/Main/train.txt").write_text("a\n")
    (folder / "Annotations/a.xml").write_text(VOC.format(xmax=xmax))
    Image.new("RGB", (640, 480), (200, 100, 0)).save(folder / "JPEGImages/a.jpg")
    return folder


def test_reads_voc_at_half_size_and_drops_boxes_without_area(tmp_path):
    images, boxes, classes = cells.split(write_voc(tmp_path / "good", xmax=50), "train")
    assert images[0].shape == (240, 320, 3)
    assert boxes[0].tolist() == [[5, 10, 25, 30]]
    assert classes[0].tolist() == [0]
    assert len(cells.split(write_voc(tmp_path / "flat", xmax=10), "train")[1][0]) == 0
