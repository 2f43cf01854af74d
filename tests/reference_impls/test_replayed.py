"""What a GPU replays is what it would do one kernel after the other."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from reference_impls.torch_muon import Muon  # noqa: E402
from reference_impls.torch_replayed import Replayed  # noqa: E402

SHAPES = [(8, 2, 3, 3), (10, 8), (6, 10), (3, 4, 6)]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_muon_is_the_same_replayed(dtype):
    random, moved = np.random.default_rng(0), {}
    first, *gradients = ([random.normal(size=shape).astype(np.float32) for shape in SHAPES] for _ in range(4))
    for stance in ("default", "force_eager"):
        with torch.compiler.set_stance(stance):
            parameters = [torch.nn.Parameter(torch.tensor(each, device="cuda")) for each in first]
            muon = Muon(parameters, lr=0.1, momentum=0.9, ns_steps=3, dtype=dtype)
            for each in gradients:
                for parameter, gradient in zip(parameters, each, strict=True):
                    parameter.grad = torch.tensor(gradient, device="cuda")
                muon.step()
        assert isinstance(muon.orthogonalised, Replayed) == (stance == "default")
        moved[stance] = [parameter.detach().cpu() for parameter in parameters]
    for replayed, eager in zip(*moved.values(), strict=True):
        torch.testing.assert_close(replayed, eager)
