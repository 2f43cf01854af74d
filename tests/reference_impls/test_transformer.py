"""The Transformer as it is published: the order of its pairs, parts that are accumulated, the model at full size."""

import importlib
import math

import numpy as np
import pytest

from reference_impls.translation.shared import vocabulary
from reference_impls.translation.transformer import Hyperparameters, Pairs, Part, initial_parameters
from suite import config
from suite.errors import UserError
from suite.harness.implementation import Device
from tasks.translation.shards import TEXTS
from tasks.translation.subwords import BEGIN, END, PAD
from tests.reference_impls import flops
from tests.reference_impls.builds import goes_on
from tests.reference_impls.cases import BY_ID, FRAMEWORKS, build, worker
from tests.reference_impls.material import few_pairs

FULL = config.benchmark("translation", "full")
CASE = BY_ID["translation-transformer"]
VALUES = {**CASE.benchmark.hyperparameters, **CASE.changes}
HYPER = Hyperparameters.of(VALUES)


def steps(seed: int, first: int, count: int, device: Device | None = None) -> list[list[Part]]:
    each = Pairs(few_pairs(), HYPER, seed, device or worker()).iterate(first)
    return [next(each) for _ in range(count)]


def pairs(parts: list[Part]) -> list[tuple[int, ...]]:
    """Sources and targets without what they are filled up with."""
    rows = [row for part in parts for row in np.concatenate([part.source, part.target[:, 1:]], 1)]
    return [tuple(row[row != PAD].tolist()) for row in rows]


def same(ours: list[list[Part]], theirs: list[list[Part]]) -> bool:
    return [pairs(parts) for parts in ours] == [pairs(parts) for parts in theirs]


def test_an_epoch_reads_each_pair_of_each_shard_once():
    length = Pairs(few_pairs(), HYPER, 1, worker()).steps_per_epoch
    read = [pair for parts in steps(1, 0, length) for pair in pairs(parts)]
    there = []
    for shard in (few_pairs()["train_pairs_0000"], few_pairs()["train_pairs_0001"]):
        rows = np.split(shard, np.flatnonzero(shard == END) + 1)[:-1]
        there += [(*a.tolist(), *b.tolist()) for a, b in zip(rows[::2], rows[1::2], strict=True)]
    longest = [max(i, len(pair) - i) for pair in there for i in [pair.index(END) + 1]]
    fitting = {pair for pair, length in zip(there, longest, strict=True) if length <= HYPER.max_sequence_length}
    assert len(there) == 600
    assert len(set(read)) == len(read)
    assert set(read) <= fitting < set(there)
    assert len(fitting) - len(read) < 100


def test_pairs_of_a_part_are_alike_in_length():
    wasted = []
    for part in (part for parts in steps(1, 0, 10) for part in parts):
        rows, length = part.source.shape
        assert part.target.shape == (rows, length + 1)
        assert rows * length <= HYPER.part_size < (rows + 1) * length
        assert (part.target[:, 0] == BEGIN).all()
        for row in (*part.source, *part.target[:, 1:]):
            assert row[np.flatnonzero(row)[-1]] == END
            assert (row == END).sum() == 1
        longest = np.maximum((part.source != PAD).sum(1), (part.target[:, 1:] != PAD).sum(1))
        assert length in HYPER.lengths
        assert longest.max() <= length
        assert length == HYPER.lengths[0] or longest.min() > length - 8
        wasted.append(1 - (part.source != PAD).mean())
    assert len({part.source.shape for parts in steps(1, 0, 10) for part in parts}) > 1
    assert np.mean(wasted) < 0.4


def test_the_order_hangs_on_seed_and_epoch_alone():
    length = Pairs(few_pairs(), HYPER, 1, worker()).steps_per_epoch
    whole = steps(1, 0, 2 * length)
    assert same(steps(1, length + 2, length - 2), whole[length + 2 :])  # begun in the middle of an epoch
    assert same(steps(1, length - 1, 3), whole[length - 1 : length + 2])  # and over its end
    assert not same(whole[:length], whole[length:])
    assert not same(steps(2, 0, length), whole[:length])


@pytest.mark.parametrize("size", [2, 3])
def test_the_workers_share_the_parts_of_one(size):
    (whole,) = steps(1, 3, 1)
    shares = [steps(1, 3, 1, worker(rank, size))[0] for rank in range(size)]
    assert [pair for parts in shares for pair in pairs(parts)] == pairs(whole)
    subwords = sum(int((part.target[:, 1:] != PAD).sum()) for part in whole)
    assert {part.subwords for parts in [whole, *shares] for part in parts} == {subwords}


def test_a_shard_that_holds_no_pairs_is_named():
    odd = {"train_pairs_0000": few_pairs()["train_pairs_0000"], "train_pairs_0001": np.array([7, END, 0], np.uint16)}
    with pytest.raises(UserError, match="train_pairs_0001 holds 1 sentences, an odd number"):
        Pairs(odd, HYPER, 1, worker())


def test_the_learning_rate_rises_and_then_falls_with_the_inverse_square_root():
    hyper = Hyperparameters.of(FULL.hyperparameters)
    rates = [hyper.rate(step) for step in (0, 374, 749, 2999)]
    assert rates == pytest.approx([0.0019 / 750, 0.00095, 0.0019, 0.00095])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"part_size": 100}, "global_batch_size=512 is no multiple of part_size=100"),
        ({"max_sequence_length": 20}, "max_sequence_length=20 is no multiple of 8 from 16 to part_size=128"),
        ({"max_sequence_length": 136}, "max_sequence_length=136 is no multiple of 8 from 16 to part_size=128"),
        ({"model": "transformed"}, "transformer"),
    ],
)
def test_a_recipe_that_cannot_be_is_one_line(changes, problem):
    with pytest.raises(UserError, match=problem):
        Hyperparameters.of({**VALUES, **changes})


@pytest.mark.soak
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_gradients_of_parts_add_up_to_those_of_the_batch(framework):
    """One step of four parts, and of one that has all of their pairs."""
    made, (parts,) = build(CASE, framework), steps(1, 0, 1)
    longest = max(part.source.shape[1] for part in parts)

    def filled_up(rows: np.ndarray) -> np.ndarray:
        return np.pad(rows, ((0, 0), (0, longest - rows.shape[1])))

    source = np.concatenate([filled_up(part.source) for part in parts])
    target = np.concatenate([np.pad(part.target, ((0, 0), (0, longest + 1 - part.target.shape[1]))) for part in parts])
    initial, found = made.state_dict(), []
    for each in (parts, [Part(source, target, parts[0].subwords, 0)]):
        made.load_state_dict(initial)
        loss = float(made.train_step(each))
        found.append((loss, made.state_dict()))
    (ours, our_state), (theirs, their_state) = found
    assert ours == pytest.approx(theirs, abs=1e-5)
    for name in (name for name in our_state if name.startswith("exp_avg/")):
        assert np.abs(our_state[name]).max() > 0, name
        assert np.abs(our_state[name] - their_state[name]).max() < 1e-6, name


def test_it_has_the_parameters_of_the_published_model():
    hyper = Hyperparameters.of(FULL.hyperparameters)
    width, inner, deep = 1024, 4096, 6
    feed_forward = 2 * width * inner + inner + width
    encoder = 4 * width**2 + feed_forward + 2 * 2 * width
    decoder = 8 * width**2 + feed_forward + 3 * 2 * width
    layers = deep * (encoder + decoder) + 2 * 2 * width
    made = initial_parameters(hyper, 8, 1)
    assert sum(array.size for array in made.values()) == layers + 8 * width
    assert layers + 33_945 * width == 211_047_424  # with the vocabulary of MLPerf's reference
    assert layers + TEXTS["full"].subwords * width == 211_054_592 == FULL.parameters  # and with ours
    assert layers + 37_000 * width == pytest.approx(213e6, rel=0.01)  # and of some 37,000, as published


def operations(hyper: Hyperparameters, subwords: int, shapes: list[tuple[int, int]]) -> int:
    """Of parts [n, L]: 6 for each weight of a product and place; of attention 2 products forward and 4 backward."""
    d, f = hyper.d_model, hyper.d_ff
    weights = hyper.encoder_layers * (4 * d**2 + 2 * d * f) + hyper.decoder_layers * (8 * d**2 + 2 * d * f)
    attentions = hyper.encoder_layers + 2 * hyper.decoder_layers
    return sum(n * length * (6 * (weights + subwords * d) + 12 * attentions * length * d) for n, length in shapes)


def test_operations_are_those_counted():
    made, (parts,) = build(CASE, "torch"), steps(3, 0, 1)
    counted = flops.torch(lambda: made.train_until(1))
    assert counted == operations(HYPER, vocabulary(few_pairs()), [part.source.shape for part in parts])


def test_declared_operations_are_those_of_the_model():
    """At full size of pairs of 40 subwords."""
    hyper = Hyperparameters.of(FULL.hyperparameters)
    assert operations(hyper, TEXTS["full"].subwords, [(1, 40)]) == 40 * FULL.train_flops_per_sample


@pytest.mark.soak
@pytest.mark.parametrize(
    ("framework", "name"), [("torch", "TorchTransformer"), ("tensorflow", "TensorFlowTransformer")]
)
def test_at_full_size_the_loss_begins_at_the_logarithm_of_the_vocabulary(framework, name):
    """One step of two pairs of 16 subwords; the vocabulary is as large as full's, of made-up subwords."""
    changes = {"global_batch_size": 32, "part_size": 32, "max_sequence_length": 16, "dropout": 0.0}
    hyper = Hyperparameters.of({**FULL.hyperparameters, **changes})
    drawn = np.random.default_rng(0).integers(4, TEXTS["full"].subwords, (40, 16)).astype(np.uint16)
    drawn[:, -1] = END
    module = importlib.import_module(f"reference_impls.translation.{framework}_transformer")
    translating = importlib.import_module(f"reference_impls.translation.{framework}_translating")
    with pytest.MonkeyPatch.context() as patch:
        for each in (module, translating):
            patch.setattr(each, "vocabulary", lambda data: TEXTS["full"].subwords)
        made = getattr(module, name)(hyper, {"train_pairs_0000": drawn.reshape(-1)}, 1, worker())
    assert made.train_until(1).loss == pytest.approx(math.log(TEXTS["full"].subwords), rel=0.05)
    if framework == "torch":
        assert sum(parameter.numel() for parameter in made.model.parameters()) == 211_054_592
    else:
        assert sum(math.prod(variable.shape) for variable in made.model.trainable_variables) == 211_054_592


@pytest.mark.parametrize("framework", ["torch", pytest.param("tensorflow", marks=pytest.mark.soak)])
def test_dropout_goes_on_from_a_state_as_if_never_stopped(framework):
    goes_on(build(CASE, framework, dropout=0.3), 1000, 2000)


@pytest.mark.slow
def test_a_torch_step_is_traced_whole():
    torch = pytest.importorskip("torch")
    made, (parts,) = build(CASE, "torch"), steps(1, 0, 1)
    source, target = torch.from_numpy(parts[0].source), torch.from_numpy(parts[0].target)
    traced = torch.compile(made._loss, backend="aot_eager", fullgraph=True, dynamic=False)
    torch.testing.assert_close(traced(source, target), made._loss(source, target))


@pytest.mark.soak
def test_a_tensorflow_step_can_be_compiled():
    tf = pytest.importorskip("tensorflow")
    made, (parts,) = build(CASE, "tensorflow"), steps(1, 0, 1)
    initial, losses = made.state_dict(), []
    for compiled in (False, True):
        made.load_state_dict(initial)
        made.add = tf.function(made._add, jit_compile=compiled)
        losses.append([float(made.train_step(parts[:1])) for _ in range(2)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
