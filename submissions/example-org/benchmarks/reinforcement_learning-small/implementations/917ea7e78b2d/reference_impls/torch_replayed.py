"""CUDA graphs of functions of tensors, in PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import torch

Function = Callable[[list[torch.Tensor]], list[torch.Tensor]]


def replays(device: torch.device) -> bool:
    """Whether functions may be replayed: on `cuda`, unless torch.compiler.set_stance forces eager execution."""
    return device.type == "cuda" and torch._dynamo.eval_frame._stance.stance != "force_eager"


class Replayed:
    """A function of tensors on `cuda` as one CUDA graph: one launch in place of one for each of its kernels.

    It is recorded for tensors like `given`; each call overwrites what the call before it returned.
    """

    def __init__(self, function: Function, given: list[torch.Tensor]) -> None:
        self.given = [tensor.clone() for tensor in given]
        beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):  # libraries set up at their first call what they cannot during capture
            function(self.given)
        torch.cuda.current_stream().wait_stream(beside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.found = function(self.given)

    def __call__(self, given: list[torch.Tensor]) -> list[torch.Tensor]:
        """What the function returns for `given`, in the graph's own memory."""
        torch._foreach_copy_(self.given, given)
        self.graph.replay()
        return self.found
