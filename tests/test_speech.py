"""Speech recognition: its data, its score, and `mini` from end to end through the commands."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import wavfile

from suite import config
from suite.errors import BadPrediction, UserError
from suite.store.arrays import prepared
from suite.store.task import load_task
from tasks.speech import an4, digits
from tasks.speech.espeak import Utterance, speak
from tasks.speech.recording import HOP_S, MELS, STEP, WINDOW_S, Recording, log_mel, mel_energies
from tests.command import run
from tests.minis import trained

TASK = load_task("speech")
ANSWERS = {"answer_texts": TASK.lines_array(["ONE TWO THREE", "NINE"])}


@pytest.fixture(scope="module")
def mini():
    return prepared(config.benchmark("speech", "mini"), TASK)


@pytest.mark.slow
def test_shows_the_transcripts_of_a_run(tmp_path_factory):
    shown = run(trained(tmp_path_factory, "speech"), "tasks.speech.transcripts", "evidence")
    right = re.fullmatch(r"(\d+) of 200 transcripts are right", shown.stdout.splitlines()[-1])
    assert right, shown.stderr
    assert shown.stdout.count("REF: ") == shown.stdout.count("HYP: ") == 200 - int(right[1])


def test_shows_no_transcripts_where_no_run_is(tmp_path):
    shown = run(tmp_path, "tasks.speech.transcripts", "nowhere")
    assert shown.returncode == 2
    assert shown.stderr == (
        "error: nowhere: config.yaml: No such file or directory: name the evidence folder of a run\n"
    )


def test_predictions_that_are_refused_are_no_transcripts(tmp_path):
    (tmp_path / "config.yaml").write_text("task: speech\nscale: mini\n")
    (tmp_path / "predictions.jsonl").write_text("3\n" * 200)
    shown = run(tmp_path, "tasks.speech.transcripts", ".")
    assert shown.returncode == 2
    assert shown.stderr == "error: .: predictions.jsonl, line 1: 3 is not a text: a review refuses them, too\n"


def test_the_voices_of_the_test_are_not_those_of_the_training():
    assert not set(digits.TRAIN_VOICES) & set(digits.TEST_VOICES)


@pytest.mark.slow
def test_espeak_says_the_same_samples_again_and_others_in_another_voice():
    utterances = [Utterance("ONE TWO", "en-us+m1", 150, 50), Utterance("ONE TWO", "en-us+f3", 150, 50)]
    first, again = speak(utterances), speak(utterances)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], first[1])
    with pytest.raises(UserError, match="no voice 'xx-none'"):
        speak([Utterance("ONE", "xx-none", 150, 50)])


@pytest.mark.slow
def test_samples_that_are_not_those_declared_are_refused(monkeypatch):
    monkeypatch.setattr(digits, "SAMPLES_SHA256", "0" * 64)
    with pytest.raises(UserError, match=r"sha256 of the synthesised samples is [0-9a-f]{64}, expected 0000"):
        digits.recordings()


def test_mini_is_whole(mini):
    assert (len(mini["train_frames"]), len(mini["test_frames"])) == (800, 200)
    assert mini["train_features"].shape == (mini["train_frames"].sum(), MELS)
    assert set(bytes(mini["units"]).decode().split("\n")) == set(digits.WORDS)
    assert mini["train_labels"].min() == 1
    assert mini["train_labels"].max() == 10
    assert set(np.unique(mini["train_lengths"])) == set(range(3, 8))


def test_features_show_a_tone_where_it_is_and_its_energy():
    rate = 16000
    time = np.arange(rate) / rate
    loud = (8000 * np.sin(2 * np.pi * 1000 * time)).astype(np.int16)
    features = log_mel([Recording(samples, rate, "") for samples in (loud, loud // 2, np.zeros_like(loud))])
    assert features[0].shape == (1 + round(1 / HOP_S), MELS)
    band = features[0][50].argmax()
    mel = 2595 * np.log10(1 + np.array([20, 1000, 8000]) / 700)
    assert band == pytest.approx((mel[1] - mel[0]) / (mel[2] - mel[0]) * (MELS + 1) - 1, abs=1)
    assert (features[0][50, band] - float(features[1][50, band])) * STEP == pytest.approx(np.log(4), abs=STEP)
    assert not features[2].any()


@pytest.fixture
def torch():
    """PyTorch, in double precision."""
    library = pytest.importorskip("torch")
    before = library.get_default_dtype()
    library.set_default_dtype(library.float64)
    yield library
    library.set_default_dtype(before)


@pytest.mark.parametrize(("rate", "size"), [(16000, 512), (22050, 1024)])
def test_energies_are_those_of_torchaudio(torch, rate, size):
    transforms = pytest.importorskip("torchaudio.transforms")
    times = {"n_fft": size, "win_length": round(WINDOW_S * rate), "hop_length": round(HOP_S * rate)}
    theirs = transforms.MelSpectrogram(rate, **times, f_min=20, f_max=8000, n_mels=MELS)
    signal = np.random.default_rng(0).normal(0, 0.1, rate)
    np.testing.assert_allclose(mel_energies(signal, rate), theirs(torch.from_numpy(signal)).T.numpy(), rtol=1e-9)


@pytest.fixture
def corpus(tmp_path):
    """AN4's layout with one recording in each part."""
    folder = tmp_path / "an4"
    (folder / "etc").mkdir(parents=True)
    for part, speaker, marks in (
        ("train", "an4_clstk/fash", ("<s> ", " </s>")),
        ("test", "an4test_clstk/fcaw", ("", "")),
    ):
        (folder / "etc" / f"an4_{part}.fileids").write_text(f"{speaker}/an1-x-b\n")
        (folder / "etc" / f"an4_{part}.transcription").write_text(f"{marks[0]}YES A B{marks[1]} (an1-x-b)\n")
        (folder / "wav" / speaker).mkdir(parents=True)
        noise = np.random.default_rng(0).normal(0, 1000, 8000).astype(np.int16)
        wavfile.write(folder / "wav" / speaker / "an1-x-b.wav", 16000, noise)
    return folder


def test_reads_the_layout_of_an4(corpus):
    arrays = TASK.prepare("small", corpus.parent)
    assert bytes(arrays["units"]).decode().split("\n") == ["A", "B", "YES"]
    assert arrays["train_labels"].tolist() == [3, 1, 2]
    assert arrays["train_frames"].tolist() == [51]
    assert bytes(arrays["answer_texts"]).decode() == "YES A B"


@pytest.mark.data("speech/small")
def test_an4_is_as_published():
    data = prepared(config.benchmark("speech", "small"), TASK)
    texts = bytes(data["answer_texts"]).decode().split("\n")
    assert (len(data["train_frames"]), len(texts), sum(len(text.split()) for text in texts)) == (948, 130, 773)
    assert data["train_frames"].sum() / 6000 == pytest.approx(42.4, abs=0.3)  # minutes
    unseen = {word for text in texts for word in text.split()} - set(bytes(data["units"]).decode().split("\n"))
    assert unseen == {"THIRTEEN", "NOVEMBER"}


@pytest.mark.parametrize(
    ("predictions", "wer"),
    [
        (["ONE TWO THREE", "NINE"], 0.0),
        (["ONE TWO FOUR", "NINE"], 0.25),
        (["ONE THREE", "NINE NINE"], 0.5),
        (["", ""], 1.0),
        (["  ONE   TWO THREE ", "NINE"], 0.0),
        (["ONE TWO THREE", "NINE ONE ONE ONE ONE ONE"], 1.25),
        (["ONE TWO THREE", "N" * 1000], 0.25),
    ],
)
def test_scores_word_errors_over_words(predictions, wer):
    assert TASK.score(predictions, ANSWERS) == {"wer": wer}


@pytest.mark.parametrize(
    ("predictions", "line"),
    [
        (["ONE"], 0),
        (["ONE", "NINE", ""], 0),
        (["ONE", 9], 2),
        ([["ONE"], ""], 1),
        (["ONE", "A" * 1001], 2),
        ([None, ""], 1),
    ],
)
def test_refuses_what_is_not_a_text(predictions, line):
    with pytest.raises(BadPrediction) as caught:
        TASK.score(predictions, ANSWERS)
    assert caught.value.line == line


TEXT = st.text(st.characters(), max_size=50)
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | TEXT, st.lists, max_leaves=3)


@given(st.lists(JSON, min_size=2, max_size=2))
def test_no_prediction_breaks_the_score(predictions):
    try:
        wer = TASK.score(predictions, ANSWERS)["wer"]
    except BadPrediction:
        assert not all(isinstance(prediction, str) for prediction in predictions)
    else:
        assert 0 <= wer < 50


def test_reading_a_part_keeps_the_order_of_its_list(corpus):
    assert [recording.text for recording in an4.recordings(corpus, "test")] == ["YES A B"]
