"""Small models of one's own as files, bricks, and timings that are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from suite.bricks import record
from suite.bricks.__main__ import main
from suite.bricks.brick import Brick, Call, Tensor
from suite.bricks.record import Cache, Made, Model, Time, Timings
from suite.probe.record import Conditions

CACHE = Cache(size=1000, missed=(0, 0, 0, 0, 0, 0, 0, 1))
TORCH = """
from torch import nn


def build():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
        nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
    )
"""
KERAS = """
import keras
from keras import layers


def build():
    return keras.Sequential([
        keras.Input((16, 16, 3)), layers.Conv2D(8, 3, padding="same"), layers.ReLU(),
        layers.Conv2D(8, 3, padding="same"), layers.ReLU(), layers.Conv2D(8, 3, padding="same"), layers.ReLU(),
        layers.GlobalAveragePooling2D(), layers.Dense(10),
    ])
"""
CONDITIONS = Conditions(model="net", framework="torch", mode="infer", batch=1, precision="fp32")


def relu(size: int = 16) -> Brick:
    """A brick that is given `size` numbers."""
    return Brick(
        tensors=(Tensor(shape=(1, size), dtype="float32", fresh=True),),
        calls=(Call(op="F.relu", arguments=({"tensor": 0},)),),
    )


def model(*bricks: int, after: tuple[tuple[int, ...], ...] | None = None) -> Model:
    """A chain of bricks, or what `after` says."""
    chain = tuple((at - 1,) if at else () for at in range(len(bricks)))
    return Model(conditions=CONDITIONS, bricks=bricks, after=after or chain, calls=len(bricks))


def bricks(*made: Brick, models: tuple[Model, ...] = ()) -> Made:
    """What `make` writes."""
    return Made(framework="torch", mode="infer", precision="fp32", granularity=1, bricks=made, models=models)


def timings(*times: Time, models: tuple[Model, ...] = ()) -> Timings:
    """What `measure` writes."""
    return Timings(
        suite_version="1",
        date="2026-11-23T19:00:00Z",
        system="cpu",
        machine={},
        software={},
        framework="torch",
        mode="infer",
        precision="fp32",
        cache=CACHE,
        seconds=1.0,
        noisy=[],
        times=times,
        models=models,
    )


def own(folder: Path, text: str) -> str:
    """A file of one's own that holds build()."""
    path = folder / "net.py"
    path.write_text(text)
    return str(path)


def composed(capsys: Any, folder: Path, text: str, *words: str) -> tuple[Made, Timings, dict[str, Any]]:
    """The bricks of a model of one's own, their times, and the model composed of them as the command prints it."""
    made, measured = folder / "bricks.json", folder / "timings.json"
    assert main(["make", f"models={own(folder, text)}", "batch=2", *words, f"out={made}"]) == 0
    assert main(["measure", str(made), f"out={measured}", "repeats=3"]) == 0
    capsys.readouterr()
    assert main(["compose", str(measured), "model=net", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["models"]
    return record.read(Made, made), record.read(Timings, measured), found
