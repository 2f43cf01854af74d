"""Both frameworks are one recipe: same parameters, same batches, same outputs, same work."""

import importlib
from itertools import pairwise

import numpy as np
import pytest

from reference_impls.translation.shared import Batches, Hyperparameters, make_batch, padded, sentences
from suite import config
from suite.harness.implementation import Device
from suite.store.arrays import prepared
from suite.store.task import load_task
from tasks.translation import BEGIN, PAD

FRAMEWORKS = ["torch", "tensorflow"]
TINY = {
    "global_batch_size": 20,
    "d_model": 32,
    "d_ff": 64,
    "heads": 4,
    "warmup_steps": 2,
    "dropout": 0.1,
    "beam_size": 2,
}


@pytest.fixture(scope="module")
def data():
    """The phrases, 1,000 of them to train on and 20 to translate."""
    arrays = prepared(config.benchmark("translation", "mini"), load_task("translation"))
    few = {"train_source": 1000, "train_target": 1000, "test_source": 20}
    cut = {name: np.concatenate(sentences(arrays[name])[:count]) for name, count in few.items()}
    return {"subword_model": arrays["subword_model"], **cut}


@pytest.fixture(scope="module")
def tiny(data):
    """A small model in each framework, built once."""
    return {framework: build(framework, data) for framework in FRAMEWORKS}


@pytest.fixture(scope="module")
def initial(tiny):
    return {framework: implementation.state_dict() for framework, implementation in tiny.items()}


@pytest.fixture(scope="module", params=["mini", "small"])
def pair(request, data):
    """The model of each scale in both frameworks."""
    return [build(framework, data, values(request.param, global_batch_size=20)) for framework in FRAMEWORKS]


def values(scale: str = "mini", **changed):
    return config.benchmark("translation", scale).hyperparameters | changed


def build(framework: str, data, hyper=None, seed: int = 3, precision: str = "fp32"):
    module = importlib.import_module(f"reference_impls.translation.{framework}")
    return module.build(hyper or values(**TINY), data, seed, Device("cpu", precision))


def some_batch(data):
    source, target = (padded(sentences(data[name])[:8]) for name in ("train_source", "train_target"))
    return source, np.concatenate([np.full((8, 1), BEGIN, np.int32), target[:, :-1]], 1)


def test_torch_weights_give_the_same_logits_in_tensorflow(pair, data):
    torch, tensorflow = pair
    torch.train_until(1)
    tensorflow.load_state_dict(torch.state_dict())
    expected = torch.logits(*some_batch(data))
    assert np.abs(expected).max() > 0.1
    assert np.abs(expected - tensorflow.logits(*some_batch(data))).max() < 1e-4


def test_both_do_the_same_floating_point_operations(pair, data):
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    from torch.utils.flop_counter import FlopCounterMode

    torch, tensorflow = pair
    source, inputs = some_batch(data)
    with FlopCounterMode(display=False) as counter:
        torch.logits(source, inputs)
    concrete = tf.function(tensorflow._graph_logits).get_concrete_function(
        *(tf.TensorSpec(array.shape, tf.int32) for array in (source, inputs))
    )
    flops = 0
    for operation in convert_variables_to_constants_v2(concrete).graph.get_operations():
        if operation.type in ("MatMul", "BatchMatMulV2"):
            shared = operation.inputs[0].shape[-1]
            flops += 2 * shared * operation.outputs[0].shape.num_elements()
    assert flops == counter.get_total_flops()


def test_both_start_from_the_same_parameters(initial):
    torch, tensorflow = initial.values()
    assert torch.keys() == tensorflow.keys()
    assert all(np.array_equal(torch[name], tensorflow[name]) for name in torch)


def test_both_take_the_same_steps_with_the_same_dropout(tiny, initial):
    losses, states = [], []
    for framework, implementation in tiny.items():
        implementation.load_state_dict(initial[framework])
        losses.append(implementation.train_until(100).loss)
        states.append(implementation.state_dict())
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    assert max(np.abs(states[0][name] - states[1][name]).max() for name in states[0]) < 1e-3


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_goes_on_from_a_state_as_if_never_stopped(framework, tiny, initial, data):
    whole, resumed = tiny[framework], build(framework, data)
    whole.load_state_dict(initial[framework])
    whole.train_until(900)
    state = whole.state_dict()
    whole.train_until(1200)
    resumed.load_state_dict(state)
    resumed.train_until(1200)
    assert all(np.array_equal(whole.state_dict()[name], resumed.state_dict()[name]) for name in whole.state_dict())


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_padding_changes_nothing(framework, tiny, data):
    source, inputs = some_batch(data)
    longer = np.pad(source, ((0, 0), (0, 6)), constant_values=PAD)
    logits = tiny[framework].logits
    assert np.abs(logits(source, inputs) - logits(longer, inputs)).max() < 1e-5


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_subword_depends_on_no_later_one(framework, tiny, data):
    source, inputs = some_batch(data)
    changed = inputs.copy()
    changed[:, 5:] = 7
    difference = np.abs(tiny[framework].logits(source, inputs) - tiny[framework].logits(source, changed))
    assert difference[:, :5].max() < 1e-5
    assert difference[:, 5:].max() > 1e-2


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_cached_step_gives_the_probabilities_of_the_whole_decoder(framework, tiny, data):
    source, inputs = some_batch(data)
    logits = tiny[framework].logits(source, inputs[:, :3])
    probabilities = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    step = tiny[framework].begin(source)
    swapped = np.arange(16).reshape(8, 2)[:, ::-1].ravel()  # each sentence has two rows, here the same
    for position in range(3):
        scores, subwords = step(np.repeat(inputs[:, position], 2), swapped)
        expected = np.sort(probabilities[:, position])[:, :-4:-1]
        assert np.abs(scores[::2] - expected).max() < 1e-4
        assert np.array_equal(subwords[::2, 0], probabilities[:, position].argmax(-1))


def test_both_translate_alike(tiny, initial):
    torch, tensorflow = tiny.values()
    torch.load_state_dict(initial["torch"])
    torch.train_until(2000)
    tensorflow.load_state_dict(torch.state_dict())
    translations = torch.predict()
    assert len(translations) == 20
    assert len(set(translations)) > 1
    assert translations == tensorflow.predict()


def test_building_does_not_touch_the_training_data(data):
    class Untouchable(np.ndarray):
        def __array_function__(self, function, types, arguments, keywords):
            raise AssertionError(f"{function.__name__} of the training data")

        def __getitem__(self, key):
            raise AssertionError("the training data was read")

    guarded = {name: a.view(Untouchable) if name.startswith("train_") else a for name, a in data.items()}
    for framework in FRAMEWORKS:
        build(framework, guarded)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_learns_in_every_precision(framework, precision, data):
    implementation = build(framework, data, precision=precision)
    first = implementation.train_until(20).loss
    assert implementation.train_until(1000).loss < first - 1


@pytest.mark.gpu
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_trains_on_a_gpu(framework, precision):
    benchmark, task = config.benchmark("translation", "mini"), load_task("translation")
    arrays = prepared(benchmark, task)
    module = importlib.import_module(f"reference_impls.translation.{framework}")
    implementation = module.build(benchmark.hyperparameters, arrays, 3, Device("gpu", precision))
    implementation.train_until(benchmark.budget_samples)
    assert task.score(implementation.predict(), arrays)["bleu"] > benchmark.target


def test_every_epoch_sees_every_pair_once_alike_in_length(data):
    hyper = Hyperparameters.of(values(global_batch_size=50))
    batches = Batches(data["train_source"], data["train_target"], hyper, 1).iterate(0)
    pairs = {
        (tuple(source.tolist()), tuple(target.tolist()))
        for source, target in zip(*(sentences(data[name]) for name in ("train_source", "train_target")), strict=True)
    }
    orders = []
    for _ in range(2):
        epoch = [next(batches) for _ in range(20)]
        rows = [
            (tuple(source[source != PAD].tolist()), tuple(target[target != PAD].tolist()))
            for batch in epoch
            for source, target in zip(batch.source, batch.labels, strict=True)
        ]
        assert set(rows) == pairs
        assert len(rows) == 1000
        assert all(np.array_equal(batch.inputs[:, 1:], batch.labels[:, :-1]) for batch in epoch)
        assert np.mean([(batch.source == PAD).mean() for batch in epoch]) < 0.25
        orders.append(rows)
    assert orders[0] != orders[1]


def test_one_seed_gives_one_order_and_dropout_and_another_seed_another(data):
    hyper = Hyperparameters.of(values())

    def third(seed: int):
        return next(Batches(data["train_source"], data["train_target"], hyper, seed).iterate(2))

    one, again, other = third(1), third(1), third(2)
    assert np.array_equal(one.source, again.source)
    assert all(np.array_equal(a, b) for a, b in zip(one.noise, again.noise, strict=True))
    assert one.source.shape != other.source.shape or not np.array_equal(one.source, other.source)
    assert one.noise[0][:, 0, 0].tolist() != other.noise[0][:, 0, 0].tolist()


def test_the_learning_rate_rises_then_falls_to_zero():
    hyper = Hyperparameters.of(values(warmup_steps=10, epochs=2))
    factors = [hyper.learning_rate(step, 50) for step in range(101)]
    assert factors[0] == pytest.approx(0.1)
    assert max(factors) == factors[9] == factors[10] == 1
    assert all(later < earlier for earlier, later in pairwise(factors[10:]))
    assert factors[100] == 0


def test_noise_is_spread_evenly_over_bytes():
    hyper = Hyperparameters.of(values())
    rows = [np.full(16, 5)] * 100
    noise = make_batch(hyper, rows, rows, [1]).noise[0]
    assert noise.dtype == np.uint8
    assert np.mean(noise < 26) == pytest.approx(26 / 256, abs=1e-3)
