"""DeepBench's problems (Baidu Research), with their sizes from deepbench.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from suite.probe.kernels.problems import (
    BY_INPUT,
    BY_WEIGHT,
    FORWARD,
    AllReduce,
    Convolution,
    Listed,
    MatrixProduct,
    Problem,
    Recurrent,
    SparseProduct,
)

TRAIN, SETS = "train", ("train", "server", "device")
ALIKE = (FORWARD, BY_INPUT, BY_WEIGHT)


@cache
def sizes() -> dict[str, dict[str, list[Any]]]:
    """The rows of each kind and set, as they stand in DeepBench."""
    found: dict[str, dict[str, list[Any]]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    return found


def problems(mode: str) -> list[Listed]:
    """Each problem once, in DeepBench's order; with the gradients of the set `train` if `mode` is train."""
    found: dict[Problem, set[str]] = {}
    for kind, sets in sizes().items():
        for name, rows in sets.items():
            for row in rows:
                for problem in _problems(kind, row, backward=name == TRAIN and mode == "train"):
                    found.setdefault(problem, set()).add(name)
    return [
        Listed(problem, "fp32" if isinstance(problem, AllReduce) else None, sets=frozenset(sets))
        for problem, sets in found.items()
    ]


def _problems(kind: str, row: Any, backward: bool) -> Iterator[Problem]:
    if kind == MatrixProduct.kind:
        m, n, k, lie = row
        yield MatrixProduct(m, n, k, (lie[0] == "t", lie[1] == "t"))
    elif kind == SparseProduct.kind:
        yield SparseProduct(*row)
    elif kind == AllReduce.kind:
        yield AllReduce(row)
    elif kind == Recurrent.kind:
        hidden, batch, steps, cell = row
        for direction in (FORWARD, BY_WEIGHT) if backward else (FORWARD,):
            yield Recurrent(cell, hidden, batch, steps, direction)
    else:
        for direction in ALIKE if backward else (FORWARD,):
            yield _convolution(row, direction)


def _convolution(row: Sequence[int], direction: str) -> Convolution:
    """The convolution of a row, in which DeepBench puts width before height."""
    width, height, channels, batch, filters, across, down, pad_width, pad_height, step_width, step_height = row
    return Convolution(
        batch=batch,
        channels=channels,
        size=(height, width),
        filters=filters,
        window=(down, across),
        stride=(step_height, step_width),
        padding=((pad_height, pad_height), (pad_width, pad_width)),
        direction=direction,
    )
