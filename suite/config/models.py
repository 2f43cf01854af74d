"""What conf/ holds, as immutable values: benchmarks, systems, frameworks."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self, cast

from mlperf_logging.mllog.constants import GLOBAL_BATCH_SIZE
from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from suite.config import formats
from suite.config.dataset import Dataset
from suite.config.logkeys import HEAD
from suite.config.values import Values
from suite.errors import UserError

Precision = Annotated[str, AfterValidator(formats.known)]
FOR_TRYING = ("mini", "pilot")  # scales
Filled = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Rate = Literal["fp32", "tf32", "bf16", "fp16", "fp8"]
Count = Annotated[int, Field(gt=0, lt=10**12)]
Figure = Annotated[float, Field(gt=1e-12, lt=1e12)]
FigureOrZero = Annotated[float, Field(ge=0, lt=1e12)]


class Evaluation(Values):
    """When evaluations take place, in samples: at the first whole step at or after `first`, then every `every`."""

    first: int = Field(gt=0)
    """Training samples before the first evaluation."""
    every: int = Field(gt=0)
    """Training samples between two evaluations; no batch is larger."""


class Range(Values):
    """A hyperparameter that is free from `low` to `high`, inclusive."""

    low: float
    """The smallest value that is allowed."""
    high: float
    """The largest value that is allowed."""
    multiple_of: int | None = Field(default=None, gt=0)
    """A number of which the value must be a multiple, in any division, as implementations divide it into equal parts.
    Left out if there is none."""

    def divides(self, value: float) -> bool:
        """Whether `value` is such a multiple."""
        return self.multiple_of is None or value % self.multiple_of == 0


class Formula(Values):
    """A hyperparameter that follows another one: its reference value times (other / other's reference) ^ `power`.

    `tolerance` is relative: 0.01 allows from 0.99 to 1.01 times what the formula gives, 0.5 from half to double.
    """

    proportional_to: str
    """The other hyperparameter."""
    power: float = 1.0
    """1 for proportional, 0.5 for the square root, -1 for inversely proportional."""
    tolerance: float = Field(ge=0, lt=1)
    """How far, relatively, it may be from the formula's value: from 1 - tolerance to 1 / (1 - tolerance) times that."""

    def of(self, reference: float, other: float, usual: float) -> float:
        """What `reference` becomes if the other hyperparameter is `other`, not `usual`; whole if `reference` is."""
        value = float(reference * (other / usual) ** self.power)
        return max(round(value), 1) if isinstance(reference, int) else value


class Benchmark(Values):
    """A task at a scale: what must be learned, how well, how it is measured, and by which hyperparameters."""

    task: str
    """The file's name; not to be given."""
    scale: str
    """The name under `scales`; not to be given."""
    title: str
    """What the benchmark is, in a line."""
    metric: str
    """The metric that measures quality: one of the task's METRICS."""
    metric_signature: str | None = None
    """The version of the metric, if its library has a name for that."""
    target: float
    """The quality that ends a run."""
    direction: Literal["higher", "lower"]
    """Which way the metric gets better."""
    evaluation: Evaluation
    """When the quality is measured."""
    budget_samples: int = Field(gt=0)
    """Training samples after which a run ends without success."""
    runs: int = Field(gt=0)
    """The number of runs that make a result."""
    parameters: int | None = Field(default=None, gt=0, exclude=True)
    """The number of trainable parameters of the model, whose gradients workers exchange in fp32. Left out if it is not
    known. It does not influence a run and is not part of its configuration."""
    exchanges_per_step: int = Field(default=1, gt=0, exclude=True)
    """How often workers exchange these gradients for `global_batch_size` samples: once for each update. It does not
    influence a run and is not part of its configuration."""
    train_flops_per_sample: float | None = Field(default=None, gt=0, exclude=True)
    """The floating-point operations of the model's products, forward and backward, for a training sample; the mean if
    samples differ. Left out if not known. It does not influence a run and is not part of its configuration."""
    uneven_steps: str | None = Field(default=None, exclude=True)
    """Why steps get longer, or shorter, later in a run: forecasts then need a probe, or bricks, of places all along it.
    Left out if steps are alike. It does not influence a run and is not part of its configuration."""
    dataset: Dataset
    """The data that is learned from."""
    precision: Precision | None = None
    """A numeric format of `conf/formats.yaml`, to train in on every system. Left out to take the system's."""
    hyperparameters: dict[str, Any]
    """What `build` is given, by names of your own; `global_batch_size` is how many samples each step counts."""
    free: dict[str, Range | Formula] = Field(default_factory=dict)
    """The hyperparameters that a submitter may choose, and within what limits; all others are fixed."""

    @model_validator(mode="after")
    def _steps_are_short(self) -> Self:
        batch = self.hyperparameters.get(GLOBAL_BATCH_SIZE, 1)
        if type(batch) is not int or batch < 1:
            raise UserError(f"global_batch_size {batch!r} of {self.name} is not a whole number from 1")
        free = self.free.get(GLOBAL_BATCH_SIZE)
        if isinstance(free, Range) and not free.divides(batch):
            raise UserError(f"global_batch_size {batch} of {self.name} is not a multiple of {free.multiple_of}")
        if batch > self.evaluation.every:
            raise UserError(
                f"global_batch_size {batch} of {self.name} is more than the {self.evaluation.every} samples between "
                "two evaluations. Make it smaller."
            )
        return self

    @model_validator(mode="after")
    def _own_names(self) -> Self:
        taken = sorted(set(HEAD) & self.hyperparameters.keys())
        if taken:
            raise UserError(
                f"hyperparameter {taken[0]!r} of {self.name}: the log has another line of that name. Rename it."
            )
        return self

    @property
    def name(self) -> str:
        """`task/scale`."""
        return f"{self.task}/{self.scale}"

    @property
    def submittable(self) -> bool:
        """Whether a result can be submitted: not at a scale for trying, nor with only part of the training data."""
        return self.scale not in FOR_TRYING and self.dataset.subset is None

    def of_subset(self, share: float) -> Benchmark:
        """The benchmark with a share of the training data's shards. Raises UserError for other shares, or no shards."""
        if not 0 < share < 1:
            raise UserError(f"subset={share:g}: a share of the training data is more than 0 and less than 1")
        return self.model_copy(update={"dataset": self.dataset.part(share)})

    def reached(self, quality: float) -> bool:
        """Whether `quality` meets the target; a quality that is not a number never does."""
        return quality >= self.target if self.direction == "higher" else quality <= self.target

    def next_evaluation(self, samples: int) -> int:
        """The samples from which the evaluation after `samples` is due, at the first whole step; at most the budget."""
        first, every = self.evaluation.first, self.evaluation.every
        blocks = 0 if samples < first else (samples - first) // every + 1
        return min(first + blocks * every, self.budget_samples)

    @property
    def tracked_every(self) -> int:
        """The number of samples between two lines of throughput and loss, at each of which a checkpoint may be written.

        It is that between evaluations or, if these are more than a twentieth of the budget apart, an equal part of it
        that is at most a hundredth of the budget.
        """
        every, budget = self.evaluation.every, self.budget_samples
        parts = -(-every * 100 // budget) if every * 20 > budget else 1
        return -(-every // parts)


class TaskFile(Values):
    """What `conf/task/<task>.yaml` holds."""

    title: str
    """What is learned and how its quality is measured, in a line."""
    scales: dict[str, dict[str, Any]] = Field(min_length=1)
    """The benchmarks by the name of their scale, smallest first: `mini` with embedded data, `pilot` to try the path of
    `full`, `small` with public, real data, `full` of the size by which the field compares. The first two cannot be
    submitted."""


class Price(Values):
    """The source of a price per hour."""

    provider: Filled
    instance: str
    region: str
    date: str
    source: Filled
    currency: str = "USD"


class System(Values):
    """The machine under test, as `conf/hw/<name>.yaml` describes it.

    `accelerator` is a regular expression searched for in each accelerator's name, or `None` for no accelerator.
    Unknown figures are `None`. `*_per_cpu` figures are multiplied by the number of logical CPUs found. Price and
    power ceiling are those of one node. `workers` is how many processes train on each node of a system without
    accelerators; on others it is one for each accelerator. `link_*` are the largest bandwidth from a worker to the next
    and the smallest latency of a message; only forecasts use them, so they are not part of a run's configuration.
    """

    name: str
    title: str
    accelerator: str | None = None
    accelerators_per_node: Annotated[int, Field(ge=0, lt=10**12)] = 0
    nodes: Count = 1
    workers: Count | None = None
    memory_gb: Figure | None = None
    peak_tflops: dict[Rate, Figure] = Field(default_factory=dict)
    precision: Precision | None = None
    power_ceiling_w: Figure | None = None
    power_ceiling_w_per_cpu: Figure | None = None
    price_per_hour: FigureOrZero | None = None
    price_per_cpu_hour: FigureOrZero | None = None
    price: Price | None = None
    link_gb_per_s: Annotated[Figure | None, Field(exclude=True)] = None
    link_latency_us: Annotated[FigureOrZero | None, Field(exclude=True)] = None
    default_scale: str

    @property
    def device_kind(self) -> str:
        """`gpu` or `cpu`: what an implementation is to train on."""
        return "gpu" if self.accelerator else "cpu"

    @property
    def workers_per_node(self) -> int:
        """How many processes train on each node."""
        return self.accelerators_per_node or self.workers or 1

    @property
    def world_size(self) -> int:
        """How many processes train in all."""
        return self.nodes * self.workers_per_node

    def peak_flops(self, precision: str) -> float | None:
        """The peak operations per second of one accelerator in a numeric format; None if not known."""
        found = formats.formats().get(precision)
        tflops = self.peak_tflops.get(cast(Rate, found.rate)) if found else None
        return None if tflops is None else tflops * 1e12

    @model_validator(mode="after")
    def _one_for_each(self) -> Self:
        count = self.accelerators_per_node
        if self.accelerator and not count:
            raise UserError(f"hw.accelerators_per_node=0: say how many accelerators a node of hw={self.name} has")
        if count and not self.accelerator:
            raise UserError(
                f"hw.accelerators_per_node={count}: hw={self.name} names no accelerator; give accelerator: as well"
            )
        if self.accelerator and self.workers is not None:
            raise UserError(
                f"hw.workers={self.workers}: hw={self.name} has one worker for each accelerator; leave it out"
            )
        return self

    @field_validator("accelerator")
    @classmethod
    def _pattern(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(f"not a regular expression ({error})") from error
        return pattern


class Framework(Values):
    """A framework an implementation can be written in: the module it imports, the suite's extra that installs it."""

    name: str
    title: str
    module: str
    extra: str | None = None
    variables: dict[str, str] = Field(default_factory=dict)
    """Environment variables that make it compute what the code says, whatever a user has set for other programs."""
    quiet: dict[str, str] = Field(default_factory=dict)
    """Environment variables that suppress its messages on starting, set on a machine that has no accelerator."""
    without: list[str] = Field(default_factory=list)
    """Packages that its own import would load if installed, and that no reference in it uses."""
    c_compiler: bool = False
    """Whether it compiles for accelerators with a C compiler and Python's headers, on the machine that trains."""
    accelerators: str | None = None
    """An expression of its module that says how many accelerators it sees."""
