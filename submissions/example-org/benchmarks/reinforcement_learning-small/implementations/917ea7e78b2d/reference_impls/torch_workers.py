"""Several workers in PyTorch: torch.distributed, DistributedDataParallel, and batch norm over the whole batch."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import psutil
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as collectives
from torch.nn.parallel import DistributedDataParallel

from reference_impls.torch_shared import torch_device
from suite.harness.implementation import Device


class Workers:
    """The workers of a run, seen from the worker of `device`; the first instance in a process joins the others."""

    def __init__(self, device: Device) -> None:
        self.device, self.size = device, 1 if device.imagined else device.world_size
        if self.size > 1 and not dist.is_initialized():
            _use_interface(device.addresses[device.rank].rpartition(":")[0].strip("[]"))
            dist.init_process_group(
                dist.get_default_backend_for_device(torch_device(device)),
                init_method=f"tcp://{device.addresses[0]}",
                rank=device.rank,
                world_size=self.size,
            )

    def parallel(self, model: nn.Module) -> nn.Module:
        """`model`, wrapped so that the backward pass averages its gradients over the workers.

        Parameters that require no gradient now are left out. `model` itself then normalises over the batch of all
        workers.
        """
        if self.size == 1:
            return model
        for module in model.modules():
            if isinstance(module, BatchNorm2d):
                module.shared = True
        places = [self.device.local_rank] if self.device.kind == "gpu" else None
        return DistributedDataParallel(model, places, broadcast_buffers=False, gradient_as_bucket_view=True)

    def mean(self, count: torch.Tensor) -> torch.Tensor:
        """The mean of `count` over the workers; a total of zero is taken for one.

        If each worker divides a sum over its samples by it, the gradient averaged over the workers is that of the mean
        over all samples.
        """
        if self.size > 1:
            dist.all_reduce(count)
        return count.clamp(min=1) / self.size

    def average(self, gradient: torch.Tensor | None) -> None:
        """Average over the workers, in place, a gradient that `parallel` leaves alone; None is skipped."""
        if self.size > 1 and gradient is not None:
            dist.all_reduce(gradient)
            gradient /= self.size

    def gathered(self, part: torch.Tensor, axis: int = 0) -> torch.Tensor:
        """The parts of all workers, as `shares.share` made them, concatenated along `axis`."""
        if self.size == 1:
            return part
        parts: list[Any] = [None] * self.size
        dist.all_gather_object(parts, part.cpu())
        return torch.cat(parts, axis).to(part.device)


def unsent(parallel: nn.Module) -> AbstractContextManager[Any]:
    """A context in which the gradients of a `Workers.parallel` model add up and are not sent to other workers yet."""
    return parallel.no_sync() if isinstance(parallel, DistributedDataParallel) else nullcontext()


class BatchNorm2d(nn.BatchNorm2d):
    """nn.BatchNorm2d with statistics over the batch of all workers; for a single worker it is unchanged.

    nn.SyncBatchNorm does the same on GPUs only. Batches are not counted: a fixed momentum needs no count, and a GPU
    would have to update it at each step.
    """

    shared = False  # set by Workers.parallel

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.register_buffer("num_batches_tracked", None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [B, C, H, W] with each channel normalised over the batch, then scaled and shifted."""
        if not (self.training and self.shared):
            return super().forward(x)
        wide = x.float()
        count = wide.new_full((1,), wide.numel() // wide.shape[1])
        summed = _sum(torch.cat([wide.sum((0, 2, 3)), count]))
        mean, samples = summed[:-1] / summed[-1], summed[-1].detach()
        centred = wide - mean[:, None, None]
        variance = _sum(centred.square().sum((0, 2, 3))) / samples
        with torch.no_grad():
            momentum = cast(float, self.momentum)
            assert self.running_mean is not None
            assert self.running_var is not None
            self.running_mean.lerp_(mean, momentum)
            self.running_var.lerp_(variance * samples / (samples - 1), momentum)
        scaled = centred * (variance + self.eps).rsqrt()[:, None, None]
        if self.weight is not None:
            scaled = scaled * self.weight[:, None, None]
        if self.bias is not None:
            scaled = scaled + self.bias[:, None, None]
        return scaled.to(x.dtype)


def _sum(x: torch.Tensor) -> torch.Tensor:
    """The sum over the workers, whose gradient is the sum of theirs, in compiled code too.

    That of torch.distributed.nn.functional.all_reduce is zero in what torch.compile makes (PyTorch 2.11).
    """
    everyone = cast(dist.ProcessGroup, dist.group.WORLD)
    summed: torch.Tensor = collectives.wait_tensor(collectives.all_reduce(x, "sum", everyone))  # type: ignore[no-untyped-call]
    return summed


def _use_interface(address: str) -> None:
    """Have gloo and NCCL send through the interface of this address; by default they take that of the host's name."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address == address for each in addresses):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
            os.environ.setdefault("NCCL_SOCKET_IFNAME", name)
