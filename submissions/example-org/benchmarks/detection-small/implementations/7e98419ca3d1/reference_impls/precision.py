"""Loss scaling (Micikevicius et al. 2018): gradients too small for fp16 are made of a multiple of the loss."""

from __future__ import annotations


def loss_scale(precision: str, fp16: float) -> float:
    """What the loss is multiplied by in `precision`: by `fp16` in fp16, by 1 in fp32 and bf16, whose range is wider."""
    return fp16 if precision == "fp16" else 1.0
