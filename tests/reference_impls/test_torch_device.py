"""Which accelerators PyTorch takes, what it says of those that it has no kernels for, how states come from them."""

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from suite.errors import UserError
from suite.harness.implementation import Device


@pytest.mark.parametrize(
    ("built", "capability", "runs"),
    [
        (["sm_75", "sm_80"], (7, 0), False),
        (["sm_75", "sm_80"], (8, 9), True),
        (["sm_75", "sm_80"], (9, 0), False),
        (["sm_75", "compute_80"], (9, 0), True),
        (["sm_80", "sm_90a"], (9, 0), True),
    ],
)
def test_pytorch_says_for_which_gpus_it_has_no_kernels(built, capability, runs, monkeypatch):
    told = {"get_arch_list": built, "get_device_capability": capability, "get_device_name": "NVIDIA A"}
    for name, value in (told | {"is_available": True}).items():
        monkeypatch.setattr(f"torch.cuda.{name}", lambda *_, value=value: value)
    monkeypatch.setattr("torch.accelerator.set_device_index", lambda _: None)
    torch_device = import_module("reference_impls.torch_shared").torch_device
    if runs:
        assert torch_device(Device("gpu", "fp32")).type == "cuda"
        return
    kind = "sm_{}{}".format(*capability)
    with pytest.raises(UserError, match=f"has kernels for {', '.join(built)} and none for {kind}, which NVIDIA A is"):
        torch_device(Device("gpu", "fp32"))


def test_pytorch_takes_the_accelerator_that_it_finds(monkeypatch):
    chosen = []
    monkeypatch.setattr("torch.accelerator.current_accelerator", lambda check_available=False: torch.device("xpu"))
    monkeypatch.setattr("torch.accelerator.set_device_index", chosen.append)
    device = Device("gpu", "bf16", local_rank=1)
    for shared in ("reference_impls.torch_shared", "suite.probe.instruments.torch_counting"):
        assert import_module(shared).torch_device(device) == torch.device("xpu")
    assert chosen == [1, 1]


@pytest.mark.parametrize(("kind", "pinned"), [("cuda", True), ("xpu", True), ("mps", False)])
def test_values_are_pinned_where_that_can_be(kind, pinned, monkeypatch):
    done = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: done.append("pinned") or self)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device, **options: done.append(device.type))
    import_module("reference_impls.torch_shared").on_device(np.zeros(1), torch.device(kind))
    assert done == ["pinned"] * pinned + [kind]


@pytest.mark.parametrize(("name", "runs"), [("gfx942:sramecc+:xnack-", True), ("gfx1030", False)])
def test_pytorch_for_rocm_says_for_which_gpus_it_has_no_kernels(name, runs, monkeypatch):
    told = {"get_arch_list": ["gfx90a", "gfx942"], "get_device_capability": (9, 4), "get_device_name": "AMD A"}
    told["get_device_properties"] = SimpleNamespace(gcnArchName=name)
    for function, value in (told | {"is_available": True}).items():
        monkeypatch.setattr(f"torch.cuda.{function}", lambda *_, value=value: value)
    monkeypatch.setattr("torch.accelerator.set_device_index", lambda _: None)
    monkeypatch.setattr("torch.version.hip", "7.0.2")
    torch_device = import_module("reference_impls.torch_shared").torch_device
    if runs:
        assert torch_device(Device("gpu", "bf16")).type == "cuda"
        return
    with pytest.raises(UserError, match="has kernels for gfx90a, gfx942 and none for gfx1030, which AMD A is"):
        torch_device(Device("gpu", "bf16"))


def test_a_state_is_waited_for_once(monkeypatch):
    """The model's tensors are of an accelerator whose copies have their values when the host has waited."""
    queued, waits = [], []

    class Parameter:
        is_cpu, device = False, torch.device("cuda")

        def detach(self):
            return self

        def to(self, device, non_blocking):
            assert (device, non_blocking) == ("cpu", True)
            queued.append(torch.zeros(2, 3))
            return queued[-1]

    def synchronize():
        waits.append([copy.fill_(1.0) for copy in queued])

    monkeypatch.setattr("torch.accelerator.synchronize", synchronize)
    shared = import_module("reference_impls.torch_shared")
    parameters = {"weight": Parameter(), "bias": Parameter()}
    model = SimpleNamespace(state_dict=lambda: parameters, named_parameters=dict)
    state = shared.state_dict(model, [], shared.grad_scaler(torch.device("cpu"), torch.float32), 5)
    assert {name: array.sum() for name, array in state.items()} == {"weight": 6, "bias": 6, "step": 5}
    assert len(waits) == 1


def test_attention_that_was_compiled_for_cudnn_s_kernels_is_compiled_anew_for_pytorch_s(monkeypatch, tmp_path):
    own_attention = import_module("reference_impls.torch_shared").own_attention
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("torch.compiler.config.cache_key_tag", "")
    cached, given = torch._dynamo.utils.counters["aot_autograd"], torch.ones(1, 1, 8, 8)
    found = []
    for choose in (lambda: torch.backends.cuda.enable_cudnn_sdp(True), own_attention, own_attention):
        choose()
        torch._dynamo.reset()
        before = cached["autograd_cache_hit"]
        torch.compile(torch.nn.functional.scaled_dot_product_attention, dynamic=False)(given, given, given)
        found.append(cached["autograd_cache_hit"] > before)
    assert found == [False, False, True]
