"""What private bricks still tell: a solver puts unordered bricks back into their order by the shapes that fit.

    python -m tests.bench.bricks_private [MODEL ...] [--models 30] [--decoys 0 1 4] [--granularity 1]

For each model of torchvision, and so many decoys for each of its bricks. The solver has the bricks of `private=true`
and the other models, from which it has learnt how often one operator follows another. First it strikes bricks out,
again and again, that are given what no other makes, or make what no other is given, but one at the end. Then it names
for each brick the one before it: of those that make the shape that it is given the likeliest by their operators.
`links` is the share of the model's bricks of which it names one that is right, `whole` says whether it does for all,
`decoys out` the share of decoys that it struck out, `bricks out` that of the model's own.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from suite import config
from suite.bricks import frameworks, private
from suite.bricks.brick import Brick
from suite.bricks.chaining import Bricks
from suite.bricks.frameworks import torch_running
from suite.bricks.record import Model
from suite.errors import UserError
from suite.harness.implementation import Device
from suite.measure import machine, systems
from suite.probe.record import Conditions
from suite.probe.subject import SEED, Subject

ROOM = 1 << 33
DEVICE = Device("cpu", "fp32")
CANDIDATES = (
    "alexnet", "convnext_tiny", "densenet121", "densenet161", "densenet169", "efficientnet_b0", "efficientnet_b1",
    "efficientnet_b2", "efficientnet_v2_s", "googlenet", "inception_v3", "mnasnet0_5", "mnasnet1_0", "mobilenet_v2",
    "mobilenet_v3_large", "mobilenet_v3_small", "regnet_x_400mf", "regnet_x_800mf", "regnet_y_400mf", "resnet101",
    "resnet18", "resnet34", "resnet50", "resnext50_32x4d", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "squeezenet1_0",
    "swin_t", "vgg11", "vgg16_bn", "vit_b_16", "wide_resnet50_2",
)  # fmt: skip

Kind = tuple[object, ...]  # a tensor's shape and type, as it fits another


@dataclass(frozen=True)
class Piece:
    """A brick, as the solver sees it."""

    first: str
    last: str
    given: tuple[Kind, ...]
    made: tuple[Kind, ...]


def piece(brick: Brick) -> Piece:
    """What goes into a brick and what comes out, of which the file says the one and the operators the other."""
    with_shapes = torch_running.tried(brick, DEVICE, "infer", ROOM)
    return Piece(
        brick.calls[0].op,
        brick.calls[-1].op,
        tuple((each.shape, each.dtype) for each in brick.tensors if each.fresh),
        tuple((tuple(each.shape), str(each.dtype).removeprefix("torch.")) for each in with_shapes),
    )


def links(model: Model) -> dict[int, set[int]]:
    """Of each brick those that stand right before it somewhere in the model."""
    found: dict[int, set[int]] = defaultdict(set)
    for at, after in enumerate(model.after):
        found[model.bricks[at]] |= {model.bricks[each] for each in after}
    return found


def struck(pieces: Sequence[Piece]) -> set[int]:
    """The places of pieces that nothing fits."""
    out: set[int] = set()
    while True:
        left = [at for at in range(len(pieces)) if at not in out]
        made = Counter(kind for at in left for kind in set(pieces[at].made))
        given = Counter(kind for at in left for kind in set(pieces[at].given))
        lonely = {
            at
            for at in left
            if any(not made[kind] for kind in pieces[at].given)
            or (pieces[at].made and not any(given[kind] for kind in pieces[at].made))
        }
        ends = sorted(lonely, key=lambda at: len(pieces[at].given))[:1]  # one has to be the last of all
        if not lonely - set(ends):
            return out
        out |= lonely - set(ends)


def guessed(pieces: Sequence[Piece], out: set[int], follows: Counter[tuple[str, str]]) -> dict[int, int]:
    """Of each piece the likeliest before it."""
    makers: dict[Kind, list[int]] = defaultdict(list)
    for at, each in enumerate(pieces):
        for kind in set(each.made) if at not in out else ():
            makers[kind].append(at)
    drawn, found = random.Random(SEED), {}
    for at, each in enumerate(pieces):
        fitting = [maker for kind in each.given for maker in makers[kind] if maker != at] if at not in out else []
        if fitting:
            found[at] = max(fitting, key=lambda maker: (follows[pieces[maker].last, each.first], drawn.random()))
    return found


def rows(given: argparse.Namespace) -> Iterator[dict[str, object]]:
    """A row for each model and number of decoys."""
    system = systems.resolve(config.system("cpu"), machine.detect())
    torch, models = frameworks.load("torch"), dict[str, tuple[Bricks, Model]]()
    for name in given.names or CANDIDATES[: given.models]:
        conditions = Conditions(model=name, framework="torch", mode="infer", batch=1, precision="fp32")
        bricks = Bricks(given.granularity)
        models[name] = bricks, bricks.add(conditions, torch.record(Subject(conditions, system, 1.0)))
    follows = {
        name: Counter(
            (bricks.made[model.bricks[before]].calls[-1].op, bricks.made[model.bricks[at]].calls[0].op)
            for at, after in enumerate(model.after)
            for before in after
        )
        for name, (bricks, model) in models.items()
    }

    def runs(brick: Brick) -> bool:
        return torch.runs(brick, DEVICE, "infer", ROOM)

    for name, (bricks, model) in models.items():
        known = sum((counted for other, counted in follows.items() if other != name), Counter[tuple[str, str]]())
        for decoys in given.decoys:
            try:
                every, key = private.disguised(bricks.made, [model], decoys * len(bricks.made), runs)
            except UserError as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            yield {"model": name, "decoys": decoys, **solved([piece(each) for each in every], key.models[0], known)}


def solved(pieces: Sequence[Piece], model: Model, known: Counter[tuple[str, str]]) -> dict[str, object]:
    """How much the solver finds out."""
    true, out = links(model), struck(pieces)
    found = guessed(pieces, out, known)
    own, having = set(model.bricks), [at for at, before in true.items() if before]
    right = sum(found.get(at) in true[at] for at in having)
    decoys = len(pieces) - len(own)
    return {
        "bricks": len(own),
        "links": right / len(having),
        "whole": right == len(having),
        "decoys out": len(out - own) / decoys if decoys else None,
        "bricks out": len(out & own) / len(own),
    }


def main(argv: Sequence[str]) -> int:
    """Print a row for each model and number of decoys, then the means."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bricks_private", description=str(__doc__))
    parser.add_argument("names", nargs="*", metavar="MODEL")
    parser.add_argument("--models", type=int, default=len(CANDIDATES))
    parser.add_argument("--decoys", type=int, nargs="+", default=[0, 1, 4], help="for each brick (default 0 1 4)")
    parser.add_argument("--granularity", type=int, default=1)
    given = parser.parse_args(argv)
    found = []
    for row in rows(given):
        found.append(row)
        told = {name: f"{value:.3g}" if isinstance(value, float) else value for name, value in row.items()}
        print(" ".join(f"{name}={value}" for name, value in told.items()), flush=True)
    for decoys in given.decoys:
        these = [row for row in found if row["decoys"] == decoys]
        out = [row["decoys out"] for row in these if row["decoys out"] is not None]
        print(
            f"{decoys} decoys a brick, {len(these)} models: links {np.mean([row['links'] for row in these]):.1%}, "
            f"whole {sum(bool(row['whole']) for row in these)}, "
            + (f"decoys out {np.mean(out):.1%}, " if out else "")
            + f"bricks out {np.mean([row['bricks out'] for row in these]):.1%}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
