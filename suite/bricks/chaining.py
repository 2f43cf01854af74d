"""Turn the calls of a step into bricks: chains of `granularity` calls where possible, single calls elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import mean
from typing import Any

from suite.bricks.brick import Brick, Call, Tensor
from suite.bricks.pace import in_units
from suite.bricks.record import Model
from suite.bricks.recorded import Called, Recorded
from suite.probe.record import Conditions


class Bricks:
    """The unique bricks of all added models, in the order in which they were first seen."""

    def __init__(self, granularity: int) -> None:
        self.granularity = granularity
        self.places: dict[str, int] = {}
        self.made: list[Brick] = []

    def add(self, conditions: Conditions, batches: Sequence[Recorded], scoring: float | None = None) -> Model:
        """Add a model's recorded batches and return the model in terms of its bricks; `scoring` is in seconds."""
        places, after, starts = list[int](), list[tuple[int, ...]](), list[int]()
        told = [each.between for each in batches if each.between is not None]
        seen = tuple(each.at for each in batches if each.at is not None)
        for recorded in batches:
            starts.append(len(places))
            chains = list(chained(recorded, self.granularity))
            maker = {tensor: at for at, chain in enumerate(chains) for called in chain for tensor in called.made}
            for at, chain in enumerate(chains):
                used = {maker[each] for called in chain for each in used_by(called.call) if each in maker}
                after.append(tuple(sorted(starts[-1] + each for each in used if each < at)))
                places.append(self._place(brick(chain, recorded.tensors)))
        return Model(
            conditions=conditions,
            bricks=tuple(places),
            after=tuple(after),
            starts=tuple(starts),
            at=seen if len(seen) == len(batches) else (),
            calls=sum(len(each.calls) for each in batches),
            left_out=dict(sum((each.left_out for each in batches), Counter[str]())),
            between=in_units(mean(told)) if told else None,
            scoring=None if scoring is None else in_units(scoring),
        )

    def _place(self, made: Brick) -> int:
        place = self.places.setdefault(made.content, len(self.made))
        if place == len(self.made):
            self.made.append(made)
        return place


def chained(recorded: Recorded, granularity: int) -> Iterator[Sequence[Called]]:
    """Yield all calls in order, in chains: each call uses what the one before made, and is the only one to use it.

    A chain has `granularity` calls or one, as in DLBricks (C. Li, A. Dakkak, J. Xiong and W. Hwu 2019,
    arXiv:1911.07967).
    """
    calls, at = recorded.calls, 0
    users: dict[int, set[int]] = {}
    made: dict[int, int] = {}
    for place, called in enumerate(calls):
        for each in used_by(called.call):
            users.setdefault(each, set()).add(place)
        made |= dict.fromkeys(called.made, place)
    while at < len(calls):
        chain = calls[at : at + granularity]
        if len(chain) < granularity or not all(
            _follows(place, calls, users, made) for place in range(at + 1, at + granularity)
        ):
            chain = calls[at : at + 1]
        yield chain
        at += len(chain)


def _follows(place: int, calls: Sequence[Called], users: dict[int, set[int]], made: dict[int, int]) -> bool:
    """Whether a call uses results of the call before it and of no other, and is the only one that uses these."""
    before, called = calls[place - 1], calls[place]
    makers = {made[each] for each in used_by(called.call) if made.get(each, place) < place}
    alone = all(users.get(each, set()) <= {place} for each in before.made)
    return makers == {place - 1} and alone and before.gradient == called.gradient


def used_by(call: Call) -> list[int]:
    """The numbers of the step's tensors that a call is given."""
    return list(call.references("tensor"))


def brick(chain: Sequence[Called], tensors: Sequence[Tensor]) -> Brick:
    """The brick of a chain; its tensors are renumbered in the order of their first use."""
    made = {tensor: (at, index) for at, called in enumerate(chain) for index, tensor in enumerate(called.made)}
    numbers: dict[int, int] = {}

    def renumbered(value: Any, at: int) -> Any:
        if isinstance(value, tuple | list):
            return [renumbered(each, at) for each in value]
        if not (isinstance(value, dict) and "tensor" in value):
            return value
        tensor = value["tensor"]
        if tensor in made and made[tensor][0] < at:
            return {"output": list(made[tensor])}
        return {"tensor": numbers.setdefault(tensor, len(numbers))}

    calls = tuple(
        Call(
            op=called.call.op,
            arguments=tuple(renumbered(each, at) for each in called.call.arguments),
            keywords={name: renumbered(each, at) for name, each in called.call.keywords.items()},
        )
        for at, called in enumerate(chain)
    )
    gradient = any(called.gradient for called in chain)
    given = tuple(
        each if gradient or not each.gradient else each.model_copy(update={"gradient": False})
        for each in (tensors[number] for number in numbers)
    )
    return Brick(tensors=given, calls=calls, gradient=gradient)
