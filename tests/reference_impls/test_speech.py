"""What is peculiar to speech: padding, alignments, augmentation, dropout, decoding, learning rates."""

import itertools
from collections import Counter
from dataclasses import replace
from importlib import import_module
from unittest import mock

import numpy as np
import pytest

from reference_impls.speech import shared
from reference_impls.speech.shared import Batches, Hyperparameters, decode, made_up_batches
from suite import config
from suite.harness.contract import evaluation_data
from tests.reference_impls.cases import BY_ID, build

CASE = BY_ID["speech-mini"]
PLAIN = {"speed": 0.0, "frequency_warp": 0.0, "frequency_masks": 0, "time_masks_per_second": 0.0, "dropout": 0.0}

FRAMEWORKS = ["torch", pytest.param("tensorflow", marks=pytest.mark.slow)]  # which takes seconds to trace
each_framework = pytest.mark.parametrize("framework", FRAMEWORKS)


def recipe(**changes) -> Hyperparameters:
    return Hyperparameters.of(config.benchmark("speech", "mini").hyperparameters | changes)


@pytest.fixture(scope="module")
def mini():
    return CASE.data()


def batches(mini, seed: int = 1, **changes) -> Batches:
    return Batches(mini["train_frames"], 64, recipe(**changes), seed, 64)


class Device:
    """What both frameworks do on the device, called alike, with numpy in and out."""

    def __init__(self, framework: str) -> None:
        self.module = import_module(f"reference_impls.speech.{framework}_network")
        library = import_module(framework)
        self.torch = framework == "torch"
        self.tensor = library.as_tensor if self.torch else library.constant

    def recordings(self, features, frames, chosen, speed):
        """Features of chosen recordings at `speed`."""
        recordings = self.module.Recordings(features.shape, len(frames))
        recordings.fill(features, frames)
        fewer = np.int32(frames[chosen] / speed)
        time = shared.padded(fewer.max(), 64)
        tensors = map(self.tensor, (np.int64(chosen), np.float32(speed), fewer))
        return recordings(*tensors, time if self.torch else np.arange(time, dtype=np.int32)).numpy(), fewer

    def masked(self, *arrays):
        """Features with bands and spans hidden."""
        return self.module.masked(*map(self.tensor, arrays)).numpy()


@pytest.fixture(params=FRAMEWORKS)
def device(request):
    return Device(request.param)


@each_framework
def test_logits_do_not_depend_on_the_rest_of_the_batch(framework, mini):
    implementation, device = build(CASE, framework), Device(framework)
    implementation.train_until(40)
    frames = mini["test_frames"]
    short, long = np.argmin(frames), np.argmax(frames)
    logits = []
    for chosen in ([short], [long, short]):
        features, taken = device.recordings(mini["test_features"], frames, chosen, np.ones(len(chosen)))
        tensors = map(device.tensor, (features, shared.output_frames(taken)))
        found = implementation.logits(*tensors)
        logits.append((found.detach() if framework == "torch" else found).numpy()[-1])
        assert logits[-1].shape == (features.shape[1] // 8, len(implementation.units) + 1)
    alone, together = logits
    within = shared.output_frames(frames[[short]])[0]
    assert together.shape[0] > alone.shape[0]
    assert np.abs(together[:within] - alone[:within]).max() < 1e-4


def said(implementation, framework, labels, lengths) -> None:
    """Let the transcripts of the first recordings be `labels` [N, L]."""
    implementation.lengths = lengths
    implementation.labels = import_module(framework).as_tensor(labels) if framework == "torch" else labels


@each_framework
def test_warm_up_is_of_the_lengths_that_are_compiled(framework):
    """A processor compiles none, and there a step of each would take longer than the steps that a check is made of."""
    module = import_module(f"reference_impls.speech.{framework}")
    implementation = {"torch": "TorchSpeech", "tensorflow": "TensorFlowSpeech"}[framework]
    step = getattr(module, implementation).train_step
    with mock.patch.object(getattr(module, implementation), "train_step", autospec=True, side_effect=step) as taken:
        build(CASE, framework, global_batch_size=2)
    assert [call.args[1].time for call in taken.call_args_list] == [shared.COMPILED]
    on_a_gpu = [batch.time for batch in made_up_batches(recipe(), shared.COMPILED)]  # longest first
    assert on_a_gpu[::-1] == list(range(shared.COMPILED, shared.LONGEST + 1, shared.COMPILED))


@each_framework
def test_the_loss_is_that_of_all_alignments(framework, mini):
    """CTC by its definition: the sum over all paths of labels that collapse to the transcript."""
    implementation = build(CASE, framework, global_batch_size=2)
    implementation.train_until(2)
    batch = next(made_up_batches(recipe(global_batch_size=2)))
    batch = replace(batch, recordings=np.arange(2), frames=np.int32([32, 24]))
    said(implementation, framework, np.int32([[2, 2], [7, 0]]), np.int32([2, 1]))
    features = Device(framework).recordings(mini["train_features"], mini["train_frames"], [0, 1], np.ones(2))[0]
    features = np.pad(features, ((0, 0), (0, batch.time - features.shape[1]), (0, 0)))
    features *= np.arange(batch.time)[:, None] < batch.frames[:, None, None]
    found = implementation.logits(*map(Device(framework).tensor, (features, np.int32([4, 3]))))
    logits = np.float64((found.detach() if framework == "torch" else found).numpy())
    probabilities = np.exp(logits) / np.exp(logits).sum(2, keepdims=True)
    likelihood = [0.0, 0.0]
    for i, (transcript, frames) in enumerate((([2, 2], 4), ([7], 3))):
        for path in itertools.product((0, *set(transcript)), repeat=frames):
            if [label for label, _ in itertools.groupby(path) if label] == transcript:
                likelihood[i] += np.prod([probabilities[i, t, label] for t, label in enumerate(path)])
    batch = replace(batch, warp=np.full(2, 4))  # the middle one, which changes nothing
    assert float(implementation.train_step(batch)) == pytest.approx(-np.mean(np.log(likelihood)), rel=1e-4)


@each_framework
def test_a_transcript_that_does_not_fit_its_recording_does_no_harm(framework, mini):
    implementation = build(CASE, framework, global_batch_size=2)
    implementation.train_until(2)
    said(implementation, framework, np.int32([[1, 1, 1], [1, 2, 2], [1, 2, 0]]), np.int32([3, 3, 2]))
    batch = replace(next(made_up_batches(recipe(global_batch_size=2))), epoch=0.5, warp=np.full(2, 4))
    # three labels and a blank between two of them do not fit into three frames of output
    batch = replace(batch, recordings=np.array([1, 2]), frames=np.int32([24, 128]))
    state = implementation.state_dict()
    both = float(implementation.train_step(batch))
    assert all(np.isfinite(value).all() for value in implementation.state_dict().values())
    implementation.load_state_dict(state)
    alone = replace(batch, recordings=np.array([2, 2]), frames=np.int32([128, 128]))
    assert both == pytest.approx(float(implementation.train_step(alone)) / 2, rel=1e-4)
    assert both > 0


def test_one_seed_gives_one_order_and_another_seed_another(mini):
    first, again, other = (next(batches(mini, seed).iterate(3)) for seed in (1, 1, 2))
    assert all(np.array_equal(getattr(first, name), getattr(again, name)) for name in vars(first))
    assert not np.array_equal(first.recordings, other.recordings)


def test_batches_can_start_anywhere(mini):
    passed = next(itertools.islice(batches(mini).iterate(38), 5, None))
    begun = next(batches(mini).iterate(43))
    assert all(np.array_equal(getattr(passed, name), getattr(begun, name)) for name in vars(passed))


def test_an_epoch_has_every_recording_once_and_little_padding(mini):
    made = batches(mini, **PLAIN)
    epoch = list(itertools.islice(made.iterate(0), made.steps_per_epoch))
    assert Counter(i for batch in epoch for i in batch.recordings) == Counter(range(800))
    assert sum(batch.frames.sum() for batch in epoch) > 0.8 * sum(batch.frames.size * batch.time for batch in epoch)


def test_few_numbers_go_to_the_device(mini):
    for batch in itertools.islice(batches(mini).iterate(0), 40):
        assert sum(value.nbytes for value in vars(batch).values() if isinstance(value, np.ndarray)) < 4096
        assert batch.spans.shape[1] == shared.spans_of(batch.time, recipe())


def test_recordings_at_their_own_speed_are_themselves_less_their_mean(device, mini):
    features, frames = device.recordings(mini["train_features"], mini["train_frames"], [7, 3], np.ones(2))
    for found, count, i in zip(features, frames, (7, 3), strict=True):
        begin = mini["train_frames"][:i].sum()
        own = np.float32(mini["train_features"][begin : begin + count])
        assert np.allclose(found[:count] * shared.SPREAD, own - own.mean(0), atol=1e-3)
        assert not found[count:].any()


def test_a_faster_recording_is_shorter_and_passes_the_same_spectra(device, mini):
    plain, frames = device.recordings(mini["train_features"], mini["train_frames"], [5], np.ones(1))
    fast, fewer = device.recordings(mini["train_features"], mini["train_frames"], [5], np.full(1, 2.0))
    assert fewer[0] == frames[0] // 2
    assert np.allclose(fast[0, : fewer[0]], plain[0, : 2 * fewer[0] : 2], atol=1e-6)
    slow, more = device.recordings(mini["train_features"], mini["train_frames"], [5], np.full(1, 0.5))
    between = (plain[0, : frames[0] - 1] + plain[0, 1 : frames[0]]) / 2
    assert np.allclose(slow[0, 1 : more[0] - 1 : 2], between, atol=1e-6)


def test_a_stretched_spectrum_is_the_same_at_other_bands():
    plain, warped = (shared.warps(64, recipe(frequency_warp=warp)) for warp in (0.0, 0.5))
    ramp = np.arange(64, dtype=np.float32)
    assert np.allclose(ramp @ plain[0], ramp)
    assert np.allclose(ramp @ warped[0], ramp / 2)
    assert np.allclose(ramp @ warped[-1], np.minimum(ramp * 1.5, 63))


def test_masks_hide_bands_and_spans_and_nothing_else(device):
    features = np.ones((2, 8, 5), np.float32)
    bands, spans = np.int32([[[1, 2], [4, 0]], [[0, 0], [0, 0]]]), np.int32([[[0, 0]], [[5, 3]]])
    expected = features.copy()
    expected[0, :, 1:3], expected[1, 5:8] = 0, 0
    assert np.array_equal(device.masked(features, bands, spans), expected)


def test_masks_stay_within_what_the_recipe_allows(mini):
    hyper, wide, long = recipe(), [], []
    for batch in itertools.islice(batches(mini).iterate(0), 40):
        assert (batch.bands.sum(2) <= 64).all()
        assert (batch.spans.sum(2) <= np.maximum(batch.frames[:, None], batch.spans[..., 1])).all()
        wide.append(batch.bands[..., 1])
        long.append((batch.spans[..., 1] > 0).sum(1) / (batch.frames / 100))
    assert set(np.unique(wide)) == set(range(hyper.frequency_mask_mels + 1))
    drawn = hyper.time_masks_per_second * hyper.time_mask_frames / (hyper.time_mask_frames + 1)
    assert np.mean(long) == pytest.approx(drawn, rel=0.1)


@each_framework
def test_dropout_hides_channels_of_whole_recordings_and_keeps_the_mean(framework):
    library = import_module(framework)
    module = import_module(f"reference_impls.speech.{framework}_network")
    block = module.ResidualBlock(64, 1, 0.25)
    x, within = np.random.default_rng(0).normal(size=(16, 4, 64)).astype(np.float32), np.ones((16, 4, 1), np.float32)
    matrix, ones = np.eye(64, 128, dtype=np.float32), np.ones(128, np.float32)
    if framework == "torch":
        library.manual_seed(1)
        block.load_state_dict(
            block.state_dict()
            | {"inner.weight": library.zeros(128, 192), "inner.bias": library.as_tensor(ones)}
            | {"outer.weight": library.as_tensor(matrix), "outer.bias": library.zeros(64)}
        )
        y = block(library.as_tensor(x), library.as_tensor(within)).detach().numpy() - x
    else:
        block(x, within, np.int32([1, 2]))
        block.inner.set_weights([np.zeros((192, 128), np.float32), ones])
        block.outer.set_weights([matrix.T, np.zeros(64, np.float32)])
        y = block(x, within, np.int32([1, 2])).numpy() - x
    kept = y / 0.8412 * 0.75  # GELU of one
    assert np.allclose(kept, kept[:, :1], atol=1e-5)
    assert np.allclose(np.minimum(kept, np.abs(kept - 1)), 0, atol=1e-3)
    assert kept[:, 0].mean() == pytest.approx(0.75, abs=0.05)


def test_dropout_in_bf16_keeps_the_mean():
    torch = pytest.importorskip("torch")
    from reference_impls.speech.torch_network import ChannelDropout

    torch.manual_seed(1)
    x = torch.rand(16, 50, 64).bfloat16()
    y = ChannelDropout(0.15)(x)
    assert y.dtype == x.dtype
    assert float(y.float().sum() / x.float()[y != 0].sum()) == pytest.approx(1 / 0.85, rel=5e-4)


@pytest.mark.parametrize("framework", ["torch", pytest.param("tensorflow", marks=pytest.mark.soak)])
def test_goes_on_with_the_same_dropout(framework, mini):
    """Every other test of states has none."""
    one, other = (build(CASE, framework, dropout=0.5) for _ in range(2))
    one.train_until(40)
    state = one.state_dict()
    one.train_until(80)
    other.load_state_dict(state)
    other.train_until(80)
    expected, found = one.state_dict(), other.state_dict()
    assert all(np.array_equal(value, found[name]) for name, value in expected.items())
    without = build(CASE, framework)
    without.load_state_dict(state)
    without.train_until(80)
    assert not np.array_equal(without.state_dict()["head.weight"], expected["head.weight"])


@pytest.mark.slow
def test_the_step_in_torch_is_one_graph(mini):
    torch = pytest.importorskip("torch")
    implementation = build(CASE, "torch", dropout=0.1)
    expected = implementation.train_until(20).loss
    again = build(CASE, "torch", dropout=0.1)
    again.training_logits = torch.compile(again.training_logits, backend="aot_eager", fullgraph=True, dynamic=False)
    assert again.train_until(20).loss == pytest.approx(expected, rel=0.05)  # other dropout
    again.logits = torch.compile(again.logits, backend="aot_eager", fullgraph=True, dynamic=False)
    assert len(again.predict(evaluation_data(mini))) == 200


def test_decoding_drops_repetitions_and_blanks():
    best = np.array([[1, 1, 0, 1, 2, 2, 0, 3], [0, 3, 3, 1, 1, 1, 1, 1], [0, 0, 0, 0, 2, 2, 2, 2]])
    assert decode(best, np.array([8, 3, 4]), ["ONE", "TWO", "THREE"]) == ["ONE ONE TWO THREE", "THREE", ""]


def test_each_recording_is_evaluated_in_a_batch_of_like_length():
    frames = np.int32([100, 700, 90, 300, 64])
    made = list(shared.evaluation_batches(frames, 2, 64))
    assert [(chosen.tolist(), time) for chosen, time in made] == [([1, 3], 704), ([0, 2], 128), ([4, 4], 64)]
    best = np.repeat([[1], [2]], (704 + 128 + 64) // 8, 1)
    assert shared.texts(best, made, frames, ["A", "B"]) == ["A", "A", "B", "B", "B"]


def test_the_learning_rate_rises_then_falls_to_zero():
    hyper = recipe(epochs=10, opt_warmup_epochs=2, opt_base_learning_rate=0.1)
    rates = [hyper.learning_rate(epoch) for epoch in (0, 1, 2, 6, 10, 11)]
    assert rates == pytest.approx([0, 0.05, 0.1, 0.05, 0, 0])
