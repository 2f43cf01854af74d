"""As few pictures as tests need, in ImageNet's place."""

from pathlib import Path

import numpy as np

from suite.store.task import load_task
from tasks.image_classification import index
from tests.imagenet import make_all

TASK = load_task("image_classification")
CLASSES, TRAIN, TEST = 5, 23, 6
SMALL = index.Pictures("imagenet-jpeg", TRAIN, TEST, CLASSES, 5, 1 << 20, 1 << 21)


def make(folder: Path) -> dict[str, np.ndarray]:
    """All files of `full`, and its arrays."""
    mapped = make_all(folder)
    return {**TASK.prepare("full", folder), **mapped}
