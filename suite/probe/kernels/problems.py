"""Single operations with their shapes, in any framework: their names, operations and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

FORWARD, BY_INPUT, BY_WEIGHT = "forward", "by input", "by weight"
GATES = {"vanilla": 1, "gru": 3, "lstm": 4}  # products of the hidden units in a step of each cell
INDEX = 4  # bytes of a sparse matrix's column numbers and row pointers
SUMMED = 4  # bytes of a number that workers sum

Pair = tuple[int, int]


@dataclass(frozen=True)
class MatrixProduct:
    """`batch` products of [m, k] by [k, n]; `transposed` says which factors lie transposed in memory."""

    m: int
    n: int
    k: int
    transposed: tuple[bool, bool] = (False, False)
    batch: int = 1
    kind: ClassVar[str] = "matmul"

    @property
    def name(self) -> str:
        """The name, with m x n x k."""
        lie = "".join("nt"[each] for each in self.transposed)
        many = f"{self.batch} of " if self.batch > 1 else ""
        return f"{self.kind} {many}{self.m}x{self.n}x{self.k} {lie}"

    @property
    def factors(self) -> list[tuple[int, ...]]:
        """The shapes of both factors, as they lie in memory."""
        many = (self.batch,) if self.batch > 1 else ()
        sides = zip(((self.m, self.k), (self.k, self.n)), self.transposed, strict=True)
        return [(*many, *(shape[::-1] if lies else shape)) for shape, lies in sides]

    @property
    def flops(self) -> int:
        """Floating-point operations; a multiplication and an addition count as two."""
        return 2 * self.batch * self.m * self.n * self.k

    def bytes(self, width: int) -> int:
        """The least bytes that are read and written, for numbers of `width` bytes."""
        return width * self.batch * (self.m * self.k + self.k * self.n + self.m * self.n)


@dataclass(frozen=True)
class Convolution:
    """A convolution of images [batch, channels, *size], or one of its gradients.

    Filters are [filters, channels / groups, *window]; `padding` is before and after each axis of the images.
    """

    batch: int
    channels: int
    size: Pair
    filters: int
    window: Pair
    stride: Pair = (1, 1)
    padding: tuple[Pair, Pair] = ((0, 0), (0, 0))
    dilation: Pair = (1, 1)
    groups: int = 1
    direction: str = FORWARD
    kind: ClassVar[str] = "convolution"

    @property
    def out(self) -> Pair:
        """Height and width of the output."""
        axes = zip(self.size, self.window, self.stride, self.padding, self.dilation, strict=True)
        height, width = (
            (size + sum(around) - dilation * (window - 1) - 1) // stride + 1
            for size, window, stride, around, dilation in axes
        )
        return height, width

    @property
    def name(self) -> str:
        """The name, with the shapes of images and filters."""
        said = [f"{self.kind} {_by(self.batch, self.channels, *self.size)} {_by(self.filters, *self.window)}"]
        said += [f"stride {_alike(self.stride)}"] * (self.stride != (1, 1))
        said += [f"pad {_alike([_alike(each) for each in self.padding])}"] * (self.padding != ((0, 0), (0, 0)))
        said += [f"dilation {_alike(self.dilation)}"] * (self.dilation != (1, 1))
        said += [f"groups {self.groups}"] * (self.groups > 1)
        said += [self.direction] * (self.direction != FORWARD)
        return " ".join(said)

    @property
    def flops(self) -> int:
        """Operations as a matrix product takes them, also for a gradient. A library may need fewer."""
        inner = self.channels // self.groups * self.window[0] * self.window[1]
        return 2 * self.batch * self.filters * self.out[0] * self.out[1] * inner

    def bytes(self, width: int) -> int:
        """See `MatrixProduct.bytes`: images, filters and output, or its gradient."""
        images = self.batch * self.channels * self.size[0] * self.size[1]
        filters = self.filters * self.channels // self.groups * self.window[0] * self.window[1]
        return width * (images + filters + self.batch * self.filters * self.out[0] * self.out[1])


@dataclass(frozen=True)
class Recurrent:
    """A layer of `cell`s over `steps` steps, or its gradient by the weights.

    DeepBench leaves out the product of the weights with the inputs, which no library's layer does: inputs are one
    number wide.
    """

    cell: str
    hidden: int
    batch: int
    steps: int
    direction: str = FORWARD
    kind: ClassVar[str] = "recurrent"

    @property
    def name(self) -> str:
        """The name, with hidden units, batch and steps."""
        backward = f" {self.direction}" if self.direction != FORWARD else ""
        return f"{self.cell} {self.hidden} batch {self.batch} steps {self.steps}{backward}"

    @property
    def flops(self) -> int:
        """Operations by weights [gates x hidden, hidden + 1]; backward also by the hidden units of the step before."""
        product = 2 * GATES[self.cell] * self.hidden * self.batch
        before = self.hidden * (self.steps - 1) if self.direction == BY_WEIGHT else 0
        return product * (self.steps * (self.hidden + 1) + before)

    def bytes(self, width: int) -> int:
        """See `MatrixProduct.bytes`: weights, inputs and output; backward also their gradients."""
        weights = GATES[self.cell] * self.hidden * (self.hidden + 1)
        passed = self.batch * self.steps * (self.hidden + 1)
        return width * (weights + passed) * (2 if self.direction == BY_WEIGHT else 1)


@dataclass(frozen=True)
class SparseProduct:
    """A product of a sparse [m, k], of which the share `zeros` is zero and not stored, by a dense [k, n]."""

    m: int
    n: int
    k: int
    zeros: float
    kind: ClassVar[str] = "sparse"

    @property
    def kept(self) -> int:
        """How many numbers of the sparse matrix are not zero."""
        return round(self.m * self.k * (1 - self.zeros))

    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """How many numbers lie before each row and after the last, and the column of each (CSR).

        Every row keeps the same number of them, give or take one, at places drawn anew for it.
        """
        random, ends = np.random.default_rng(0), np.arange(self.m + 1) * self.kept // self.m
        columns = [np.sort(random.permutation(self.k)[:many]) for many in np.diff(ends)]
        return ends, np.concatenate(columns)

    @property
    def name(self) -> str:
        """The name, with m x n x k."""
        return f"{self.kind} {self.m}x{self.n}x{self.k} {100 * self.zeros:g} % zeros"

    @property
    def flops(self) -> int:
        """Operations of the numbers that are not zero."""
        return 2 * self.kept * self.n

    def bytes(self, width: int) -> int:
        """See `MatrixProduct.bytes`: the sparse matrix stored as compressed rows (CSR)."""
        sparse = self.kept * (width + INDEX) + (self.m + 1) * INDEX
        return sparse + width * self.n * (self.k + self.m)


@dataclass(frozen=True)
class AllReduce:
    """The sum over all workers of `numbers` numbers in fp32, which every worker then has."""

    numbers: int
    workers: int = 2
    kind: ClassVar[str] = "all_reduce"

    @property
    def name(self) -> str:
        """The name, with how many numbers and workers."""
        return f"{self.kind} {self.numbers} by {self.workers}"

    @property
    def flops(self) -> int:
        """0, since an all-reduce costs what a link moves."""
        return 0

    def bytes(self, width: int) -> int:
        """What each worker sends in a ring, in fp32; over the time, the bus bandwidth (nccl-tests, PERFORMANCE.md)."""
        return 2 * (self.workers - 1) * SUMMED * self.numbers // self.workers


Problem = MatrixProduct | Convolution | Recurrent | SparseProduct | AllReduce
KINDS = tuple(each.kind for each in (MatrixProduct, Convolution, Recurrent, SparseProduct, AllReduce))


@dataclass(frozen=True)
class Listed:
    """A problem in a list: its precision, how often a step takes it (`calls`), and the sets that it belongs to.

    Without `precision` it has that of the look; without `calls` the number is unknown.
    """

    problem: Problem
    precision: str | None = None
    calls: float | None = None
    sets: frozenset[str] = field(default_factory=frozenset)


def _by(*sizes: int) -> str:
    return "x".join(map(str, sizes))


def _alike(pair: Sequence[object]) -> str:
    """A pair as text: one figure if both are the same."""
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]}x{pair[1]}"
