"""What the implementations in PyTorch share: device and precision, gradients after loss scaling, states, Muon."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from suite.harness.implementation import Device

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def torch_device(device: Device) -> torch.device:
    """PyTorch's name of the device."""
    return torch.device("cuda" if device.kind == "gpu" else "cpu")


def unscaled(gradients: Mapping[str, torch.Tensor], scale: float) -> dict[str, torch.Tensor]:
    """The gradients of a loss, from those of `scale` times the loss; zero where these overflowed."""
    if scale == 1.0:
        return dict(gradients)
    return {name: torch.nan_to_num(gradient / scale, 0.0, 0.0, 0.0) for name, gradient in gradients.items()}


def to_numpy(tensors: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Copies of the tensors for a state."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in tensors.items()}


def orthogonalise(matrix: torch.Tensor, steps: int, dtype: torch.dtype) -> torch.Tensor:
    """The nearest semi-orthogonal matrix, roughly, by Newton-Schulz iteration (Jordan et al. 2024, Muon)."""
    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = (wide / (wide.norm() + 1e-7)).to(dtype)
    for _ in range(steps):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    result: torch.Tensor = (x.T if matrix.shape[0] > matrix.shape[1] else x).float()
    return result
