"""Both frameworks are one recipe: same parameters, same batches, same outputs, same work."""

import importlib
import itertools
from dataclasses import replace

import numpy as np
import pytest

from reference_impls.speech.shared import (
    Batches,
    Hyperparameters,
    Recordings,
    decode,
    evaluation_batches,
    output_frames,
    warmup_batches,
)
from suite import config
from suite.harness.implementation import Device
from suite.store.arrays import prepared
from suite.store.task import load_task

TASK = load_task("speech")
FRAMEWORKS = ("torch", "tensorflow")
DRAWN = np.random.default_rng(0)
FRAMES = DRAWN.integers(80, 300, 64, np.int32)
SMALL_SHAPES = {  # what the tests need of AN4: its shapes
    "train_features": DRAWN.integers(0, 256, (FRAMES.sum(), 64), np.uint8),
    "train_frames": FRAMES,
    "train_labels": DRAWN.integers(1, 100, 64 * 4, np.uint8),
    "train_lengths": np.full(64, 4, np.int32),
    "test_features": DRAWN.integers(0, 256, (200, 64), np.uint8),
    "test_frames": np.int32([120, 80]),
    "units": TASK.lines_array([f"WORD{i}" for i in range(99)]),
}


def build(framework: str, scale: str, data, seed: int = 3, precision: str = "fp32"):
    module = importlib.import_module(f"reference_impls.speech.{framework}")
    hyper = config.benchmark("speech", scale).hyperparameters
    return module.build(hyper, data, seed, Device("cpu", precision))


def recipe(**changes) -> Hyperparameters:
    return Hyperparameters.of(config.benchmark("speech", "mini").hyperparameters | changes)


PLAIN = {"speed": 0.0, "frequency_warp": 0.0, "frequency_masks": 0, "time_masks_per_second": 0.0, "dropout": 0.0}


@pytest.fixture(scope="module")
def mini():
    data = prepared(config.benchmark("speech", "mini"), TASK)
    return {name: array for name, array in data.items() if not name.startswith("answer_")}


@pytest.fixture(scope="module", params=["mini", "small"])
def pair(request, mini):
    """Both implementations of a scale, and the states that they started from."""
    data = mini if request.param == "mini" else SMALL_SHAPES
    both = [build(framework, request.param, data) for framework in FRAMEWORKS]
    return both, [implementation.state_dict() for implementation in both]


def test_both_start_from_the_same_parameters(pair):
    torch, tensorflow = pair[1]
    assert torch.keys() == tensorflow.keys()
    assert all(np.array_equal(torch[name], tensorflow[name]) for name in torch)


def test_torch_weights_give_the_same_logits_in_tensorflow(pair):
    torch, tensorflow = pair[0]
    torch.train_until(2 * torch.hyper.global_batch_size)
    tensorflow.load_state_dict(torch.state_dict())
    recordings = Recordings(torch.data["test_features"], torch.data["test_frames"])
    chosen, features, frames = next(evaluation_batches(recordings, 8))
    expected = torch.logits(features, frames)
    assert expected.shape == (len(chosen), features.shape[1] // 8, len(torch.units) + 1)
    assert np.abs(expected).max() > 0.1
    assert np.abs(expected - tensorflow.logits(features, frames)).max() < 1e-4
    assert torch.predict() == tensorflow.predict()


def test_both_take_the_same_steps(mini):
    torch, tensorflow = build("torch", "mini", mini), build("tensorflow", "mini", mini)
    for samples in (20, 40, 60):
        assert torch.train_until(samples).loss == pytest.approx(tensorflow.train_until(samples).loss, rel=1e-4)
    ours, theirs = torch.state_dict(), tensorflow.state_dict()
    assert max(np.abs(ours[name] - theirs[name]).max() for name in ours) < 1e-3


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_goes_on_from_a_state_as_if_never_stopped(framework, precision, mini):
    whole, cut, resumed = (build(framework, "mini", mini, precision=precision) for _ in range(3))
    whole.train_until(80)
    cut.train_until(40)
    resumed.load_state_dict(cut.state_dict())
    resumed.train_until(80)
    assert whole.step == resumed.step == 4
    assert all(np.array_equal(whole.state_dict()[name], resumed.state_dict()[name]) for name in whole.state_dict())


def test_building_does_not_touch_the_training_data(mini):
    class Untouchable(np.ndarray):
        def __array_function__(self, function, types, arguments, keywords):
            raise AssertionError(f"{function.__name__} of the training data")

        def __getitem__(self, key):
            raise AssertionError("the training data was read")

    data = {name: a.view(Untouchable) if name.startswith("train_") else a for name, a in mini.items()}
    for framework in FRAMEWORKS:
        build(framework, "mini", data)


def test_both_do_the_same_floating_point_operations(pair, monkeypatch):
    import tensorflow as tf
    from torch.utils.flop_counter import FlopCounterMode

    ours, theirs = pair[0]
    features, frames = np.zeros((4, 128, 64), np.float32), np.full(4, 16, np.int32)
    with FlopCounterMode(display=False) as counter:
        ours.logits(features, frames)
    flops = []

    def counted(operation):
        def call(x, weights, *arguments):
            result = operation(x, weights, *arguments)
            flops.append(2 * int(tf.size(result)) * weights.shape.num_elements() // weights.shape[-1])
            return result

        return call

    monkeypatch.setattr(tf, "matmul", counted(tf.matmul))
    monkeypatch.setattr(tf.nn, "conv2d", counted(tf.nn.conv2d))
    theirs._graph_logits(tf.constant(features), tf.constant(frames))
    assert sum(flops) == counter.get_total_flops()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_logits_do_not_depend_on_the_rest_of_the_batch(framework, mini):
    implementation = build(framework, "mini", mini)
    implementation.train_until(40)
    recordings = Recordings(mini["test_features"], mini["test_frames"])
    short, long = np.argmin(recordings.frames), np.argmax(recordings.frames)
    features, frames = recordings.padded(np.array([short]))
    alone = implementation.logits(features, output_frames(frames))[0]
    features, frames = recordings.padded(np.array([long, short]))
    together = implementation.logits(features, output_frames(frames))[1]
    inside = output_frames(frames)[1]
    assert together.shape[0] > alone.shape[0]
    assert np.abs(together[:inside] - alone[:inside]).max() < 1e-4


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_loss_is_that_of_all_alignments(framework, mini):
    """CTC by its definition: the sum over all paths of labels that collapse to the transcript."""
    implementation = build(framework, "mini", mini)
    features = np.random.default_rng(0).normal(size=(2, 64, 64)).astype(np.float32)
    frames = np.int32([4, 3])
    batch = next(warmup_batches(recipe(global_batch_size=2), 64))
    labels, lengths = np.int32([[2, 2], [7, 0]]), np.int32([2, 1])
    batch = replace(batch, features=features, frames=frames, labels=labels, lengths=lengths)
    logits = implementation.logits(features, frames).astype(np.float64)
    probabilities = np.exp(logits) / np.exp(logits).sum(2, keepdims=True)
    likelihood = [0.0, 0.0]
    for i, transcript in enumerate(([2, 2], [7])):
        for path in itertools.product((0, *set(transcript)), repeat=int(frames[i])):
            if [label for label, _ in itertools.groupby(path) if label] == transcript:
                likelihood[i] += np.prod([probabilities[i, t, label] for t, label in enumerate(path)])
    assert float(implementation.train_step(batch)) == pytest.approx(-np.mean(np.log(likelihood)), rel=1e-4)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_transcript_that_does_not_fit_its_recording_does_no_harm(framework, mini):
    implementation = build(framework, "mini", mini)
    batch = next(warmup_batches(recipe(global_batch_size=2), 64))
    batch = replace(batch, frames=np.int32([1, 16]), epoch=0.5)
    assert 0 < float(implementation.train_step(batch)) < np.inf
    assert all(np.isfinite(value).all() for value in implementation.state_dict().values())


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_fp16_with_loss_scaling_learns(framework, mini):
    implementation = build(framework, "mini", mini, precision="fp16")
    batch = replace(next(warmup_batches(recipe(global_batch_size=2), 64)), epoch=1.0)
    first = float(implementation.train_step(batch))
    for _ in range(5):
        last = float(implementation.train_step(batch))
    assert 0 < last < first / 2


@pytest.mark.gpu
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_trains_on_a_gpu(framework, precision):
    module = importlib.import_module(f"reference_impls.speech.{framework}")
    benchmark = config.benchmark("speech", "mini")
    data = prepared(benchmark, TASK)
    implementation = module.build(benchmark.hyperparameters, data, 3, Device("gpu", precision))
    implementation.train_until(benchmark.budget_samples)
    assert TASK.score(implementation.predict(), data)["wer"] <= benchmark.target


def test_one_seed_gives_one_order_and_another_seed_another(mini):
    def first(seed: int):
        return next(Batches(mini, recipe(), seed).iterate(3))

    assert np.array_equal(first(1).features, first(1).features)
    assert np.array_equal(first(1).kept, first(1).kept)
    assert not np.array_equal(first(1).labels, first(2).labels)


def test_batches_can_start_anywhere(mini):
    batches = Batches(mini, recipe(), 1)
    passed = next(itertools.islice(batches.iterate(38), 5, None))
    begun = next(Batches(mini, recipe(), 1).iterate(43))
    assert all(np.array_equal(getattr(passed, name), getattr(begun, name)) for name in vars(passed))


def test_an_epoch_has_every_transcript_once_and_little_padding(mini):
    batches = Batches(mini, recipe(**PLAIN), 1)
    epoch = list(itertools.islice(batches.iterate(0), batches.steps_per_epoch))
    seen = [row[:length].tolist() for b in epoch for row, length in zip(b.labels, b.lengths, strict=True)]
    starts = np.cumsum([0, *mini["train_lengths"]])
    said = [mini["train_labels"][a:b].tolist() for a, b in itertools.pairwise(starts)]
    assert sorted(seen) == sorted(said)
    assert sum(b.frames.sum() for b in epoch) > 0.8 * sum(b.features.shape[0] * b.features.shape[1] // 8 for b in epoch)


def test_without_augmentation_a_batch_holds_the_recordings_themselves(mini):
    batch = next(Batches(mini, recipe(**PLAIN), 1).iterate(0))
    recordings = Recordings(mini["train_features"], mini["train_frames"])
    originals = [recordings.padded(np.array([i]))[0][0] for i in range(800)]
    for features, frames in zip(batch.features, batch.frames, strict=True):
        assert any(np.array_equal(features[: len(o)][: frames * 8], o[: frames * 8]) for o in originals)
        assert not features[frames * 8 :].any()


def test_a_faster_recording_is_shorter_and_passes_the_same_spectra(mini):
    recordings = Recordings(mini["train_features"], mini["train_frames"])
    plain, frames = recordings.padded(np.array([5]))
    fast, fewer = recordings.padded(np.array([5]), np.array([2.0]))
    assert fewer[0] == frames[0] // 2
    assert np.allclose(fast[0, : fewer[0]], plain[0, : 2 * fewer[0] : 2], atol=1e-6)


def test_a_stretched_spectrum_is_the_same_at_other_bands(mini):
    plain, warped = (Batches(mini, recipe(**PLAIN | {"frequency_warp": warp}), 1) for warp in (0.0, 0.5))
    ramp = np.arange(64, dtype=np.float32)
    assert np.allclose(ramp @ plain.warps[0], ramp)
    assert np.allclose(ramp @ warped.warps[0], ramp / 2)
    assert np.allclose(ramp @ warped.warps[-1], np.minimum(ramp * 1.5, 63))


def test_masks_hide_bands_and_spans_but_not_everything(mini):
    hyper = recipe(**PLAIN | {"frequency_masks": 1, "time_masks_per_second": 1.0})
    masked, plain = (next(Batches(mini, h, 1).iterate(0)).features for h in (hyper, recipe(**PLAIN)))
    hidden = (masked == 0) & (plain != 0)
    spans, bands = hidden.all(2).sum(1), (hidden | (plain == 0)).all(1).sum(1)
    assert np.array_equal(masked[~hidden], plain[~hidden])
    assert 0 < spans.max() <= hyper.time_mask_frames * 5
    assert 0 < bands.max() <= hyper.frequency_mask_mels
    assert 0 < hidden.mean() < 0.4


def test_dropout_keeps_the_mean(mini):
    kept = next(Batches(mini, recipe(dropout=0.25), 1).iterate(0)).kept
    assert set(np.unique(kept)) == {0, np.float32(1 / 0.75)}
    assert kept.mean() == pytest.approx(1, abs=0.03)


def test_decoding_drops_repetitions_and_blanks():
    best = np.array([[1, 1, 0, 1, 2, 2, 0, 3], [0, 3, 3, 1, 1, 1, 1, 1], [0, 0, 0, 0, 2, 2, 2, 2]])
    assert decode(best, np.array([8, 3, 4]), ["ONE", "TWO", "THREE"]) == ["ONE ONE TWO THREE", "THREE", ""]


def test_the_learning_rate_rises_then_falls_to_zero():
    hyper = recipe(epochs=10, opt_warmup_epochs=2, opt_base_learning_rate=0.1)
    rates = [hyper.learning_rate(epoch) for epoch in (0, 1, 2, 6, 10, 11)]
    assert rates == pytest.approx([0, 0.05, 0.1, 0.05, 0, 0])
