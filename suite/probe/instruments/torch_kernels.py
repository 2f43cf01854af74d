"""Single operations in PyTorch, on noise, and the algorithms that its libraries report."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import ceil, prod
from typing import Any

import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile, supported_activities

from suite.errors import UserError
from suite.harness.implementation import Device
from suite.probe.instruments.torch_counting import number_type, torch_device, wait
from suite.probe.instruments.torch_workers import Sums, sums
from suite.probe.kernels.problems import (
    BY_INPUT,
    BY_WEIGHT,
    FORWARD,
    AllReduce,
    Convolution,
    MatrixProduct,
    Problem,
    Recurrent,
    SparseProduct,
)
from suite.probe.workload import Workload

NOISE = 1 << 20  # numbers that are drawn; a larger array repeats them
# The primitive, implementation and algorithm in a line of oneDNN's verbose mode; the routine in one of MKL's
ONEDNN = re.compile(r"^onednn_verbose,v1,primitive,exec,cpu,(?!reorder)(\w+),([^,]+),(?:.*?\balg:(\w+))?", re.M)
MKL = re.compile(r"^MKL_VERBOSE (\w+)\(", re.M)
NAME = 100  # characters of a kernel's name

Call = Callable[[], object]


class Kernel(Workload):
    """One operation over and over, or a `gradient`."""

    samples = 1

    def __init__(self, call: Call, where: torch.device, gradient: bool = False) -> None:
        self.call, self.where, self.gradient = call, where, gradient

    def run(self, steps: int) -> None:
        """See `Workload`."""
        with torch.inference_mode(not self.gradient):
            for _ in range(steps):
                self.call()
        wait(self.where)


def kernel(problem: Problem, device: Device) -> Workload:
    """See `Instruments.kernel`."""
    dtype, where = number_type(device), torch_device(device)

    def noise(*shape: int) -> torch.Tensor:
        drawn = torch.randn(min(NOISE, prod(shape)), device=where).to(dtype)
        return drawn.repeat(ceil(prod(shape) / len(drawn)))[: prod(shape)].view(shape)

    match problem:
        case MatrixProduct():
            return Kernel(_product(problem, noise), where)
        case Convolution():
            return Kernel(_convolution(problem, noise), where)
        case Recurrent():
            return _recurrent(problem, noise, where, dtype)
        case SparseProduct():
            return Kernel(_sparse(problem, noise, where, dtype), where)
        case AllReduce():
            return sums(problem, device)


def _product(it: MatrixProduct, noise: Callable[..., torch.Tensor]) -> Call:
    left, right = (noise(*shape) for shape in it.factors)
    left, right = (
        each.transpose(-1, -2) if lies else each for each, lies in zip((left, right), it.transposed, strict=True)
    )
    return lambda: torch.matmul(left, right)


def _convolution(it: Convolution, noise: Callable[..., torch.Tensor]) -> Call:
    if any(before != after for before, after in it.padding):
        raise UserError("PyTorch pads both sides alike")
    images = noise(it.batch, it.channels, *it.size)
    filters = noise(it.filters, it.channels // it.groups, *it.window)
    padding = [before for before, _ in it.padding]
    given: list[Any] = [list(it.stride), padding, list(it.dilation), False, [0, 0], it.groups]
    if it.direction == FORWARD:
        return lambda: torch.ops.aten.convolution(images, filters, None, *given)
    gradient = noise(it.batch, it.filters, *it.out)
    wanted = [it.direction == BY_INPUT, it.direction == BY_WEIGHT, False]
    return lambda: torch.ops.aten.convolution_backward(gradient, images, filters, None, *given, wanted)


def _recurrent(it: Recurrent, noise: Callable[..., torch.Tensor], where: torch.device, dtype: torch.dtype) -> Workload:
    layers: dict[str, Callable[..., torch.nn.RNNBase]] = {
        "vanilla": partial(torch.nn.RNN, nonlinearity="relu"),
        "gru": torch.nn.GRU,
        "lstm": torch.nn.LSTM,
    }
    layer = layers[it.cell](1, it.hidden, bias=False).to(where, dtype)
    inputs = noise(it.steps, it.batch, 1)
    if it.direction == FORWARD:
        return Kernel(lambda: layer(inputs), where)
    outputs, _ = layer(inputs)
    gradient, weights = noise(*outputs.shape), list(layer.parameters())
    return Kernel(lambda: torch.autograd.grad(outputs, weights, gradient, retain_graph=True), where, gradient=True)


def _sparse(it: SparseProduct, noise: Callable[..., torch.Tensor], where: torch.device, dtype: torch.dtype) -> Call:
    ends, columns = (torch.from_numpy(each).int() for each in it.places())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that sparse tensors are in beta
        sparse = torch.sparse_csr_tensor(ends, columns, noise(it.kept).cpu(), (it.m, it.k), dtype=dtype).to(where)
    dense = noise(it.k, it.n)
    return lambda: torch.mm(sparse, dense)


def algorithm(workload: Workload, device: Device) -> str | None:
    """See `Instruments.algorithm`: names of kernels on GPUs, oneDNN's and MKL's verbose modes on processors."""
    if isinstance(workload, Sums):
        return workload.algorithm
    if device.kind == "gpu":
        activities = supported_activities() - {ProfilerActivity.CPU}  # type: ignore[no-untyped-call]
        with profile(activities=activities, acc_events=True) as profiled:
            workload.run(1)
        names = [short(each.name) for each in profiled.events() or () if each.device_type != DeviceType.CPU]
    else:
        said: list[str] = []
        onednn, mkl = torch.backends.mkldnn.verbose, torch.backends.mkl.verbose
        with _printed(said), onednn(1), mkl(1):  # type: ignore[no-untyped-call]
            workload.run(1)
        names = [" ".join(["oneDNN", *filter(None, found)]) for found in ONEDNN.findall(said[0])]
        names += [f"MKL {name}" for name in MKL.findall(said[0])]
    return ", ".join(dict.fromkeys(names)) or None


def short(kernel: str) -> str:
    """The name of a GPU kernel without types, arguments and namespaces.

    For CUTLASS's `Kernel<ALGORITHM>` it is the algorithm; for a name that the profiler did not demangle, its beginning.
    """
    whole = kernel.removeprefix("void ").replace("(anonymous namespace)::", "").partition("(")[0].strip()
    name, _, types = whole.partition("<")
    if re.search(r"\bKernel2?$", name):
        name = re.split("[<,>]", types)[0]
    return name.rpartition("::")[2][:NAME]


@contextmanager
def _printed(said: list[str]) -> Iterator[None]:
    """Append to `said` what is printed meanwhile, by libraries too."""
    sys.stdout.flush()
    before = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            ctypes.CDLL(None).fflush(None)
            os.dup2(before, 1)
            os.close(before)
            file.seek(0)
            said.append(file.read().decode(errors="replace"))
