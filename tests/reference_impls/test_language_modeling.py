"""Both frameworks are one recipe: same parameters, same batches, same outputs, same work."""

import importlib

import numpy as np
import pytest

from reference_impls.language_modeling import shared
from reference_impls.language_modeling.shared import Batches, Hyperparameters, dropout_masks
from suite import config
from suite.harness.implementation import Device
from suite.store.task import load_task

TASK = load_task("language_modeling")
FRAMEWORKS = ("torch", "tensorflow")
VOCABULARY = 33_278


@pytest.fixture(scope="module")
def text():
    return TASK.prepare("mini", None)


@pytest.fixture(scope="module")
def shapes():
    """What the tests need of WikiText-2: its vocabulary's size and words of every frequency."""
    random = np.random.default_rng(0)
    words = (VOCABULARY ** random.random(20_000)).astype(np.uint16)
    return {
        "vocabulary": np.array(["<eos>", *map(str, range(1, VOCABULARY))]),
        "train_tokens": words[:15_000],
        "test_tokens": words[15_000:],
        "audit_positions": np.array([17, 4500]),
    }


def build(framework: str, scale: str, data, seed: int = 3, precision: str = "fp32", **changes):
    module = importlib.import_module(f"reference_impls.language_modeling.{framework}")
    hyper = {**config.benchmark("language_modeling", scale).hyperparameters, **changes}
    return module.build(hyper, data, seed, Device("cpu", precision))


def values(predictions):
    return np.concatenate([np.array(row) for row in predictions])


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_torch_weights_give_the_same_log_probabilities_in_tensorflow(scale, text, shapes, monkeypatch):
    monkeypatch.setattr(shared, "DECIMALS", 8)
    data = text if scale == "mini" else shapes
    data = {**data, "test_tokens": data["test_tokens"][:5000], "audit_positions": np.array([17, 4500])}
    torch, tensorflow = build("torch", scale, data), build("tensorflow", scale, data, seed=4)
    torch.train_until(1)
    tensorflow.load_state_dict(torch.state_dict())
    ours, theirs = (values(implementation.predict()) for implementation in (torch, tensorflow))
    assert ours.std() > 0.01
    assert np.abs(ours - theirs).max() < 1e-4


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_word_depends_on_no_later_one(framework, text):
    data = {**text, "test_tokens": text["test_tokens"][:5000], "audit_positions": np.array([17, 4500])}
    changed = {**data, "test_tokens": np.concatenate([data["test_tokens"][:3000], data["test_tokens"][:2000]])}
    first, second = (values(build(framework, "mini", each).predict()[:10])[:5000] for each in (data, changed))
    assert np.array_equal(first[:3000], second[:3000])
    assert not np.array_equal(first[3000:], second[3000:])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_pointer_chooses_among_the_last_words(framework):
    window, width, length = 4, 6, 16
    hyper = Hyperparameters.of(
        config.benchmark("language_modeling", "mini").hyperparameters
        | {"segment_length": window, "width": width, "layers": 1, "global_batch_size": 2 * window}
    )
    random = np.random.default_rng(0)
    p = {"query": (width, width), "sentinel": (1, width), "sentinel_bias": (1,)}
    p = {name: random.standard_normal(shape).astype(np.float32) for name, shape in p.items()}
    x = random.standard_normal((length, 2, width)).astype(np.float32)
    words, targets = random.integers(0, 5, (2, length, 2))

    module = importlib.import_module(f"reference_impls.language_modeling.{framework}_network")
    library = importlib.import_module(framework)
    tensor, dtype = (library.as_tensor if framework == "torch" else library.constant), library.float32
    carry = {name: tensor(value) for name, value in shared.initial_carry(hyper, 2).items()}
    again, left = [], []
    for part in (slice(0, 8), slice(8, 16)):
        here = [tensor(a[part]) for a in (x, words)]
        places, chosen, rest = module.pointer({n: tensor(v) for n, v in p.items()}, *here, carry, hyper, dtype)
        carry = {"outputs": here[0][-window:], "words": here[1][-window:]}
        again.append((np.asarray(chosen) * (np.asarray(places) == targets[part][..., None])).sum(-1))
        left.append(np.asarray(rest))

    for t in range(length):
        for b in range(2):
            seen = range(max(0, t - window + 1), t + 1)
            scores = [x[t, b] @ p["query"].T @ x[place, b] / width for place in seen]
            shares = np.exp([*scores, x[t, b] @ p["sentinel"][0] + p["sentinel_bias"][0]])
            shares /= shares.sum()
            expected = sum(
                share for share, place in zip(shares, seen, strict=False) if words[place, b] == targets[t, b]
            )
            assert np.concatenate(again)[t, b] == pytest.approx(expected, abs=1e-5)
            assert np.concatenate(left)[t, b] == pytest.approx(shares[-1], abs=1e-5)


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_both_start_from_the_same_parameters(scale, text, shapes):
    data = text if scale == "mini" else shapes
    torch, tensorflow = build("torch", scale, data).state_dict(), build("tensorflow", scale, data).state_dict()
    assert torch.keys() == tensorflow.keys()
    assert all(np.array_equal(torch[name], tensorflow[name]) for name in torch)


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_both_take_the_same_steps(scale, text, shapes):
    data = text if scale == "mini" else shapes
    torch, tensorflow = build("torch", scale, data), build("tensorflow", scale, data)
    losses = [each.train_until(4 * torch.hyper.global_batch_size).loss for each in (torch, tensorflow)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-3)
    ours, theirs = torch.state_dict(), tensorflow.state_dict()
    for name in ours:
        largest = np.abs(ours[name]).max(initial=0)
        assert np.allclose(ours[name], theirs[name], rtol=1e-3, atol=1e-5 * largest), name


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_goes_on_from_a_state_as_if_never_stopped(framework, text):
    whole, cut, resumed = (build(framework, "mini", text) for _ in range(3))
    whole.train_until(12_000)
    cut.train_until(5_000)
    resumed.load_state_dict(cut.state_dict())
    resumed.train_until(12_000)
    assert all(np.array_equal(whole.state_dict()[name], resumed.state_dict()[name]) for name in whole.state_dict())


def test_building_does_not_touch_the_training_data(text):
    class Untouchable(np.ndarray):
        def __array_function__(self, function, types, arguments, keywords):
            raise AssertionError(f"{function.__name__} of the training data")

        def __getitem__(self, key):
            raise AssertionError("the training data was read")

    data = {name: a.view(Untouchable) if name.startswith("train_") else a for name, a in text.items()}
    for framework in FRAMEWORKS:
        build(framework, "mini", data)


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_both_do_the_same_floating_point_operations(scale, text, shapes, monkeypatch):
    import tensorflow as tf
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    data = text if scale == "mini" else shapes
    ours, theirs = build("torch", scale, data), build("tensorflow", scale, data)
    batch = next(Batches(data["train_tokens"], ours.hyper, 1).iterate(0))

    def forward(implementation, framework, dtype, tensor):
        module = importlib.import_module(f"reference_impls.language_modeling.{framework}_network")
        p, hyper = implementation.p, implementation.hyper
        carry = {name: tensor(value) for name, value in shared.initial_carry(hyper, hyper.streams).items()}
        words, targets, masks = (tensor(a) for a in (batch.words, batch.targets, batch.masks))
        x, _ = module.network(p, words, carry, masks, hyper, dtype)
        module.log_probabilities(p, x, targets, module.pointer(p, x, words, carry, hyper, dtype), hyper, dtype)

    with FlopCounterMode(display=False) as counter:
        forward(ours, "torch", torch.float32, torch.as_tensor)
    counted = []
    multiply = tf.matmul

    def counting(a, b, **options):
        product = multiply(a, b, **options)
        counted.append(2 * a.shape[-1] * np.prod(product.shape))
        return product

    monkeypatch.setattr(tf, "matmul", counting)
    forward(theirs, "tensorflow", tf.float32, tf.constant)
    assert sum(counted) == counter.get_total_flops() > 0


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_the_learning_rate_rises_and_falls_to_zero(scale):
    hyper = Hyperparameters.of(config.benchmark("language_modeling", scale).hyperparameters)
    steps = hyper.schedule_samples // hyper.global_batch_size
    rates = np.array([hyper.learning_rate(step) for step in range(steps + 1)])
    top = rates.argmax()
    assert 0 < rates[0] < 0.1
    assert rates[top] > 0.99
    assert rates[-1] < 0.01
    assert (np.diff(rates[: top + 1]) > 0).all()
    assert (np.diff(rates[top:]) < 0).all()


def test_every_epoch_reads_the_text_once_and_in_order():
    hyper = Hyperparameters.of(
        config.benchmark("language_modeling", "mini").hyperparameters
        | {"global_batch_size": 40, "segment_length": 10, "width": 4}
    )
    text = np.arange(200)
    batches = Batches(text, hyper, 1).iterate(0)
    first, second = ([next(batches) for _ in range(5)] for _ in range(2))
    for epoch in (first, second):
        assert [batch.fresh for batch in epoch] == [True, False, False, False, False]
        assert all(np.array_equal((batch.words + 1) % 200, batch.targets) for batch in epoch)
        streams = np.concatenate([batch.words for batch in epoch])
        assert streams.shape == (50, 4)
        assert np.array_equal((streams[:-1] + 1) % 200, streams[1:])
        assert np.array_equal(np.sort(streams.flatten()), text)
    assert not np.array_equal(first[0].words, second[0].words)


def test_batches_and_dropout_are_a_function_of_seed_and_step():
    hyper = Hyperparameters.of(config.benchmark("language_modeling", "small").hyperparameters)
    text = np.random.default_rng(0).integers(0, 100, 20_000)

    def batch(seed: int, start: int):
        batches = Batches(text, hyper, seed).iterate(start)
        return [next(batches) for _ in range(12 - start)][-1]

    assert np.array_equal(batch(1, 0).words, batch(1, 7).words)
    assert np.array_equal(batch(1, 0).masks, batch(1, 7).masks)
    assert not np.array_equal(batch(1, 0).words, batch(2, 0).words)
    masks = dropout_masks(hyper, 1, 0)
    assert np.mean(masks == 0) == pytest.approx(hyper.dropout, abs=0.01)
    assert masks.mean() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_fp16_with_loss_scaling_learns(framework, text):
    implementation = build(framework, "mini", text, precision="fp16")
    first = implementation.train_until(1).loss
    assert implementation.train_until(30_000).loss < first - 0.5


@pytest.mark.gpu
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_trains_on_a_gpu(framework, precision, text):
    module = importlib.import_module(f"reference_impls.language_modeling.{framework}")
    benchmark = config.benchmark("language_modeling", "mini")
    implementation = module.build(benchmark.hyperparameters, text, 3, Device("gpu", precision))
    implementation.train_until(benchmark.budget_samples)
    assert TASK.score(implementation.predict(), text)["excess_nats"] < 0.05
