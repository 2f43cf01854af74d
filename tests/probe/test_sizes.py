"""Sequences of one length, as `size=` asks for them."""

from importlib import import_module

import numpy as np

from reference_impls.translation.shared import lengths, padded
from suite import config
from suite.store.arrays import prepared
from suite.store.task import load_task

SIZE = 12


def sized(task: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict]:
    """The arrays of mini, those that differ where all sequences have SIZE, and the hyperparameters that do."""
    data = prepared(config.benchmark(task, "mini"), load_task(task), None)
    return data, *import_module(f"tasks.{task}.sizes").sized(SIZE, data)


def test_sentences_have_so_many_subwords():
    data, arrays, _ = sized("translation")
    for name in ("train_source", "train_target", "test_source"):
        rows = padded(arrays[name])
        assert len(rows) == len(padded(data[name]))
        assert set(lengths(rows)) == {SIZE}


def test_recordings_have_so_many_frames():
    data, arrays, _ = sized("speech")
    for split in ("train", "test"):
        assert len(arrays[f"{split}_frames"]) == len(data[f"{split}_frames"])
        assert len(arrays[f"{split}_features"]) == arrays[f"{split}_frames"].sum()
        assert arrays[f"{split}_features"].dtype == data[f"{split}_features"].dtype


def test_lengths_that_are_hyperparameters_are_those_of_the_recipe():
    for task in ("language_modeling", "recommendation"):
        _, arrays, changed = sized(task)
        known = config.benchmark(task, "mini").hyperparameters
        assert arrays == {}
        assert changed.keys() <= known.keys()
        assert changed != {name: known[name] for name in changed}
