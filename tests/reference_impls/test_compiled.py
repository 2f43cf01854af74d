"""What a GPU compiles is compiled before the clock starts, and its gradients add up where no CUDA graph writes.

Without a GPU: on PyTorch's `meta` device, which has shapes and no values (see tests/bench/device.py).
"""

import sys
from collections import Counter
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from unittest import mock

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.nn.modules.module import register_module_forward_pre_hook  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from reference_impls import torch_shared  # noqa: E402
from suite.harness.contract import evaluation_data, training_data  # noqa: E402
from suite.harness.implementation import Device  # noqa: E402
from suite.probe.instruments import torch_needed  # noqa: E402
from tests.bench.device import Counted, on_meta  # noqa: E402
from tests.reference_impls.cases import BY_ID, build, worker  # noqa: E402

RECORDED = 2  # calls: compiled, recorded as a CUDA graph; the third, which replays that, is as the second
MINIS = [name for name in BY_ID if name.endswith("-mini")]
SHIFTED = "image_classification-small"  # whose evaluation sees images of three channels in other places again
ACCUMULATING = ["image_classification-resnet", "language_modeling-gpt", "translation-transformer"]
GATHERING = ["image_classification-mini", "reinforcement_learning-mini"]  # of several workers, on the clock
QUICK = ACCUMULATING[1:]  # in TensorFlow


def kind(value):
    """What a compiler takes for another value: shapes, layouts, types, and plain values."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.stride(), value.dtype
    if isinstance(value, dict):
        return tuple((name, kind(each)) for name, each in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(kind, value))
    return kind(vars(value)) if hasattr(value, "__dict__") else value


def alike(*given):
    """Which tensors given to a function are one and the same: it is compiled anew where they are not."""
    places = {}
    tensors = [each for each in tree_leaves(given) if isinstance(each, torch.Tensor)]
    return tuple(places.setdefault(id(each), place) for place, each in enumerate(tensors))


class Autocast(torch_needed.Autocast):
    """That of the meta device, which knows how many are in force."""

    entered = 0

    def __enter__(self):
        """Begin."""
        Autocast.entered += 1
        return super().__enter__()

    def __exit__(self, *failed):
        """End."""
        Autocast.entered -= 1
        return super().__exit__(*failed)


def counting(calls: Counter):
    """In the place of `compiled`: counts the calls of a function by their kinds, and compiles nothing."""

    def compiled(function, _):
        def call(*args, **keywords):
            models: list[torch.nn.Module] = []
            around = torch.is_grad_enabled(), Autocast.entered > 0
            with register_module_forward_pre_hook(lambda model, _: models.append(model)):
                result = function(*args, **keywords)
            trained = [(m.training, *(p.requires_grad for p in m.parameters())) for m in models]
            calls[function.__name__, around, kind(trained), kind(args), kind(keywords), alike(args, keywords)] += 1
            return result

        return call

    return compiled


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bf16", pytest.param("fp32", marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    "name", [*MINIS, SHIFTED, *(pytest.param(name, marks=pytest.mark.soak) for name in ACCUMULATING)]
)
def test_nothing_is_compiled_on_the_clock(name, precision):
    case, calls = BY_ID[name], Counter()
    package = f"reference_impls.{case.task}"
    module = import_module(f"{package}.torch")
    data = case.data()
    with ExitStack() as stack:
        stack.enter_context(on_meta(package, Counted()))
        stack.enter_context(mock.patch.object(torch, "autocast", Autocast))
        for each in [each for path, each in sys.modules.items() if path.startswith(f"{package}.")]:
            for replaced, by in (("compiled", counting(calls)), ("warm_ups", lambda _: range(RECORDED))):
                if hasattr(each, replaced):
                    stack.enter_context(mock.patch.object(each, replaced, by))
        hyper = {**case.benchmark.hyperparameters, **case.changes}
        made = module.build(hyper, training_data(data), 1, Device("gpu", precision))
        before = calls.copy()
        samples = made.train_until(1).samples
        made.train_until(4 * samples)
        made.predict(evaluation_data(data))
    assert calls.total() > before.total()
    assert {each[0] for each in calls if before[each] < RECORDED} == set()


def alike_workers(monkeypatch, tf, count):
    """Let one of so many workers of TensorFlow take what it has itself for what the others send."""
    from reference_impls import tensorflow_workers

    monkeypatch.setattr(tensorflow_workers, "_strategy", lambda _: tf.distribute.get_strategy())
    monkeypatch.setattr(tensorflow_workers.Workers, "_gather", lambda _, part, axis: tf.concat([part] * count, axis))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "workers"),
    [
        *((name, 2) for name in GATHERING),
        *(pytest.param(name, 2, marks=pytest.mark.soak) for name in MINIS if name not in GATHERING),
        *(pytest.param(name, 1, marks=pytest.mark.soak) for name in MINIS),
    ],
)
def test_tensorflow_traces_nothing_on_the_clock(name, workers, monkeypatch):
    tf = pytest.importorskip("tensorflow")
    case, made, traced = BY_ID[name], tf.function, []

    def kept(*args, **keywords):
        function = made(*args, **keywords)
        traced.extend([function] if args else [])  # Keras has some made later, of what is a decorator here
        return function

    def traces():
        return Counter({each.python_function: each.experimental_get_tracing_count() for each in traced})

    monkeypatch.setattr(tf, "function", kept)
    alike_workers(monkeypatch, tf, workers)
    data = case.data()
    module = import_module(f"reference_impls.{case.task}.tensorflow")
    hyper = {**case.benchmark.hyperparameters, **case.changes}
    built = module.build(hyper, training_data(data), 1, worker(size=workers))
    before = traces()
    samples = built.train_until(1).samples
    built.train_until(4 * samples)
    built.predict(evaluation_data(data))
    built.state_dict()
    assert before.total()
    assert traces() - before == Counter()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [*QUICK, *(pytest.param(name, marks=pytest.mark.soak) for name in (*ACCUMULATING, *MINIS) if name not in QUICK)],
)
def test_tensorflow_s_variables_have_a_place_on_a_gpu(name):
    """One of a type that GPUs lack is the host's, and what XLA compiles for the GPU cannot use it."""
    tf = pytest.importorskip("tensorflow")
    kernels = import_module("tensorflow.python.framework.kernels").get_registered_kernels_for_op("VarHandleOp").kernel
    types = {
        tf.as_dtype(number)
        for kernel in kernels
        if kernel.device_type in ("GPU", "DEFAULT")
        for constraint in kernel.constraint
        for number in constraint.allowed_values.list.type
    }
    made = []

    def creating(create, **keywords):
        made.append(create(**keywords))
        return made[-1]

    tf.config.run_functions_eagerly(True)  # to trace and compile them takes its time
    try:
        with tf.variable_creator_scope(creating):
            build(BY_ID[name], "tensorflow", "fp16")
    finally:
        tf.config.run_functions_eagerly(False)
    assert {variable.dtype for variable in made} <= types


@pytest.mark.slow
@pytest.mark.parametrize("name", ["detection-mini", "image_classification-small"])
def test_tensorflow_gathers_bytes_where_xla_compiles_it(name, monkeypatch):
    """Of one of several workers, whose step as a whole is not compiled: GPUs have no other kernel that gathers them."""
    tf = pytest.importorskip("tensorflow")
    from reference_impls import tensorflow_shared

    case = BY_ID[name]
    module = import_module(f"reference_impls.{case.task}.tensorflow")
    monkeypatch.setattr(tensorflow_shared, "gpus", list)
    alike_workers(monkeypatch, tf, 2)
    monkeypatch.setattr(tensorflow_shared.TensorFlowTrainer, "warmed_up", lambda made: made)
    hyper = {**case.benchmark.hyperparameters, **case.changes}
    device = Device("gpu", "fp32", addresses=("127.0.0.1:1",) * 2)
    made = module.build(hyper, training_data(case.data()), 1, device)
    made.graph_step = made.graph_step.get_concrete_function
    graph = made.train_step(next(made.feed())).graph.as_graph_def()
    others = [each for each in graph.library.function if not each.attr["_XlaMustCompile"].b]
    nodes = [*graph.node, *(node for function in others for node in function.node_def)]
    gathered = {node.attr["Tparams"].type for node in nodes if node.op == "GatherV2"}
    assert tf.uint8.as_datatype_enum not in gathered


@pytest.mark.parametrize("name", ACCUMULATING)
def test_gradients_add_up_in_tensors_of_their_own(name):
    case = BY_ID[name]
    made = build(case, "torch")

    def places():
        return [parameter.grad.data_ptr() for parameter in made.model.parameters()]

    before = places()
    made.train_until(case.until[0])
    assert places() == before


def test_a_function_is_compiled_for_more_shapes_than_pytorch_s_limit(monkeypatch):
    compiled = []

    def backend(graph, inputs, **_):
        compiled.append(inputs)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    with torch._dynamo.config.patch(recompile_limit=8):
        double = torch_shared.compiled(lambda x: 2 * x, torch.device("cuda"))
        for size in range(1, 13):
            assert np.array_equal(double(torch.ones(size)), np.full(size, 2))
    assert len(compiled) == 12
