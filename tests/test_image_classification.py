"""The first task from end to end, through the commands."""

import json
import shutil

import numpy as np
import pytest

from suite import config
from suite.errors import BadPrediction
from suite.review.__main__ import main as review
from suite.store.arrays import prepared
from suite.store.task import load_task
from tests.minis import trained

TASK = load_task("image_classification")


@pytest.mark.parametrize("name", ["log.txt", "config.yaml", "predictions.jsonl", "system.json", "power.csv"])
def test_review_names_the_file_and_line_of_one_changed_byte(tmp_path, tmp_path_factory, name, capsys):
    shutil.copytree(trained(tmp_path_factory, "image_classification") / "evidence", tmp_path / "evidence")
    path = tmp_path / "evidence" / name
    content = bytearray(path.read_bytes())
    at = len(content) // 2
    content[at] = ord("7") if content[at] != ord("7") else ord("8")
    path.write_bytes(content)
    line = content.count(b"\n", 0, at) + 1
    assert review([str(tmp_path / "evidence"), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "fail"
    assert (name, line) in {(f["file"], f["line"]) for f in found["findings"] if f["severity"] == "fail"}


def test_scores_the_fraction_of_right_classes():
    data = {"answer_labels": np.uint8([0, 1, 2, 9])}
    assert TASK.score([0, 1, 2, 3], data) == {"accuracy": 0.75}


@pytest.mark.parametrize(
    ("predictions", "line"), [([0, 1, 2], 0), ([0, 1, 2, 10], 4), ([0, True, 2, 3], 2), (["0", 1, 2, 3], 1)]
)
def test_refuses_what_is_not_a_class(predictions, line):
    with pytest.raises(BadPrediction) as caught:
        TASK.score(predictions, {"answer_labels": np.uint8([0, 1, 2, 9])})
    assert caught.value.line == line


@pytest.mark.data("image_classification/small")
def test_cifar10_is_the_authors_own():
    data = prepared(config.benchmark("image_classification", "small"), TASK)
    assert data["train_images"].shape == (50_000, 32, 32, 3)
    assert np.bincount(data["train_labels"]).tolist() == [5000] * 10
    assert np.allclose(data["train_images"].mean((0, 1, 2)) / 255, [0.4914, 0.4822, 0.4465], atol=1e-4)
