"""The GPT: what its steps read, gradients that are accumulated, and the model at its full size."""

import importlib
import math

import numpy as np
import pytest
import torch

from reference_impls.language_modeling import gpt
from reference_impls.language_modeling.gpt import Hyperparameters, Sequences, initial_parameters
from suite import config
from suite.errors import UserError
from suite.harness.implementation import Device
from tests.reference_impls import flops
from tests.reference_impls.cases import CASES, build, worker
from tests.reference_impls.material import two_shards

FRAMEWORKS = ["torch", pytest.param("tensorflow", marks=pytest.mark.slow)]  # which takes seconds to trace
FULL = config.benchmark("language_modeling", "full")
CASE = next(case for case in CASES if case.id == "language_modeling-gpt")
VALUES = {**CASE.benchmark.hyperparameters, **CASE.changes}
HYPER = Hyperparameters.of(VALUES)


def batches(seed: int, device: Device, steps: range) -> np.ndarray:
    sequences = Sequences(two_shards(), HYPER, seed, device)
    return np.stack([sequences.batch(step) for step in steps])


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", ["language_modeling-gpt", "translation-transformer"])
def test_in_fp16_the_gradients_of_words_that_are_seldom_meant_are_no_zeros(name, framework):
    """Each is the word's probability, of the loss's scale, divided by the words of a step."""
    scale = build(next(case for case in CASES if case.id == name), framework, "fp16").state_dict()["scale"]
    words = FULL.hyperparameters["global_batch_size"]
    logits = torch.zeros(8, 50304, dtype=torch.float16, requires_grad=True)
    loss = torch.nn.functional.cross_entropy(logits.float(), torch.zeros(8, dtype=torch.long), reduction="sum") / words
    (loss * float(scale)).backward()
    assert float(logits.grad[0, 1]) == pytest.approx(scale / words / 50304, rel=0.05)


def test_an_epoch_reads_each_sequence_of_each_shard_once():
    data, length = two_shards(), HYPER.sequence_length
    steps = Sequences(data, HYPER, 1, worker()).steps_per_epoch
    read = batches(1, worker(), range(steps)).reshape(-1, length + 1)
    there = [
        tuple(shard[i * length : (i + 1) * length + 1])
        for shard in (data["train_tokens_0000"], data["train_tokens_0001"])
        for i in range((len(shard) - 1) // length)
    ]
    assert len(there) - len(read) < HYPER.sequences
    assert len({tuple(row) for row in read}) == len(read)
    assert {tuple(row) for row in read} <= set(there)


def test_the_order_hangs_on_seed_and_epoch_alone():
    steps = Sequences(two_shards(), HYPER, 1, worker()).steps_per_epoch
    whole = batches(1, worker(), range(2 * steps))
    assert np.array_equal(batches(1, worker(), range(steps + 3, 2 * steps)), whole[steps + 3 :])  # begun in an epoch
    assert not np.array_equal(whole[:steps], whole[steps:])
    assert not np.array_equal(batches(2, worker(), range(steps)), whole[:steps])


@pytest.mark.parametrize("size", [2, 3])
def test_the_workers_share_the_batch_of_one(size):
    shares = [Sequences(two_shards(), HYPER, 1, worker(rank, size)).batch(4) for rank in range(size)]
    assert np.array_equal(np.concatenate(shares), Sequences(two_shards(), HYPER, 1, worker()).batch(4))


def test_a_batch_of_a_part_of_a_sequence_is_one_line():
    with pytest.raises(UserError, match="global_batch_size=512 is no multiple of sequence_length=48, the tokens that"):
        Hyperparameters.of({**VALUES, "sequence_length": 48})


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_vocabulary_smaller_than_the_data_s_is_one_line(framework):
    with pytest.raises(UserError, match="vocabulary_size=4095 is less than the 4096 tokens of the data's vocabulary"):
        build(CASE, framework, vocabulary_size=4095)


@pytest.mark.parametrize(("most", "together"), [(4, 4), (7, 6)])  # four passes alike, or two and a smaller one
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_gradients_are_accumulated_where_a_batch_does_not_fit(framework, most, together, monkeypatch):
    whole = build(CASE, framework)
    monkeypatch.setattr(gpt, "TOKENS_ON_CPU", most * HYPER.sequence_length)
    parts = build(CASE, framework)
    assert (whole.at_once, parts.at_once) == (16, together)
    assert parts.train_until(1024).loss == pytest.approx(whole.train_until(1024).loss, abs=1e-5)
    ours, theirs = whole.state_dict(), parts.state_dict()
    for name, array in ours.items():
        assert np.abs(array - theirs[name]).max() < 1e-3, name


@pytest.mark.parametrize(
    ("memory_gb", "share", "together"),
    [(None, 512, 8), (16, 512, 8), (24, 512, 12), (24, 60, 12), (40, 64, 16), (80, 64, 32), (40, 103, 18)],
)
def test_an_accelerator_s_memory_says_how_many_sequences_go_through_together(memory_gb, share, together):
    hyper = Hyperparameters.of(FULL.hyperparameters)
    assert gpt.at_once(share, hyper, Device("gpu", "bf16", memory_gb=memory_gb)) == together


@pytest.mark.parametrize(
    ("framework", "length"), [("torch", 32), pytest.param("tensorflow", 32, marks=pytest.mark.slow), ("torch", 96)]
)
def test_the_predictions_of_workers_follow_one_another(framework, length):
    """Also of a length of which a list of predictions is no multiple, nor the other way round."""
    module = importlib.import_module(f"reference_impls.language_modeling.{framework}_gpt")
    made = build(CASE, framework, sequence_length=length, global_batch_size=16 * length)
    made.train_until(512)
    data = {"test_tokens": two_shards()["test_tokens"]}
    whole = made.predict(data)
    shared = []
    for rank in range(3):
        made.worker, made.test = worker(rank, 3), module.EvaluationCache(made.made_test)
        shared += made.predict(data)
    assert [len(row) for row in shared] == [len(row) for row in whole]
    assert max(abs(a - b) for x, y in zip(shared, whole, strict=True) for a, b in zip(x, y, strict=True)) < 1e-3


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_audit_makes_logits_of_its_places_alone(framework, monkeypatch):
    made = build(CASE, framework)
    made.train_until(512)
    _, _, (words, places) = made.test.of({"test_tokens": two_shards()["test_tokens"]})
    linear, shapes = type(made.model.head), []
    call = linear.__call__

    def told(*given):
        made = call(*given)
        shapes.append(tuple(made.shape))
        return made

    with torch.no_grad():
        expected = np.asarray(made.log_probabilities(words))[np.arange(len(words)), np.asarray(places)]
        monkeypatch.setattr(linear, "__call__", told)
        found = np.asarray(made.distributions(words, places))
    assert np.abs(found - expected).max() < 1e-5
    assert shapes[-1] == (len(words), HYPER.vocabulary_size)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_audit_is_tried_before_the_clock_starts(framework, monkeypatch):
    module, asked = importlib.import_module(f"reference_impls.language_modeling.{framework}_gpt"), []
    kind = getattr(module, {"torch": "TorchGPT", "tensorflow": "TensorFlowGPT"}[framework])
    whole = kind.distributions

    def distributions(made, *given):
        asked.append([(tuple(each.shape), each.dtype, torch.is_grad_enabled()) for each in given])
        return whole(made, *given)

    monkeypatch.setattr(kind, "distributions", distributions)
    made = build(CASE, framework)
    assert asked
    made.predict({"test_tokens": two_shards()["test_tokens"]})
    assert asked[-1] == asked[0]


def test_attention_is_not_cudnns(monkeypatch):
    whole, by_cudnn = torch.nn.functional.scaled_dot_product_attention, []

    def attention(*given, **named):
        by_cudnn.append(torch.backends.cuda.cudnn_sdp_enabled())
        return whole(*given, **named)

    torch.backends.cuda.enable_cudnn_sdp(True)  # as PyTorch begins, whatever was built before
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attention)
    build(CASE, "torch")
    assert by_cudnn
    assert not any(by_cudnn)


def test_the_learning_rate_stays_and_then_falls_to_zero():
    hyper = Hyperparameters.of(FULL.hyperparameters)
    rates = [hyper.learning_rate(step) for step in (0, 3270, 3924, 4578)]
    assert rates == pytest.approx([1, 1, 0.5, 0], abs=1e-6)  # 4,578 steps, of which the last 1,308 fall


def test_it_has_the_parameters_of_the_published_model():
    shapes = {
        name: array.shape for name, array in initial_parameters(Hyperparameters.of(FULL.hyperparameters), 1).items()
    }
    counts = {name: math.prod(shape) for name, shape in shapes.items()}
    assert sum(counts.values()) == 2 * 50_304 * 768 + 12 * 12 * 768**2 == 162_201_600 == FULL.parameters
    assert sum(counts.values()) - counts["embedding.weight"] == 123_568_128  # in products: GPT-2's 124 million


def operations(hyper: Hyperparameters) -> int:
    """Of a step: 6 for each weight and token; of attention 2 products forward and 5 backward; of Muon's iterations.

    An iteration for [r, c] takes two products r x r x c and one r x r x r.
    """
    width, deep = hyper.width, hyper.layers
    a_token = 6 * (12 * deep * width**2 + width * hyper.vocabulary_size) + 14 * deep * hyper.sequence_length * width
    square, wide = (2 * 2 * width**2 * long + 2 * width**3 for long in (width, 4 * width))
    return hyper.global_batch_size * a_token + hyper.muon_steps * deep * (4 * square + 2 * wide)


@pytest.mark.parametrize("benchmark", [CASE.benchmark, FULL], ids=["pilot", "full"])
def test_declared_operations_are_those_of_the_model(benchmark):
    hyper = Hyperparameters.of(benchmark.hyperparameters)
    assert operations(hyper) == benchmark.train_flops_per_sample * hyper.global_batch_size


def test_operations_are_those_counted():
    made = build(CASE, "torch")
    made.train_until(1)
    assert flops.torch(lambda: made.train_until(1)) == operations(HYPER)


@pytest.mark.soak
@pytest.mark.parametrize(("framework", "name"), [("torch", "TorchGPT"), ("tensorflow", "TensorFlowGPT")])
def test_at_full_size_the_loss_begins_at_the_logarithm_of_the_vocabulary(framework, name):
    """One step of one sequence, and one of Muon's iterations, for time."""
    changes = {"global_batch_size": 128, "sequence_length": 128, "muon_steps": 1}
    hyper = Hyperparameters.of({**FULL.hyperparameters, **changes})
    tokens = np.random.default_rng(0).integers(0, 50_257, 129 * 8).astype(np.uint16)
    data = {"vocabulary": np.arange(50_257, dtype=np.uint16), "train_tokens_0000": tokens}
    module = importlib.import_module(f"reference_impls.language_modeling.{framework}_gpt")
    made = getattr(module, name)(hyper, data, 1, worker())
    assert made.train_until(1).loss == pytest.approx(math.log(50_304), rel=1e-5)
