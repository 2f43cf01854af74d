"""What a training step asks of the host: its operators, the bytes that it sends to the device, and its waits for it.

    python -m tests.bench.device [--steps 5] [--scale small] [--framework torch] [--json] [TASK ...]

No GPU is needed. PyTorch trains on its `meta` device, which has shapes and no values: whatever needs a value of it is a
wait. TensorFlow trains on a second CPU, from which the host reads nothing but by a wait; its operators are those of the
traced functions, in loops counted once. In fp32; benchmarks whose data is not at hand are named and left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import import_module
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
import torch
import torch.fx.experimental._config
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
from tensorflow.python.framework.ops import _EagerTensorBase
from torch.utils._python_dispatch import TorchDispatchMode

from suite import config
from suite.errors import UserError
from suite.harness.contract import training_data
from suite.harness.implementation import Device, frameworks
from suite.store.arrays import prepared
from suite.store.task import load_task

MOST_BYTES = 64 * 1024  # from the host to the device, a step
HOST, META = torch.device("cpu"), torch.device("meta")
# whose results have a size, or are made, that only the host can tell
TORCH_WAITS = {"nonzero", "masked_select", "unique2", "unique_consecutive"}
TENSORFLOW_WAITS = {"Where", "Unique", "UniqueV2", "DynamicPartition", "NonMaxSuppressionV3", "PyFunc", "EagerPyFunc"}
# which move no numbers
TENSORFLOW_FREE = {"Const", "Placeholder", "Identity", "IdentityN", "NoOp", "ReadVariableOp", "Reshape"}


@dataclass
class Counted:
    """What was counted: operators, bytes from host to device, and what waited for the device."""

    operators: int = 0
    bytes: int = 0
    waits: list[str] = field(default_factory=list)


class Meta(TorchDispatchMode):
    """Counts what runs on the meta device; what would read from it reads zeros."""

    def __init__(self, counted: Counted) -> None:
        super().__init__()
        self.counted = counted

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Run one operator."""
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        reads = name == "_local_scalar_dense" or kwargs.get("device") == HOST or (name == "copy_" and args[0].is_cpu)
        if reads and tensors and tensors[-1].is_meta:
            self.counted.waits.append("read by the host")
            zeros = torch.zeros(tensors[-1].shape, dtype=kwargs.get("dtype") or tensors[-1].dtype)
            return zeros.item() if name == "_local_scalar_dense" else zeros
        chosen = args[1] if name.startswith("index") and isinstance(args[1], list | tuple) else []
        if name in TORCH_WAITS or any(index is not None and index.dtype == torch.bool for index in chosen):
            self.counted.waits.append(name)
        result = self.without_shapes(name, *args) if name.startswith("_ctc_loss") else func(*args, **kwargs)
        made = result if isinstance(result, list | tuple) else [result]
        if name != "detach" and not func.is_view and any(isinstance(m, torch.Tensor) and m.is_meta for m in made):
            self.counted.operators += 1
            if name in ("_to_copy", "copy_"):
                self.counted.bytes += sum(tensor.nbytes for tensor in tensors if tensor.is_cpu)
        return result

    @staticmethod
    def without_shapes(name: str, first: torch.Tensor, second: torch.Tensor, *rest: Any) -> Any:
        """CTC, for which PyTorch has no meta kernel: `first` are log-probabilities [T, B, C], or their gradient.

        That for GPUs waits for the device: see docs/implementations.md.
        """
        if name == "_ctc_loss_backward":
            return torch.empty_like(second)
        time, batch, _ = first.shape
        return first.new_empty(batch), first.new_empty(batch, time, 2 * second.shape[-1] + 1)


@contextmanager
def returning(package: str, name: str, value: Any) -> Iterator[None]:
    """The function `name` gives `value` in each module of a package that imported it."""
    with ExitStack() as stack:
        for module in [module for path, module in sys.modules.items() if path.startswith(f"{package}.")]:
            if hasattr(module, name):
                stack.enter_context(mock.patch.object(module, name, return_value=value))
        yield


@contextmanager
def on_meta(package: str, counted: Counted) -> Iterator[None]:
    """The package's implementations train on PyTorch's meta device, and `counted` is told what they do."""
    sizes = torch.fx.experimental._config.patch(meta_nonzero_assume_all_nonzero=True)
    with returning(package, "torch_device", META), sizes, Meta(counted):
        yield


@cache
def second_cpu() -> str:
    """TensorFlow's name of a CPU that stands for the GPU: tensors on it are not the host's."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return "/CPU:1"


@contextmanager
def in_graphs(package: str, counted: Counted) -> Iterator[None]:
    """The package trains on TensorFlow's second CPU; `counted` is told what its traced functions are given and do."""
    device = second_cpu()
    on_device: dict[int, Any] = {}
    call, read = Function.__call__, _EagerTensorBase._numpy

    def counting_call(self: Any, *args: Any, **keywords: Any) -> Any:
        if tf.inside_function():  # traced as part of another, which counts it
            return call(self, *args, **keywords)
        graph = self.get_concrete_function(*args, **keywords).graph.as_graph_def()
        nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
        counted.operators += sum(node.op not in TENSORFLOW_FREE for node in nodes)
        counted.waits += [node.op for node in nodes if node.op in TENSORFLOW_WAITS]
        for value in tf.nest.flatten((args, keywords)):
            if isinstance(value, np.ndarray | np.generic):
                counted.bytes += value.nbytes
            elif tf.is_tensor(value) and id(value) not in on_device:
                on_device[id(value)] = value
                counted.bytes += value.dtype.size * value.shape.num_elements()
        result = call(self, *args, **keywords)
        on_device.update((id(value), value) for value in tf.nest.flatten(result))
        return result

    def counting_read(self: Any) -> Any:
        if self.device.endswith(device.strip("/")):
            counted.waits.append("read by the host")
        return read(self)

    with (
        returning(package, "device_name", device),
        mock.patch.object(Function, "__call__", counting_call),
        mock.patch.object(_EagerTensorBase, "_numpy", counting_read),
    ):
        yield


WATCHED = {"torch": on_meta, "tensorflow": in_graphs}


@dataclass(frozen=True)
class Row:
    """A benchmark's figures in a framework, each a mean over the optimizer's steps.

    `updates` is how many of these are taken with one batch. Where they are several the network made the batch by
    acting, for which the host reads its weights once.
    """

    task: str
    framework: str
    updates: int
    operators: float
    bytes: float
    waits: float
    waited: tuple[str, ...]  # for what

    @property
    def keeps_waiting(self) -> bool:
        """Whether the device waits for the host, or the host for it."""
        return self.bytes > MOST_BYTES or self.waits * self.updates > (self.updates > 1)


def measure(task: str, scale: str, framework: str, steps: int) -> Row:
    """The figures of a benchmark in a framework, of at least so many of the optimizer's steps.

    Raises UserError where its data is not at hand.
    """
    benchmark = config.benchmark(task, scale)
    hyper = benchmark.hyperparameters
    data = training_data(prepared(benchmark, load_task(task)))
    package = f"reference_impls.{task}"
    module = import_module(f"{package}.{framework}")
    counted = Counted()
    with WATCHED[framework](package, counted):
        made = module.build(hyper, data, 1, Device("cpu", "fp32"))
        size = made.train_until(1).samples  # it moves the data to the device
        updates = hyper.get("update_epochs", 1) * (size // hyper.get("minibatch_size", size))
        batches = -(-steps // updates)
        counted.operators, counted.bytes = 0, 0
        counted.waits.clear()
        made.train_until((1 + batches) * size)
    waits = sorted(counted.waits)
    waits.remove("read by the host")  # the loss, when the harness asks
    figures = (each / batches / updates for each in (counted.operators, counted.bytes, len(waits)))
    return Row(task, framework, updates, *figures, tuple(sorted(set(waits))))


def main(argv: list[str]) -> int:
    """Print the figures; 1 where a device is kept waiting."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.device", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("tasks", nargs="*", default=config.names("task"))
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--scale", default="small")
    parser.add_argument("--framework", choices=WATCHED, action="append")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    rows = []
    for task in args.tasks:
        for framework in [each for each in args.framework or WATCHED if each in frameworks(task)]:
            try:
                row = measure(task, args.scale, framework, args.steps)
            except UserError as error:
                print(f"{task}/{args.scale} {framework}: left out: {error}", file=sys.stderr)
                continue
            rows.append(row)
            if not args.json:
                figures = f"{row.operators:8.0f} operators {row.bytes:10.0f} bytes {row.waits:7.2f} waits"
                print(f"{task:24} {framework:10} {figures} {', '.join(row.waited)}", flush=True)
    if args.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    return int(any(row.keeps_waiting for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
