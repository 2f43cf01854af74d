"""Disguise bricks so that they say as little as possible of their models: sorted by content, with decoys among them.

A decoy is a brick of the models with one size replaced everywhere by another that the bricks have, so that its shapes
fit the other bricks as these fit each other. Every decoy can be run.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from suite.bricks.brick import Brick
from suite.bricks.record import Key, Model, digest
from suite.errors import UserError

LEAST_SIZE = 8  # smaller numbers are windows, strides and groups
TRIES = 20  # for each decoy


def disguised(
    bricks: Sequence[Brick], models: Sequence[Model], decoys: int, runs: Callable[[Brick], bool]
) -> tuple[tuple[Brick, ...], Key]:
    """The bricks and `decoys` false ones, sorted by content alone, and the owner's key to them.

    Raises UserError if not enough decoys are found for which `runs` is true.
    """
    own = [each.content for each in bricks]
    every = dict([*zip(own, bricks, strict=True), *decoys_of(bricks, decoys, runs)])
    order = sorted(every)
    places = {content: at for at, content in enumerate(order)}
    kept = tuple(
        model.model_copy(update={"bricks": tuple(places[own[each]] for each in model.bricks)}) for model in models
    )
    sorted_bricks = tuple(every[each] for each in order)
    return sorted_bricks, Key(bricks=len(order), decoys=decoys, digest=digest(sorted_bricks), models=kept)


def decoys_of(bricks: Sequence[Brick], count: int, runs: Callable[[Brick], bool]) -> list[tuple[str, Brick]]:
    """Make `count` decoys that are not among the bricks, with their content; drawn with the system's randomness."""
    drawn, taken = secrets.SystemRandom(), {each.content for each in bricks}
    sizes = _sizes(bricks)
    found: list[tuple[str, Brick]] = []
    for _ in range(TRIES * count if bricks else 0):
        if len(found) == count:
            break
        brick = drawn.choice(bricks)
        own = _sizes([brick])
        if not own:
            continue
        made = _replaced(brick, drawn.choice(own), drawn.choice(sizes))
        if made and (content := made.content) not in taken and runs(made):
            taken.add(content)
            found.append((content, made))
    if len(found) < count:
        raise UserError(f"decoys={count}: these bricks gave {len(found)} decoys; ask for no more than that")
    return found


def _sizes(bricks: Sequence[Brick]) -> list[int]:
    return sorted({size for brick in bricks for each in brick.tensors for size in each.shape if size >= LEAST_SIZE})


def _replaced(brick: Brick, old: int, new: int) -> Brick | None:
    """The brick with size `old` replaced by `new` everywhere; None if strides or arguments do not allow it."""

    def of(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [of(each) for each in value]
        return new if type(value) is int and value == old else value

    tensors = [
        each.model_copy(
            update={
                "shape": each.shape if each.strides else tuple(of(each.shape)),
                "below": min(each.below, new) if each.below <= old else each.below,  # as the places of an embedding
            }
        )
        for each in brick.tensors
    ]
    calls = [
        call.model_copy(
            update={
                "arguments": tuple(of(call.arguments)),
                "keywords": {name: of(value) for name, value in call.keywords.items()},
            }
        )
        for call in brick.calls
    ]
    try:
        return Brick.model_validate({**brick.model_dump(), "tensors": tensors, "calls": calls})
    except ValueError:
        return None
