"""What is peculiar to translation: padding, causality, order, learning rates, compiled steps."""

from itertools import pairwise

import numpy as np
import pytest

from reference_impls.translation.shared import BUCKETS, POSITIONS, Batches, Hyperparameters, lengths, padded
from suite import config
from suite.errors import UserError
from suite.harness.contract import evaluation_data, training_data
from suite.harness.implementation import Device
from tasks.translation.subwords import END, PAD
from tests.reference_impls.builds import goes_on
from tests.reference_impls.cases import BY_ID, FRAMEWORKS, build
from tests.reference_impls.material import few_phrases, some_sentences


@pytest.fixture(scope="module")
def data():
    return few_phrases()


@pytest.fixture(scope="module")
def tiny():
    """A small model in each framework, built once."""
    return {framework: build(BY_ID["translation-tiny"], framework) for framework in FRAMEWORKS}


def values(scale: str = "mini", **changed):
    return config.benchmark("translation", scale).hyperparameters | changed


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_padding_changes_nothing(framework, tiny):
    source, inputs = some_sentences()
    longer = np.pad(source, ((0, 0), (0, 6)), constant_values=PAD)
    logits = tiny[framework].logits
    assert np.abs(logits(source, inputs) - logits(longer, inputs)).max() < 1e-5


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_subword_depends_on_no_later_one(framework, tiny):
    source, inputs = some_sentences()
    changed = inputs.copy()
    changed[:, 5:] = 7
    difference = np.abs(tiny[framework].logits(source, inputs) - tiny[framework].logits(source, changed))
    assert difference[:, :5].max() < 1e-5
    assert difference[:, 5:].max() > 1e-2


@pytest.mark.slow
def test_both_translate_alike(tiny):
    torch, tensorflow = tiny.values()
    torch.train_until(2000)
    tensorflow.load_state_dict(torch.state_dict())
    evaluation = evaluation_data(few_phrases())
    translations = torch.predict(evaluation)
    assert len(translations) == 20
    assert len(set(translations)) > 1
    assert translations == tensorflow.predict(evaluation)


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_every_epoch_sees_every_pair_once_alike_in_length(data, kind):
    hyper = Hyperparameters.of(values(global_batch_size=50))
    sides = [padded(data[name]) for name in ("train_source", "train_target")]
    batches = Batches(*sides, hyper, 1, kind).iterate(0)
    orders = []
    for _ in range(2):
        epoch = [next(batches) for _ in range(20)]
        orders.append(np.concatenate([batch.rows for batch in epoch]).tolist())
        assert sorted(orders[-1]) == list(range(1000))
        wasted = []
        for batch in epoch:
            for side, length in zip(sides, (batch.source_length, batch.target_length), strict=True):
                assert lengths(side[batch.rows]).max() <= length
                assert kind == "cpu" or length in BUCKETS
                wasted.append((side[batch.rows][:, :length] == PAD).mean())
        assert np.mean(wasted) < (0.25 if kind == "cpu" else 0.4)
    assert orders[0] != orders[1]


def test_one_seed_gives_one_order_and_another_seed_another(data):
    hyper = Hyperparameters.of(values())
    sides = [padded(data[name]) for name in ("train_source", "train_target")]
    one, again, other = (next(Batches(*sides, hyper, seed, "cpu").iterate(2)).rows.tolist() for seed in (1, 1, 2))
    assert one == again != other


def test_padding_follows_the_last_subword(data):
    rows = padded(data["train_source"])
    assert np.array_equal(rows[rows != PAD], data["train_source"])
    assert all(
        row[length - 1] == END and not row[length:].any() for row, length in zip(rows, lengths(rows), strict=True)
    )


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_sentence_of_too_many_subwords_is_told(framework, data, tiny):
    sentence = np.append(np.full(POSITIONS, END + 1, data["test_source"].dtype), END)
    with pytest.raises(UserError, match=f"a sentence has {POSITIONS + 1} subwords; the reference takes {POSITIONS}"):
        tiny[framework].predict({**evaluation_data(data), "test_source": sentence})


def test_the_learning_rate_rises_then_falls_to_zero():
    hyper = Hyperparameters.of(values(warmup_steps=10, epochs=2))
    factors = [hyper.learning_rate(step, 50) for step in range(101)]
    assert factors[0] == pytest.approx(0.1)
    assert max(factors) == factors[9] == factors[10] == 1
    assert all(later < earlier for earlier, later in pairwise(factors[10:]))
    assert factors[100] == 0


def test_attention_is_that_of_the_library():
    import torch

    from reference_impls.translation.shared import MASKED
    from reference_impls.translation.torch_network import attend

    random = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(2, 4, length, 8, generator=random) for length in (5, 7, 7))
    mask = torch.where(torch.randn(2, 1, 1, 7, generator=random) > 0, 0.0, MASKED)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)
    torch.testing.assert_close(attend(q, k, v, mask), expected)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_sentences_come_to_the_device_once(framework, tiny, monkeypatch):
    made, brought = tiny[framework], []
    keep = made.keep
    monkeypatch.setattr(made, "keep", lambda *sentences: brought.append(keep(*sentences)))
    state = made.state_dict()
    for _ in range(2):
        made.load_state_dict(state)
        made.train_until(1)
    made.load_state_dict(state)
    assert len(brought) <= 1


@pytest.mark.parametrize("name", ["translation-tiny", "translation-transformer"])
def test_attention_of_a_gpu_has_masks_that_every_kernel_takes_and_is_not_cudnns(name, monkeypatch):
    """A mask of one axis ends cuDNN's and Intel's with an IndexError, as it does the CPU's here."""
    import torch

    from reference_impls.translation import torch as reference
    from tests.bench.device import Counted, on_meta

    case, whole, by_cudnn = BY_ID[name], torch.nn.functional.scaled_dot_product_attention, []

    def attention(q, k, v, mask, dropout):
        whole(*(torch.zeros(each.shape) for each in (q, k, v, mask)))
        by_cudnn.append(torch.backends.cuda.cudnn_sdp_enabled())
        return whole(q, k, v, mask, dropout)

    torch.backends.cuda.enable_cudnn_sdp(True)  # as PyTorch begins, whatever was built before
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attention)
    data = case.data()
    with on_meta("reference_impls.translation", Counted()):
        hyper = {**case.benchmark.hyperparameters, **case.changes}
        reference.build(hyper, training_data(data), 1, Device("gpu", "fp32"))
    assert by_cudnn
    assert not any(by_cudnn)


@pytest.mark.slow
def test_torch_compiles_the_loss_and_a_step_of_the_search_whole(tiny):
    """As a GPU takes them; traced here, with the CPU's kernels."""
    import torch

    made = tiny["torch"]
    traced = {"backend": "aot_eager", "fullgraph": True, "dynamic": False}
    source, target = torch.full((4, 8), 5, dtype=torch.int32), torch.full((4, 9), 6, dtype=torch.int32)
    made.model.eval()
    expected = made.loss(source, target)
    loss = torch.compile(made._loss, **traced)(source, target)
    torch.testing.assert_close(loss, expected)
    loss.backward()
    ours, theirs = made.begin(source).beams, made.begin(source).beams
    compiled = torch.compile(made._search_step, **traced)
    for _ in range(3):
        compiled(ours, 16)
        made._search_step(theirs, 16)
    for one, other in zip(ours.tensors(), theirs.tensors(), strict=True):
        torch.testing.assert_close(one, other)
    made.adam.zero_grad()
    made.muon.zero_grad()


@pytest.mark.soak
def test_tensorflow_compiles_the_step_by_xla(tiny):
    """As a GPU takes it: the loss of the compiled step is that of the step as it is."""
    import tensorflow as tf

    made, size = tiny["tensorflow"], 20
    state = made.state_dict()
    arrays = [tf.constant(np.random.default_rng(1).integers(4, 100, (size, length), np.int32)) for length in (8, 9)]
    numbers = tf.constant(1, tf.int64), tf.constant(1.0)
    losses = []
    for compiled in (True, False):
        made.load_state_dict(state)
        update = tf.function(made._update, jit_compile=compiled)
        losses.append([float(update(*arrays, *numbers)) for _ in range(3)])
    made.load_state_dict(state)
    assert losses[0] == pytest.approx(losses[1], rel=0.02)  # dropout is drawn otherwise


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_dropout_goes_on_from_a_state_as_if_never_stopped(framework):
    goes_on(build(BY_ID["translation-tiny"], framework, dropout=0.3), 60, 120)
