"""What a probe found, as it is kept: one schema for all levels and frameworks, published as docs/probe.schema.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from suite import config
from suite.config.contestant import Contestant
from suite.config.values import Values
from suite.errors import UserError
from suite.store.disk import read_json, refuse_unwritable, write_text

FILE = "probe.json"
MAX_BYTES = 64 << 20
LONGEST_ERROR = 300  # characters
MOST_CELLS = 1000
OUT_OF_MEMORY = ("OutOfMemoryError", "ResourceExhaustedError", "MemoryError")  # torch, TensorFlow, Python

Data = Literal["real", "synthetic"]
Mode = Literal["train", "infer"]
DEFAULT_BATCH = 32  # of a model where nothing else is asked for
DEFAULT_SIZE = 224  # height and width of pictures, where neither size= nor the model says
MODES: tuple[Mode, ...] = ("train", "infer")


class Conditions(Values):
    """Under which a workload runs: a `task` at a `scale`, or a `model` by its name; or neither, at level kernels."""

    task: str | None = None
    """The task; None for a model by its name."""
    scale: str | None = None
    """Its scale."""
    implementation: str | None = None
    """The name of the code that is looked at; None for the reference's, or a library's."""
    model: str | None = None
    """The model, as its library names it; None for a task."""
    framework: str
    """The framework, as conf/framework/ names it."""
    mode: Mode
    """Training steps, or inference."""
    batch: int | None = Field(default=None, ge=1)
    """Samples a step; None where the workload has its own."""
    precision: str
    """Of forward and backward passes, as conf/formats.yaml names it."""
    size: int | None = Field(default=None, ge=1)
    """Height and width of a model's synthetic pictures, or length of a task's sequences; None for its own."""
    data: Data | None = None
    """A task's own data, or noise in its place; None where the level, or the workload, decides."""
    samples: int | None = Field(default=None, ge=1)
    """Training samples after which a model's quality is told; None for the target, or the end of the budget."""
    state: str | None = None
    """The run, a folder with kept states, whose last state is looked at; None for a model that is trained here."""
    kernels: str | None = None
    """Of which operations, by their tags; of DeepBench's where there is neither task nor model."""
    peak: str | None = None
    """The probe at level=kernels whose attained peak utilisation is of; None for the system's, or a product's now."""

    @property
    def name(self) -> str:
        """`task/scale`, followed by whose code it is if not the reference's; or the model's name; or `DeepBench`."""
        by = f" by {self.implementation}" if self.implementation else ""
        return f"{self.task}/{self.scale}{by}" if self.task else self.model or "DeepBench"

    @property
    def described(self) -> str:
        """All conditions in a line."""
        rest = [self.framework, self.mode, self.precision]
        told = ("batch", "size", "data", "samples", "state", "kernels", "peak")
        rest += [f"{name} {value}" for name in told if (value := getattr(self, name)) is not None]
        return " ".join([self.name, *rest])


class Figure(Values):
    """A figure of a whole cell; `value` is None where it could not be known. `low` to `high` is its 95 % interval."""

    value: float | None
    unit: str
    low: float | None = None
    high: float | None = None


class Row(Values):
    """A part of the workload, such as a layer: its name, and its values by the names of the cell's columns."""

    name: str
    values: dict[str, float | str | None]

    def number(self, column: str) -> float | None:
        """The number in a column; None where it has none, or a text."""
        value = self.values.get(column)
        return None if isinstance(value, str) else value


class Cell(Values):
    """One workload of a sweep: its conditions, and what was found; or why nothing was, in one line."""

    conditions: Conditions
    error: str | None = None
    figures: dict[str, Figure] = Field(default_factory=dict)
    columns: dict[str, str] = Field(default_factory=dict)
    """The columns of `rows`, and the unit of each."""
    rows: list[Row] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


class Probe(Values):
    """What one command found. `noisy` has why the machine disturbed it; empty on a quiet one."""

    format: Literal["suite.probe"] = "suite.probe"
    version: Literal[1] = 1
    level: str
    suite_version: str
    date: str
    """When it ended, in UTC."""
    system: str
    """As conf/hw/ names it."""
    machine: dict[str, Any]
    """What was detected: processors, memory, accelerators."""
    software: dict[str, str]
    """Versions of the installed packages."""
    environment: dict[str, Any]
    """Variables and limits that frameworks go by."""
    repeats: int = Field(ge=1, lt=10**9)
    """How often each cell was measured, the cells in a new random order each time."""
    seconds: float = Field(gt=0, lt=1e12)
    """How long a repeat of a cell was meant to last."""
    noisy: list[str]
    implementation: Contestant | None = None
    """The code that was looked at, where it is not the suite's: its files, by their sums, and what they import."""
    cells: list[Cell] = Field(min_length=1, max_length=MOST_CELLS)


def out_of_memory(error: Exception) -> bool:
    """Whether the error is one of the frameworks' or Python's for want of memory."""
    return type(error).__name__ in OUT_OF_MEMORY or "can't allocate memory" in str(error)


def one_line(error: Exception) -> str:
    """An error as the one line that its cell records."""
    text = " ".join(str(error).split())
    if out_of_memory(error):
        text = f"out of memory: {text}"
    elif not isinstance(error, UserError):
        text = f"{type(error).__name__}: {text}"
    half = LONGEST_ERROR // 2
    return text if len(text) <= LONGEST_ERROR else f"{text[:half]} ... {text[-half:]}"  # frameworks say why at the end


def dumps(values: dict[str, Any]) -> str:
    """JSON as this project writes it."""
    return json.dumps(values, indent=1, ensure_ascii=False)


def refuse_used(folder: Path) -> None:
    """Raise UserError unless the folder is new or empty, and can be written."""
    refuse_unwritable(folder / FILE)
    if any(folder.iterdir()):
        raise UserError(f"out={folder} is not empty: choose another out=")


def write(probe: Probe, folder: Path) -> Path:
    """Write the probe into a folder. Raises UserError where it cannot be written."""
    path = folder / FILE
    write_text(path, probe.model_dump_json(indent=1) + "\n")
    return path


def holds(path: Path) -> bool:
    """Whether a folder holds a probe, or a file is named as one."""
    return path.name == FILE or (path / FILE).is_file()


def read(path: Path) -> Probe:
    """Read the probe of a file, or of a folder that holds one. Raises UserError if it is not a probe."""
    path = path / FILE if path.is_dir() else path
    values = read_json(path, MAX_BYTES, "probe")
    if not isinstance(values, dict) or values.get("format") != "suite.probe":
        raise UserError(f"{path} is no probe: it was not written by python -m suite.probe")
    return config.checked(Probe, values, str(path))
