"""Operations are counted as by hand: Levinthal's check, AlexNet of one, two and four affine layers of 4096 units."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import keras
import pytest
import tensorflow as tf
import torch
from torch import nn
from torch.nn import functional as F

from suite.errors import UserError
from suite.harness.implementation import Device
from suite.probe import instruments
from suite.probe.__main__ import main
from suite.probe.instruments.torch_counting import counted
from tests.probe.made import Calls, look

WIDTH, FLATTENED, BATCH = 4096, 256 * 6 * 6, 2


def torch_alexnet(affine: int) -> nn.Module:
    units = [FLATTENED, *[WIDTH] * affine, 1000]
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Flatten(), *(nn.Linear(a, b) for a, b in pairwise(units)),
    )  # fmt: skip


def torch_counts(affine: int) -> tuple[int, int]:
    """Of inference and of a training step that wants the gradient by the images too, as all other layers do."""
    network = torch_alexnet(affine).to("meta")
    images = torch.empty(BATCH, 3, 224, 224, device="meta", requires_grad=True)
    count = instruments.load("torch").flops
    with torch.no_grad():
        infer = count(lambda: network(images))
    return sum(infer.values()), sum(count(lambda: network(images).sum().backward()).values())


def tensorflow_counts(affine: int) -> tuple[int, int]:
    layers = keras.layers
    network = keras.Sequential([
        layers.ZeroPadding2D(2), layers.Conv2D(64, 11, 4), layers.MaxPooling2D(3, 2),
        layers.Conv2D(192, 5, padding="same"), layers.MaxPooling2D(3, 2),
        layers.Conv2D(384, 3, padding="same"), layers.Conv2D(256, 3, padding="same"),
        layers.Conv2D(256, 3, padding="same"), layers.MaxPooling2D(3, 2),
        layers.Flatten(), *(layers.Dense(WIDTH) for _ in range(affine)), layers.Dense(1000),
    ])  # fmt: skip
    images = tf.Variable(tf.zeros((BATCH, 224, 224, 3)))
    network(images)

    def train() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(network(images))
        tape.gradient(loss, [images, *network.trainable_variables])

    count = instruments.load("tensorflow").flops
    return sum(count(lambda: network(images)).values()), sum(count(train).values())


@pytest.mark.parametrize("counts", [torch_counts, tensorflow_counts])
def test_an_affine_layer_more_is_its_own_operations_more(counts):
    one, two, four = counts(1), counts(2), counts(4)
    slope = BATCH * 2 * WIDTH * WIDTH
    assert two[0] - one[0] == slope
    assert four[0] - two[0] == 2 * slope
    assert [train for _, train in (one, two, four)] == [3 * infer for infer, _ in (one, two, four)]


def test_both_count_alike():
    assert torch_counts(2) == tensorflow_counts(2)
    by_hand = 2 * BATCH * (
        55 * 55 * 64 * 3 * 121 + 27 * 27 * 192 * 64 * 25 + 13 * 13 * (384 * 192 + 256 * 384 + 256 * 256) * 9
        + FLATTENED * WIDTH + WIDTH * WIDTH + WIDTH * 1000
    )  # fmt: skip
    assert torch_counts(2)[0] == by_hand


X = torch.ones(10, 4, 32, requires_grad=True)  # of a sequence
Q, K = (torch.ones(2, heads, 16, 8, requires_grad=True) for heads in (4, 2))
IMAGES, FILTERS = torch.ones(1, 6, 8, 8, requires_grad=True), torch.ones(6, 1, 3, 3, requires_grad=True)
LSTM = 2 * 10 * 4 * 4 * 64 * (32 + 64)
GROUPED = 2 * 8 * 8 * 9 * 6
ATTENTION = 2 * 2 * 4 * 16 * 16 * (8 + 8)


def grouped(images: torch.Tensor) -> torch.Tensor:
    return F.conv2d(images, FILTERS, padding=1, groups=6)


OPERATORS: dict[str, tuple[Callable[[], object], int | None]] = {
    "lstm": (lambda: nn.LSTM(32, 64)(X), LSTM),
    "lstm, both ways, two layers": (lambda: nn.LSTM(32, 64, 2, bidirectional=True)(X), 2 * (LSTM + LSTM * 192 // 96)),
    "lstm and its gradients": (lambda: nn.LSTM(32, 64)(X)[0].sum().backward(), 3 * LSTM),
    "grouped convolution": (lambda: grouped(IMAGES), GROUPED),
    "grouped convolution and its gradients": (lambda: grouped(IMAGES).sum().backward(), 3 * GROUPED),
    "grouped convolution and its filters' gradient": (lambda: grouped(IMAGES.detach()).sum().backward(), 2 * GROUPED),
    "heads share keys": (lambda: F.scaled_dot_product_attention(Q, K, K, enable_gqa=True), ATTENTION),
    "heads share keys, and gradients": (
        lambda: F.scaled_dot_product_attention(Q, K, K, enable_gqa=True).sum().backward(), ATTENTION * 7 // 2,
    ),
    "matrix by vector": (lambda: torch.mv(torch.ones(8, 32), torch.ones(32)), 2 * 8 * 32),
    "matrix by vector and a sum": (lambda: torch.addmv(torch.ones(8), torch.ones(8, 32), torch.ones(32)), 2 * 8 * 32),
    "dot": (lambda: torch.dot(torch.ones(32), torch.ones(32)), 2 * 32),
    "no count": (lambda: nn.Bilinear(8, 8, 4)(torch.ones(3, 8), torch.ones(3, 8)), None),
    "sum": (lambda: X.sum(), 0),
}  # fmt: skip


def traced(call: Callable[[], object]) -> list[int | None]:
    """The operations of each call of an operator, as a watched step has them."""
    watched = instruments.load("torch").watch(lambda: Calls(call), Device("cpu", "fp32"))
    return [each.flops for each in watched.trace(1).calls]


def summed(counts: list[int | None]) -> int | None:
    return None if None in counts else sum(filter(None, counts))


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_of_many_products_is_counted_or_not_known(name):
    call, count = OPERATORS[name]
    assert summed([*instruments.load("torch").flops(call).values()]) == count
    assert summed(traced(call)) == count


@pytest.mark.parametrize(
    ("change", "others"),  # and the bytes that it is given beside the table
    [
        (lambda table, rows: table.index_put_((rows,), torch.ones(3, 8)), 3 * 8 + 3 * 8 * 4),
        (lambda table, rows: table.index_add_(0, rows, torch.ones(3, 8)), 3 * 8 + 3 * 8 * 4),
        (lambda table, rows: table.scatter_(0, rows.repeat(8, 1).t(), 1.0), 3 * 8 * 8),
    ],
    ids=["index_put_", "index_add_", "scatter_"],
)
def test_a_few_rows_of_a_table_move_themselves_alone(change, others):
    table, rows = torch.zeros(1000, 8), torch.tensor([1, 2, 3])
    watched = instruments.load("torch").watch(lambda: Calls(lambda: change(table, rows)), Device("cpu", "fp32"))
    *_, call = watched.trace(1).calls
    assert call.bytes == others + 2 * 3 * 8 * 4  # read and written


def test_layers_that_torch_runs_in_one_operator_are_counted():
    attention, layer = (
        nn.MultiheadAttention(32, 4, batch_first=True),
        nn.TransformerEncoderLayer(32, 4, 64, batch_first=True),
    )
    source, of_attention = torch.ones(2, 16, 32), 2 * 2 * 16 * (4 * 32 * 32 + 2 * 16 * 32)
    both = of_attention, of_attention + 2 * 2 * 16 * 2 * 32 * 64
    calls = lambda: attention.eval()(source, source, source, need_weights=False), lambda: layer.eval()(source)
    with torch.no_grad():
        assert tuple(summed(traced(each)) for each in calls) == both
        assert tuple(sum(instruments.load("torch").flops(each).values()) for each in calls) == both
        found = instruments.load("torch").called(calls[0], Device("cpu", "fp32"))
    assert sum(problem.flops for problem, _ in found) == 2 * 2 * 16 * 4 * 32 * 32


def test_recurrent_layers_of_cudnn_are_counted_by_their_shapes():
    """On the meta device, for want of a GPU: two layers in both directions, and the gradients."""
    network = nn.LSTM(32, 64, 2, bidirectional=True, device="meta")
    inputs, state = torch.empty(10, 4, 32, device="meta"), torch.empty(4, 4, 64, device="meta")
    weights, rest = list(network.parameters()), (2, 64, 0, 2, False, 0.0, True, True, [], None)
    forward = inputs, weights, 4, None, state, state, *rest
    backward = inputs, weights, 4, state, state, state, state, None, None, None, *rest, state
    both = 2 * (LSTM + LSTM * 192 // 96)
    assert counted(torch.ops.aten._cudnn_rnn, forward, {}, ()) == both
    for wanted, times in (([True] * 4, 2), ([True, True, True, False], 1)):
        assert counted(torch.ops.aten._cudnn_rnn_backward, (*backward, wanted), {}, ()) == times * both


def test_attention_on_xpu_is_counted_by_its_shapes():
    name = "_scaled_dot_product_fused_attention_overrideable"
    forward, backward = (getattr(torch.ops.aten, each) for each in (name, f"{name}_backward"))
    assert counted(forward, (Q, K, K), {}, ()) == ATTENTION
    assert counted(backward, (Q, Q, K, K), {}, ()) == ATTENTION * 5 // 2


SQUEEZENET = ("model=squeezenet1_1", "size=32", "batch=1", "precision=fp32")
PER_STEP = {"GFLOP/step", "GFLOP/s", "MFU"}  # figures, of one level or another


def test_what_cannot_be_counted_is_named(capsys, monkeypatch):
    library = instruments.load("torch")
    known = library.flops
    monkeypatch.setattr(library, "flops", lambda call: {**known(call), "aten._trilinear": None})
    for level in ("flops", "throughput", "kernels"):
        (cell,) = look(capsys, f"level={level}", *SQUEEZENET)
        assert any("aten._trilinear cannot be counted" in note for note in cell.notes)
        assert not any(cell.figures[each].value for each in cell.figures.keys() & PER_STEP)


@pytest.mark.parametrize("level", ["flops", "throughput"])
def test_what_calls_no_product_has_no_count_and_not_nothing(capsys, monkeypatch, level):
    monkeypatch.setattr(instruments.load("torch"), "flops", lambda call: {})
    (cell,) = look(capsys, f"level={level}", *SQUEEZENET)
    assert any("no matrix product or convolution of the framework was called" in note for note in cell.notes)
    assert {cell.figures[each].value for each in cell.figures.keys() & PER_STEP} == {None}


def test_a_step_without_products_has_no_kernels_to_time(monkeypatch):
    library = instruments.load("torch")
    monkeypatch.setattr(library, "called", lambda call, device: Counter())
    monkeypatch.setattr(library, "flops", lambda call: call() or {"aten.mm": 3})
    with pytest.raises(UserError, match=r"no matrix product or convolution in fp32 or .* to time; it calls aten\.mm"):
        main(["level=kernels", *SQUEEZENET, "mlflow=false"])


@pytest.mark.parametrize(("level", "times"), [("flops", 1), ("flops", 2), ("throughput", 2)])
def test_first_steps_that_are_unlike_those_of_a_run_are_noted(capsys, monkeypatch, level, times):
    library = instruments.load("torch")
    known = library.flops
    monkeypatch.setattr(library, "flops", lambda call: {name: times * each for name, each in known(call).items()})
    (cell,) = look(capsys, f"level={level}", "task=recommendation", "scale=mini", "precision=fp32")
    unlike = "the first 2 steps, of 18.89 MFLOP a sample; a run's have 9.446 on average"
    assert any(unlike in note for note in cell.notes) == (times == 2)


SHAPES = {"ij": (3, 4), "jk": (4, 5), "...ij": (2, 3, 4, 5), "...jk": (2, 3, 5, 6), "n...jk": (7, 1, 3, 5, 6)}
EINSUMS = {
    "ij,jk->ik": 2 * 3 * 4 * 5,
    "ij->ji": 0,
    "...ij->...": 0,
    "...ij,...jk->...ik": 2 * 2 * 3 * 4 * 5 * 6,
    "...ij,n...jk->n...ik": 2 * 7 * 2 * 3 * 4 * 5 * 6,
}


@pytest.mark.parametrize("equation", EINSUMS)
def test_an_einsum_is_counted_as_the_products_it_is(equation):
    library = instruments.load("tensorflow")
    given = [tf.ones(SHAPES[each]) for each in equation.partition("->")[0].split(",")]
    assert sum(library.flops(lambda: tf.einsum(equation, *given)).values()) == EINSUMS[equation]
    products = library.called(lambda: tf.einsum(equation, *given), Device("cpu", "fp32"))
    assert sum(problem.flops for problem, _ in products) == EINSUMS[equation]


@pytest.mark.parametrize(
    ("convolve", "shapes", "operations"),
    [
        (
            lambda *given: tf.nn.conv3d(*given, [1] * 5, "VALID"),
            ((1, 6, 6, 6, 2), (3, 3, 3, 2, 4)),
            2 * 4**3 * 4 * 2 * 27,
        ),
        (lambda *given: tf.nn.depthwise_conv2d(*given, [1] * 4, "SAME"), ((1, 8, 8, 6), (3, 3, 6, 1)), GROUPED),
    ],
    ids=["three axes", "grouped"],
)
def test_convolutions_and_their_gradients_are_counted(convolve, shapes, operations):
    given, count = [tf.Variable(tf.ones(shape)) for shape in shapes], instruments.load("tensorflow").flops

    def train() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(convolve(*given))
        tape.gradient(loss, given)

    assert sum(count(lambda: convolve(*given)).values()) == operations
    assert sum(count(train).values()) == 3 * operations


@pytest.mark.parametrize(
    "look",
    [
        lambda library, step: library.flops(step.call),
        lambda library, step: library.called(step.call, Device("cpu", "fp32")),
        lambda library, step: library.watch(lambda: step, Device("cpu", "fp32")).trace(1),
        lambda library, step: library.judged(lambda: step, Device("cpu", "fp32")),
    ],
    ids=["flops", "called", "trace", "judged"],
)
def test_a_cuda_graph_is_refused_where_its_operators_would_be_left_out(look):
    step = Calls(lambda: torch.cuda.CUDAGraph.replay(torch.ones(8, 8) @ torch.ones(8, 8)))
    with pytest.raises(UserError, match="a step replays a CUDA graph of its own, whose operators nothing sees"):
        look(instruments.load("torch"), step)


def test_an_operation_of_tensorflow_without_a_count_is_not_known():
    def sparse() -> None:
        tf.sparse.sparse_dense_matmul(tf.sparse.eye(3), tf.ones((3, 3)))

    assert instruments.load("tensorflow").flops(sparse) == {"SparseTensorDenseMatMul": None}


def test_a_concrete_function_of_tensorflow_is_refused():
    """Its products would be left out beside those of other functions."""
    product = tf.function(tf.matmul).get_concrete_function(*[tf.TensorSpec((2, 2))] * 2)

    def step() -> None:
        product(tf.matmul(tf.ones((2, 2)), tf.ones((2, 2))), tf.ones((2, 2)))

    with pytest.raises(UserError, match=r"a step calls the ConcreteFunction __inference_\w+, which runs as one"):
        instruments.load("tensorflow").flops(step)
