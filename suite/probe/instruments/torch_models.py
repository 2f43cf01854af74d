"""Models of torchvision as workloads."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_leaves

from suite.errors import UserError
from suite.harness.implementation import Device
from suite.probe.instruments.torch_counting import number_type, torch_device, wait
from suite.probe.record import DEFAULT_BATCH, DEFAULT_SIZE, Conditions, out_of_memory
from suite.probe.workload import LEARNING_RATE, MOMENTUM, Workload, check_logits, spelled
from suite.store import packages


class Model(Workload):
    """A model of torchvision on synthetic pictures, trained by SGD with momentum, or inferring.

    Precisions of 16 bits run under autocast, without loss scaling.
    """

    def __init__(self, network: torch.nn.Module, conditions: Conditions, size: int, device: Device, seed: int) -> None:
        self.training, self.samples = conditions.mode == "train", conditions.batch or DEFAULT_BATCH
        self.device, self.dtype = torch_device(device), number_type(device)
        self.network = network.train(self.training)
        random = torch.Generator().manual_seed(seed)
        self.images = torch.randn(self.samples, 3, size, size, generator=random).to(self.device)
        self.labels = torch.zeros(self.samples, dtype=torch.long).to(self.device)  # the class that every network has
        if self.training:
            self.optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)

    def run(self, steps: int) -> None:
        """See `Workload`."""
        for _ in range(steps):
            self.train_step() if self.training else self.infer()
        wait(self.device)

    def train_step(self) -> None:
        """One step of SGD."""
        with self.autocast():
            outputs = [each for each in tree_leaves(self.network(self.images)) if isinstance(each, torch.Tensor)]
            check_logits(each.shape for each in outputs)
            loss = sum((F.cross_entropy(each, self.labels) for each in outputs), torch.zeros((), device=self.device))
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.optimizer.zero_grad()

    @torch.inference_mode()
    def infer(self) -> None:
        """One forward pass."""
        with self.autocast():
            self.network(self.images)

    def autocast(self) -> AbstractContextManager[Any]:
        """Autocast to the precision, unless it is float32."""
        return nullcontext() if self.dtype == torch.float32 else torch.autocast(self.device.type, self.dtype)


def listed() -> list[str]:
    """The classifiers of torchvision, by their names."""
    if find_spec("torchvision") is None:
        raise UserError(f"model= in torch needs torchvision: {packages.with_extras('torch')}")
    from torchvision import models

    return list(models.list_models(module=models))


def model(conditions: Conditions, device: Device, seed: int) -> Model:
    """See `Instruments.model`: the classifiers of torchvision."""
    name = spelled(conditions.model, listed(), "torchvision")
    from torchvision import models

    size = conditions.size or DEFAULT_SIZE
    if conditions.size is None:
        (*_, weights) = models.get_model_weights(name)
        crop = weights.transforms().crop_size
        size = crop[0] if isinstance(crop, list | tuple) else crop
    options: dict[str, Any] = {"image_size": size} if name.startswith("vit_") else {}
    if name in ("googlenet", "inception_v3"):
        options["init_weights"] = True
    torch.manual_seed(seed)
    try:
        with torch_device(device):
            network = models.get_model(name, weights=None, **options)
        made = Model(network, conditions, size, device, seed)
        with torch.no_grad(), made.autocast():
            made.network.eval()(made.images[:1])
            made.network.train(made.training)
    except (RuntimeError, ValueError) as error:
        if out_of_memory(error):
            raise
        raise UserError(f"{name} refuses size={size}: {str(error).splitlines()[0]}") from error
    return made
