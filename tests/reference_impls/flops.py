"""Counts the floating-point operations of matrix products and convolutions that a call takes, in each framework."""

from collections.abc import Callable

from suite.probe import instruments


def torch(call: Callable[[], object]) -> int:
    """As PyTorch counts them."""
    return sum(instruments.load("torch").flops(call).values())


def tensorflow(call: Callable[[], object]) -> int:
    """Of the operations that TensorFlow executes, its graphs run eagerly."""
    return sum(instruments.load("tensorflow").flops(call).values())


COUNTERS = {"torch": torch, "tensorflow": tensorflow}
