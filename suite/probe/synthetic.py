"""Noise in place of training data, to see what a step takes when its values carry no information."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from suite.errors import UserError
from suite.store.task import Arrays

SEED = 0


def synthetic(data: Mapping[str, np.ndarray], name: str) -> Arrays:
    """Replace training pictures and recordings (`train_*`, uint8, two axes or more) with uniform noise.

    The noise lies between an array's lowest and highest value. What gives a step its shape, such as lengths, words and
    boxes, stays. Raises UserError if the benchmark, `name`, has no such array.
    """
    random = np.random.default_rng(SEED)
    noise = {
        key: random.integers(array.min(), array.max(), array.shape, np.uint8, endpoint=True)
        for key, array in data.items()
        if key.startswith("train_") and array.dtype == np.uint8 and array.ndim > 1
    }
    if not noise:
        raise UserError(f"data=synthetic: {name} has no pictures or recordings that noise could stand for")
    return {**data, **noise}
