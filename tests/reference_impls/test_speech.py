"""What is peculiar to speech: padding, alignments, augmentation, decoding, learning rates."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from reference_impls.speech.shared import (
    Batches,
    Hyperparameters,
    Recordings,
    decode,
    output_frames,
    warmup_batches,
)
from suite import config
from tests.reference_impls.cases import BY_ID, FRAMEWORKS, build

CASE = BY_ID["speech-mini"]


def recipe(**changes) -> Hyperparameters:
    return Hyperparameters.of(config.benchmark("speech", "mini").hyperparameters | changes)


PLAIN = {"speed": 0.0, "frequency_warp": 0.0, "frequency_masks": 0, "time_masks_per_second": 0.0, "dropout": 0.0}


@pytest.fixture(scope="module")
def mini():
    return CASE.data()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_logits_do_not_depend_on_the_rest_of_the_batch(framework, mini):
    implementation = build(CASE, framework)
    implementation.train_until(40)
    recordings = Recordings(mini["test_features"], mini["test_frames"])
    short, long = np.argmin(recordings.frames), np.argmax(recordings.frames)
    features, frames = recordings.padded(np.array([short]))
    alone = implementation.logits(*map(implementation.on_device, (features, output_frames(frames))))[0]
    assert alone.shape == (features.shape[1] // 8, len(implementation.units) + 1)
    features, frames = recordings.padded(np.array([long, short]))
    together = implementation.logits(*map(implementation.on_device, (features, output_frames(frames))))[1]
    inside = output_frames(frames)[1]
    assert together.shape[0] > alone.shape[0]
    assert np.abs(together[:inside] - alone[:inside]).max() < 1e-4


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_loss_is_that_of_all_alignments(framework, mini):
    """CTC by its definition: the sum over all paths of labels that collapse to the transcript."""
    implementation = build(CASE, framework)
    features = np.random.default_rng(0).normal(size=(2, 64, 64)).astype(np.float32)
    frames = np.int32([4, 3])
    batch = next(warmup_batches(recipe(global_batch_size=2), 64))
    labels, lengths = np.int32([[2, 2], [7, 0]]), np.int32([2, 1])
    batch = replace(batch, features=features, frames=frames, labels=labels, lengths=lengths)
    logits = implementation.logits(*map(implementation.on_device, (features, frames))).astype(np.float64)
    probabilities = np.exp(logits) / np.exp(logits).sum(2, keepdims=True)
    likelihood = [0.0, 0.0]
    for i, transcript in enumerate(([2, 2], [7])):
        for path in itertools.product((0, *set(transcript)), repeat=int(frames[i])):
            if [label for label, _ in itertools.groupby(path) if label] == transcript:
                likelihood[i] += np.prod([probabilities[i, t, label] for t, label in enumerate(path)])
    assert float(implementation.train_step(batch)) == pytest.approx(-np.mean(np.log(likelihood)), rel=1e-4)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_transcript_that_does_not_fit_its_recording_does_no_harm(framework, mini):
    implementation = build(CASE, framework)
    batch = next(warmup_batches(recipe(global_batch_size=2), 64))
    batch = replace(batch, frames=np.int32([1, 16]), epoch=0.5)
    assert 0 < float(implementation.train_step(batch)) < np.inf
    assert all(np.isfinite(value).all() for value in implementation.state_dict().values())


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
