"""The operations underneath, each with its shapes: what it takes, what it moves, and its name, in any framework."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

FORWARD, BY_INPUT, BY_WEIGHT = "forward", "by input", "by weight"
GATES = {"vanilla": 1, "gru": 3, "lstm": 4}  # products of the hidden units in a step of each cell
INDEX = 4  # bytes of a sparse matrix's column numbers and row pointers
SUMMED = 4  # bytes of a number that workers sum

Pair = tuple[int, int]


@dataclass(frozen=True)
class MatrixProduct:
    """`batch` products of [m, k] by [k, n], of which a factor may lie transposed in memory."""

    m: int
    n: int
    k: int
    transposed: tuple[bool, bool] = (False, False)
    batch: int = 1
    kind: ClassVar[str] = "matmul"

    @property
    def name(self) -> str:
        """With m x n x k."""
        lie = "".join("nt"[each] for each in self.transposed)
        many = f"{self.batch} of " if self.batch > 1 else ""
        return f"{self.kind} {many}{self.m}x{self.n}x{self.k} {lie}"

    @property
    def flops(self) -> int:
        """Operations, a multiplication and an addition being two."""
        return 2 * self.batch * self.m * self.n * self.k

    def bytes(self, width: int) -> int:
        """Read and written at least, of numbers of `width` bytes."""
        return width * self.batch * (self.m * self.k + self.k * self.n + self.m * self.n)


@dataclass(frozen=True)
class Convolution:
    """Of images [batch, channels, *size] with [filters, channels / groups, *window], or one of its gradients.

    `padding` is before and after each axis of the images.
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
        """Height and width of what it makes."""
        axes = zip(self.size, self.window, self.stride, self.padding, self.dilation, strict=True)
        height, width = (
            (size + sum(around) - dilation * (window - 1) - 1) // stride + 1
            for size, window, stride, around, dilation in axes
        )
        return height, width

    @property
    def name(self) -> str:
        """With the images' shape and the filters'."""
        said = [f"{self.kind} {_by(self.batch, self.channels, *self.size)} {_by(self.filters, *self.window)}"]
        said += [f"stride {_alike(self.stride)}"] * (self.stride != (1, 1))
        said += [f"pad {_alike([_alike(each) for each in self.padding])}"] * (self.padding != ((0, 0), (0, 0)))
        said += [f"dilation {_alike(self.dilation)}"] * (self.dilation != (1, 1))
        said += [f"groups {self.groups}"] * (self.groups > 1)
        said += [self.direction] * (self.direction != FORWARD)
        return " ".join(said)

    @property
    def flops(self) -> int:
        """As a product takes them; the gradients take as many as the convolution. A library may do with fewer."""
        inner = self.channels // self.groups * self.window[0] * self.window[1]
        return 2 * self.batch * self.filters * self.out[0] * self.out[1] * inner

    def bytes(self, width: int) -> int:
        """See `MatrixProduct.bytes`: images, filters and what is made, or its gradient."""
        images = self.batch * self.channels * self.size[0] * self.size[1]
        filters = self.filters * self.channels // self.groups * self.window[0] * self.window[1]
        return width * (images + filters + self.batch * self.filters * self.out[0] * self.out[1])


@dataclass(frozen=True)
class Recurrent:
    """A layer of `cell`s over `steps` steps, or its gradient by the weights.

    The product of the weights with the inputs is not the layer's in DeepBench, and libraries have no layer without it:
    the inputs are one number wide.
    """

    cell: str
    hidden: int
    batch: int
    steps: int
    direction: str = FORWARD
    kind: ClassVar[str] = "recurrent"

    @property
    def name(self) -> str:
        """With hidden units, batch and steps."""
        backward = f" {self.direction}" if self.direction != FORWARD else ""
        return f"{self.cell} {self.hidden} batch {self.batch} steps {self.steps}{backward}"

    @property
    def flops(self) -> int:
        """Of products by weights [gates x hidden, hidden + 1]; backward also by the hidden units of the step before."""
        product = 2 * GATES[self.cell] * self.hidden * self.batch
        before = self.hidden * (self.steps - 1) if self.direction == BY_WEIGHT else 0
        return product * (self.steps * (self.hidden + 1) + before)

    def bytes(self, width: int) -> int:
        """See `MatrixProduct.bytes`: weights, inputs and what is made; backward also their gradients."""
        weights = GATES[self.cell] * self.hidden * (self.hidden + 1)
        passed = self.batch * self.steps * (self.hidden + 1)
        return width * (weights + passed) * (2 if self.direction == BY_WEIGHT else 1)


@dataclass(frozen=True)
class SparseProduct:
    """Of [m, k], of which the share `zeros` is zero and not kept, by a dense [k, n]."""

    m: int
    n: int
    k: int
    zeros: float
    kind: ClassVar[str] = "sparse"

    @property
    def kept(self) -> int:
        """Numbers of the sparse matrix that are not zero."""
        return round(self.m * self.k * (1 - self.zeros))

    @property
    def name(self) -> str:
        """With m x n x k."""
        return f"{self.kind} {self.m}x{self.n}x{self.k} {100 * self.zeros:g} % zeros"

    @property
    def flops(self) -> int:
        """Of the numbers that are kept."""
        return 2 * self.kept * self.n

    def bytes(self, width: int) -> int:
        """See `MatrixProduct.bytes`: the sparse matrix as compressed rows (CSR) hold it."""
        sparse = self.kept * (width + INDEX) + (self.m + 1) * INDEX
        return sparse + width * self.n * (self.k + self.m)


@dataclass(frozen=True)
class AllReduce:
    """The sum over all workers of `numbers` numbers in fp32, which each then has."""

    numbers: int
    workers: int = 2
    kind: ClassVar[str] = "all_reduce"

    @property
    def name(self) -> str:
        """With how many numbers."""
        return f"{self.kind} {self.numbers} by {self.workers}"

    @property
    def flops(self) -> int:
        """None that count: what a link moves is what it takes."""
        return 0

    def bytes(self, width: int) -> int:
        """That each worker sends in a ring, in fp32: over the time the bus bandwidth (nccl-tests, PERFORMANCE.md)."""
        return 2 * (self.workers - 1) * SUMMED * self.numbers // self.workers


Problem = MatrixProduct | Convolution | Recurrent | SparseProduct | AllReduce
KINDS = tuple(each.kind for each in (MatrixProduct, Convolution, Recurrent, SparseProduct, AllReduce))


@dataclass(frozen=True)
class Listed:
    """A problem as a list has it: in which precision, how often a step takes it, and the sets that it is of.

    Without `precision` it is that of the look; without `calls` nobody says how often.
    """

    problem: Problem
    precision: str | None = None
    calls: float | None = None
    sets: frozenset[str] = field(default_factory=frozenset)


def _by(*sizes: int) -> str:
    return "x".join(map(str, sizes))


def _alike(pair: Sequence[object]) -> str:
    """One figure of a pair of the same."""
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]}x{pair[1]}"
