"""The environment variables and limits of a run that frameworks and libraries heed, without secrets or names."""

from __future__ import annotations

import getpass
import os
import platform
import re
from typing import Any

from suite.measure import cgroup
from suite.measure.cpus import own_cpus

STARTED = dict(os.environ)  # copied now, because libraries set more while a run goes on

# Prefixes of the variables that decide how, or how fast, a framework computes.
_PREFIXES = (
    *("CUDA_", "CUDNN", "CUBLAS", "CUTLASS", "NVIDIA_", "NCCL_", "NVTE_", "TRITON_"),
    *("ROCM_", "ROCR_", "HIP_", "HSA_", "MIOPEN_", "RCCL_", "GPU_"),
    *("AMD_", "HIPBLAS", "ROCBLAS_", "TENSILE_"),
    *("ZE_", "ONEAPI_", "SYCL_", "UR_", "IGC_", "CCL_", "LIBTPU_", "GLOO_"),
    *("OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "OPENBLAS_", "BLIS_", "VECLIB_", "NUMEXPR_"),
    *("ATEN_", "TORCH", "PYTORCH_", "TF_", "XLA_", "JAX_", "KERAS_", "MALLOC_", "JEMALLOC_", "TCMALLOC_"),
)
_NAMES = ("LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONHASHSEED", "PYTHONOPTIMIZE", "PYTHONMALLOC")
# Of these, the ones that choose accelerators, and those that name folders for what was compiled.
DEVICES = re.compile(r"\w+_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|ZE_AFFINITY_MASK")
CACHES = re.compile(r"\w+_(CACHE_DIR|CACHE_PATH|EXTENSIONS_DIR|USER_DB_PATH)|TRITON_HOME")
_LAUNCHER = "TORCHELASTIC_"  # set by torchrun, differently at each start
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|PWD|AUTH|CRED|COOKIE|SIGNATURE", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"//\S*@")  # user and password
_MAX_VALUE = 500  # characters


def environment() -> dict[str, Any]:
    """Return the variables that this process was started with, its CPUs, and the threads that OpenMP starts with.

    `cpus` is the number that the process may use; `cpu_quota` is in CPUs, None if there is none.
    """
    variables = {name: _plain(value) for name, value in sorted(STARTED.items()) if _decides(name)}
    cpus, asked = own_cpus(), variables.get("OMP_NUM_THREADS", "").partition(",")[0]
    return {
        "variables": variables,
        "cpus": cpus,
        "cpu_quota": cgroup.cpu_quota(),
        "threads": int(asked) if asked.isdecimal() and len(asked) < 10 else cpus,
    }


def _decides(name: str) -> bool:
    return (name.startswith(_PREFIXES) or name in _NAMES) and not (name.startswith(_LAUNCHER) or _SECRET.search(name))


def _plain(value: str) -> str:
    """A value without passwords, home folder, user and host."""
    value = _IN_ADDRESS.sub("//", value).replace(os.path.expanduser("~") + os.sep, "~/")
    for name in (_user(), platform.node()):
        if name:
            value = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "~", value)
    return value.encode(errors="replace").decode()[:_MAX_VALUE]


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        return ""
