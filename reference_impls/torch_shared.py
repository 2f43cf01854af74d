"""What the implementations in PyTorch share: device, precision, compilation, and their states."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch.amp.grad_scaler import GradScaler

from reference_impls.precision import written_in
from reference_impls.trainer import Fed, Hyper, Trainer
from suite.errors import UserError
from suite.harness.implementation import Device, unseen

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# The part of a GradScaler's state that changes, with its initial values
SCALER = {"scale": np.array(2.0**10, np.float32), "_growth_tracker": np.array(0, np.int32)}
Step = TypeVar("Step", bound=Callable[..., Any])
# Shapes that a function may be compiled for in a process; beyond PyTorch's 8 it would run uncompiled
RECOMPILE_LIMIT = 64
# Hints of PyTorch's compiler to silence: tf32 is a precision of its own here, and softmax stays as it is
HINTS = ("TensorFloat32 tensor cores", r"\s*Online softmax is disabled")
OWN_ATTENTION = " own attention"  # marks what was compiled under `own_attention`


def dtype(device: Device) -> torch.dtype:
    """PyTorch's dtype for the device's precision. Also lets GPUs multiply fp32 as tf32 in precision tf32 alone.

    Raises UserError for a precision that the reference does not train in.
    """
    written_in("torch", device, DTYPES)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = device.precision == "tf32"
    return DTYPES[device.precision]


def torch_device(device: Device) -> torch.device:
    """PyTorch's name of the device, which becomes the current one; `meta` for an imagined one.

    An accelerator is what `torch.accelerator` finds: `cuda` for CUDA and ROCm, `xpu` for Intel, other names for others.
    On `cuda` cuDNN tries its algorithms at the first convolution of each shape, while `build` warms up. Raises
    UserError if PyTorch sees no accelerator, or has no kernels for it.
    """
    if device.imagined:
        return torch.device("meta")
    if device.kind == "cpu":
        return torch.device("cpu")
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None:
        raise unseen(f"PyTorch {torch.__version__}", f"it is built for {built_for()}")
    torch.accelerator.set_device_index(device.local_rank)
    if accelerator.type == "cuda":
        _ready_cuda()
    return accelerator


def _ready_cuda() -> None:
    built, here = torch.cuda.get_arch_list(), architecture()
    if built and not any(runs_on(each, here) for each in built):
        raise UserError(
            f"PyTorch {torch.__version__} has kernels for {', '.join(built)} and none for {here}, which "
            f"{torch.cuda.get_device_name()} is: take a build of PyTorch that has them; CUDA 13 has none before sm_75"
        )
    torch.backends.cudnn.benchmark = True


def own_attention() -> None:
    """Have PyTorch use its own attention kernels, not cuDNN's, which it prefers on sm_90 and sm_100.

    cuDNN rounds dropout to sixteenths (pytorch/pytorch#174245). It is also the first suspect for a segmentation fault
    while the GPT of `full`, the only model to use it, was built on an H200: it is known to crash while planning
    (NVIDIA/cudnn-frontend#1071). Without it the GPT has not been tried on a GPU yet.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
    tag = torch.compiler.config.cache_key_tag  # PyTorch's cache does not ask for which kernels it compiled (2.11)
    torch.compiler.config.cache_key_tag = tag.removesuffix(OWN_ATTENTION) + OWN_ATTENTION


def built_for() -> str:
    """The platform that PyTorch is built for, with its version."""
    versions = {"ROCm": torch.version.hip, "CUDA": torch.version.cuda, "XPU": torch.version.xpu}
    return next((f"{name} {version}" for name, version in versions.items() if version), "processors alone")


def architecture() -> str:
    """The current GPU's architecture, as compilers name it: sm_90 in CUDA, gfx942 in ROCm."""
    if torch.version.hip:
        name: str = torch.cuda.get_device_properties().gcnArchName  # gfx942:sramecc+:xnack-
        return name.partition(":")[0]
    return "sm_{}{}".format(*torch.cuda.get_device_capability())


def runs_on(built: str, architecture: str) -> bool:
    """Whether kernels that are built for one architecture run on a GPU of another.

    Those for `sm_80` run on GPUs from 8.0 on with the same major number, those for `compute_80` (PTX) on all from 8.0
    on, those for AMD's GPUs on the same architecture only.
    """
    if built.startswith("gfx"):
        return built == architecture
    kind, _, number = built.partition("_")
    least, here = divmod(int(number.rstrip("af")), 10), divmod(int(architecture.removeprefix("sm_")), 10)
    return least <= here and (kind == "compute" or least[0] == here[0])


def autocast(device: torch.device, dtype: torch.dtype) -> AbstractContextManager[Any]:
    """The autocast of forward passes to `dtype`; in fp32 it changes nothing."""
    return nullcontext() if dtype == torch.float32 else torch.autocast(device.type, dtype)


def grad_scaler(device: torch.device, dtype: torch.dtype) -> GradScaler:
    """Loss scaling for fp16 (Micikevicius et al. 2018): a step whose gradients overflow is skipped. Else disabled."""
    return GradScaler(device.type, init_scale=SCALER["scale"].item(), enabled=dtype == torch.float16)


def all_at_once(device: torch.device) -> dict[str, bool]:
    """Options that let a PyTorch optimizer take its step in one fused kernel, or in a few where it has none."""
    return {"fused": True} if device.type in ("cpu", "cuda") else {"foreach": True}


def compiled(function: Step, device: torch.device) -> Step:
    """`function`, on `cuda` compiled and replayed from CUDA graphs; unchanged on a CPU, where eager is faster.

    It is unchanged on other accelerators too, none of which was at hand. With several workers there are no CUDA graphs:
    they do not capture what the workers send each other.
    """
    if device.type != "cuda":
        return function
    torch._dynamo.config.recompile_limit = RECOMPILE_LIMIT
    for hint in HINTS:
        warnings.filterwarnings("ignore", hint)
    mode = "default" if torch.distributed.is_initialized() else "reduce-overhead"
    return cast(Step, torch.compile(function, mode=mode, dynamic=False))


def warm_ups(device: torch.device) -> range:
    """A range of as many calls as `compiled` functions get before the clock starts.

    On a GPU the first call compiles, the second records a CUDA graph, the third replays it.
    """
    return range(3 if device.type == "cuda" else 1)


def unwritten(values: np.ndarray) -> torch.Tensor:
    """The values as a tensor that nobody may write to; contiguous arrays, even read-only ones, are not copied."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(np.ascontiguousarray(values))


def on_device(values: np.ndarray, device: torch.device) -> torch.Tensor:
    """The values as a tensor; the copy to `cuda` and `xpu` is queued, so the host goes on at once."""
    tensor = torch.from_numpy(values)
    if device.type not in ("cuda", "xpu"):  # others may raise at pin_memory, as MPS does
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def in_training(model: torch.nn.Module) -> None:
    """Call model.train() unless the model is in training: it visits every module, some 0.2 ms on the host."""
    if not model.training:
        model.train()


def keep_gradients(model: torch.nn.Module) -> None:
    """Allocate gradients in which several backward passes add up; zero them from then on, but never drop them.

    Otherwise the first gradient stays where a CUDA graph writes it, and the second backward pass overwrites it
    (github.com/pytorch/pytorch/issues/169545).
    """
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)


def set_learning_rate(optimizer: torch.optim.Optimizer, *rates: float) -> None:
    """Set the learning rate of each of the optimizer's groups, or one rate for all."""
    for i, group in enumerate(optimizer.param_groups):
        group["lr"] = rates[i % len(rates)]


def clip_gradients(parameters: Iterable[torch.nn.Parameter], norm: float) -> None:
    """Scale the gradients down to a global norm of at most `norm`: torch.nn.utils.clip_grad_norm_.

    On a CPU too all at once, which is not PyTorch's default: 57 us in place of 134 for 12 small parameters (AMD EPYC).
    """
    parameters = list(parameters)
    at_once = True if parameters[0].device.type == "cpu" else None  # None: PyTorch decides; on a GPU yes, on meta no
    torch.nn.utils.clip_grad_norm_(parameters, norm, foreach=at_once)


def prepare(optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """Have optimizers make the moments that they would make at their first step, so that states load in place."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
        rates = [group["lr"] for group in optimizer.param_groups]
        set_learning_rate(optimizer, 0.0)
        optimizer.step()
        set_learning_rate(optimizer, *rates)
        optimizer.zero_grad()
        for kept in optimizer.state.values():
            if "step" in kept:
                kept["step"].zero_()


def state_dict(
    model: torch.nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    scaler: GradScaler,
    step: int,
) -> dict[str, np.ndarray]:
    """Copies for a state: parameters and buffers by name, moments as `<moment>/<parameter>`, and the step.

    `updates` is how many steps Adam has taken: fewer than `step` where loss scaling skipped some.
    """
    state = copies({**weights(model), **_moments(model, optimizers)})
    if "updates" in state:
        state["updates"] = state["updates"].astype(np.int64)  # as Keras has it
    if scaler.is_enabled():
        state |= {
            name: np.array(value, SCALER[name].dtype) for name, value in scaler.state_dict().items() if name in SCALER
        }
    return state | {"step": np.array(step)}


@torch.no_grad()
def load_state_dict(
    model: torch.nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    scaler: GradScaler,
    state: Mapping[str, np.ndarray],
) -> int:
    """Load a state of either framework in place; moments that it lacks start at zero. Returns the step."""
    for name, tensor in weights(model).items():
        tensor.copy_(torch.from_numpy(np.asarray(state[name])))
    for optimizer in optimizers:
        for name, tensor in _moments(model, [optimizer]).items():
            tensor.copy_(torch.from_numpy(np.asarray(state.get(name, np.zeros(tuple(tensor.shape), np.float32)))))
        for kept in optimizer.state.values():  # Adam counts its steps for each parameter
            if "step" in kept:
                kept["step"].fill_(float(state.get("updates", 0)))
    if scaler.is_enabled():
        values = {name: state.get(name, first).item() for name, first in SCALER.items()}
        scaler.load_state_dict(scaler.state_dict() | values)
    return int(state["step"])


class TorchTrainer(Trainer[Hyper, Fed]):
    """A `Trainer` whose state is that of model, optimizers and scaler."""

    model: torch.nn.Module
    optimizers: Sequence[torch.optim.Optimizer]
    scaler: GradScaler

    def state_dict(self) -> dict[str, np.ndarray]:
        """See `state_dict`."""
        return state_dict(self.model, self.optimizers, self.scaler, self.step)

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """See `load_state_dict`."""
        self.step = load_state_dict(self.model, self.optimizers, self.scaler, state)
        self.fed = None


def copies(tensors: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Copies of the tensors as C-ordered arrays; those from an accelerator are waited for together.

    They arrive in pinned memory, which PyTorch keeps for later copies.
    """
    copies = {name: value.detach().to("cpu", non_blocking=True) for name, value in tensors.items()}
    if any(value.device.type not in ("cpu", "meta") for value in tensors.values()):
        torch.accelerator.synchronize()
    arrays = {name: copy.numpy() for name, copy in copies.items()}
    return {
        name: array.copy() if tensors[name].is_cpu or not array.flags.c_contiguous else array
        for name, array in arrays.items()
    }


def weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers, except batch norm's count of batches, which nothing uses."""
    return {name: value for name, value in model.state_dict().items() if not name.endswith("num_batches_tracked")}


def _moments(model: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, torch.Tensor]:
    """The optimizers' states, by the names of `state_dict`."""
    names: dict[torch.Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {
        "updates" if key == "step" else f"{key}/{names[parameter]}": value
        for optimizer in optimizers
        for parameter, kept in optimizer.state.items()
        for key, value in kept.items()
    }
