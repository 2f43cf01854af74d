import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from reference_impls import torch_cross_entropy
from reference_impls.torch_cross_entropy import cross_entropy


def both(logits, targets, **options):
    """Losses and gradients in turn: ours, and PyTorch's in float64."""
    found = []
    for function, given in ((cross_entropy, logits), (F.cross_entropy, logits.double())):
        x = given.clone().requires_grad_()
        more = {"reduction": "none"} if function is F.cross_entropy else {}
        losses = function(x, targets, **options, **more)
        (losses * torch.linspace(-1, 2, len(losses))).sum().backward()
        found.append((losses, x.grad))
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("ignored", [-1, 0])
def test_it_is_pytorchs(monkeypatch, dtype, smoothing, ignored):
    monkeypatch.setattr(torch_cross_entropy, "PART", 70)  # seven rows at a time, and one left
    torch.manual_seed(0)
    targets = torch.where(torch.rand(50) < 0.3, ignored, torch.randint(0, 9, (50,)))
    logits = (4 * torch.randn(50, 9)).to(dtype)
    ours, theirs = both(logits, targets, label_smoothing=smoothing, ignore_index=ignored)
    assert [each.dtype for each in ours] == [torch.float32, dtype]
    assert not any(each[targets == ignored].any() for each in ours)
    torch.testing.assert_close(ours[0].double(), theirs[0], rtol=1e-5, atol=1e-5)
    rounding = torch.finfo(dtype).eps
    torch.testing.assert_close(ours[1].double(), theirs[1], rtol=4 * rounding, atol=rounding)


def test_of_no_rows_and_of_words_that_cannot_be():
    empty = torch.empty(0, 9, requires_grad=True)
    cross_entropy(empty, torch.empty(0, dtype=torch.int64)).sum().backward()
    assert empty.grad.shape == (0, 9)
    logits = torch.tensor([[-1e9, 0.0, 1.0]])
    ours, theirs = both(logits, torch.tensor([1]))
    torch.testing.assert_close(ours[0].double(), theirs[0])
    torch.testing.assert_close(ours[1].double(), theirs[1])


@pytest.mark.parametrize(("logit", "smoothing"), [(-200.0, 0.0), (-200.0, 0.1), (-torch.inf, 0.0)])
def test_of_words_whose_probability_no_float_holds(logit, smoothing):
    logits = torch.tensor([[logit, 0.0, 1.0], [0.0, 1.0, 2.0]])
    ours, theirs = both(logits, torch.tensor([0, 2]), label_smoothing=smoothing)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.double(), other)


def test_the_factor_of_a_mean_is_not_rounded():
    """In bf16 it would be 0.3 % off for 1,801 rows, and all of the gradient with it."""
    torch.manual_seed(0)
    logits, targets = torch.randn(1801, 50).bfloat16().requires_grad_(), torch.randint(0, 50, (1801,))
    exact = logits.detach().double().requires_grad_()
    cross_entropy(logits, targets).mean().backward()
    F.cross_entropy(exact, targets).backward()
    assert float(logits.grad.double().abs().sum() / exact.grad.abs().sum()) == pytest.approx(1, abs=3e-4)


def test_an_ignored_row_may_hold_anything():
    ours, _ = both(torch.tensor([[torch.nan, 0.0, 1.0], [0.0, 1.0, 2.0]]), torch.tensor([-100, 1]))
    assert ours[0][0] == 0
    assert ours[0][1].isfinite()


class Calls(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_who_follows_the_calls_sees_pytorchs_alone():
    """As bricks do, whose times are composed for other machines."""
    logits, targets = torch.zeros(4, 9, requires_grad=True), torch.zeros(4, dtype=torch.int64)
    with Calls() as calls:
        cross_entropy(logits, targets)
    assert [name for name in calls.names if name != "__get__"] == ["float", "cross_entropy"]
