"""The data of the parity suite's cases, and the outputs of an implementation that can be compared."""

import io
from functools import cache
from importlib import import_module
from typing import Any
from unittest import mock

import numpy as np
from PIL import Image

from reference_impls.image_classification.pictures import evaluation
from reference_impls.language_modeling import shared as language_modeling
from reference_impls.reinforcement_learning.environments import Group
from reference_impls.translation.shared import bucket, lengths, padded
from suite import config
from suite.harness.contract import evaluation_data, training_data
from suite.store.arrays import prepared
from suite.store.task import load_task
from tasks.recommendation.protocol import Interactions, leave_one_out
from tasks.translation.subwords import BEGIN, END

Arrays = dict[str, np.ndarray]


def real(task: str, scale: str = "mini") -> Arrays:
    """The benchmark's own arrays, as an implementation gets them."""
    arrays = prepared(config.benchmark(task, scale), load_task(task))
    return without_answers(arrays)


def without_answers(arrays: Arrays) -> Arrays:
    """What `build` and `predict` are given of arrays, together."""
    return {**training_data(arrays), **evaluation_data(arrays)}


# --- Detection ----------------------------------------------------------------------------------------------------


def noise_with_boxes(height: int, width: int, channels: int, classes: int) -> Arrays:
    """What the tests need of BCCD: its shapes, smaller for speed."""
    random = np.random.default_rng(0)
    low = random.uniform(0, [width - 40, height - 40], (16, 3, 2))
    boxes = np.concatenate([low, low + random.uniform(12, 40, (16, 3, 2))], -1).astype(np.float32)
    return {
        "train_images": random.integers(0, 256, (16, height, width, channels), np.uint8),
        "train_boxes": boxes,
        "train_classes": random.integers(-1, classes, (16, 3)).astype(np.int8),
        "test_images": random.integers(0, 256, (8, height, width, channels), np.uint8),
    }


@cache
def digit_scenes() -> Arrays:
    """In the place of `mini`'s scenes."""
    return noise_with_boxes(64, 64, 1, 10)


@cache
def blood_cells() -> Arrays:
    """In the place of BCCD."""
    return noise_with_boxes(96, 128, 3, 3)


def detections(made: Any, framework: str, data: Arrays) -> list[np.ndarray]:
    """Scores and sides [B, h, w, ...] of the test images."""
    (cells,) = made.batches(data)
    if framework == "tensorflow":
        return [output.numpy() for output in made.outputs(cells)]
    made.model.eval()
    return [output.detach().numpy().transpose(0, 2, 3, 1) for output in made.outputs(cells)]


# --- Image classification -----------------------------------------------------------------------------------------


@cache
def coloured_noise() -> Arrays:
    """What the tests need of CIFAR-10: its shapes."""
    return {
        "train_images": np.random.default_rng(0).integers(0, 256, (1000, 32, 32, 3), np.uint8),
        "train_labels": np.random.default_rng(1).integers(0, 10, 1000, np.uint8),
        "test_images": np.random.default_rng(2).integers(0, 256, (64, 32, 32, 3), np.uint8),
    }


def image_logits(made: Any, framework: str, data: Arrays) -> list[np.ndarray]:
    """Logits of test images."""
    return [made.logits(made.images(data["test_images"][:64])).numpy()]


@cache
def few_jpegs() -> Arrays:
    """In the place of JPEG files of a thousand classes: some of ten, of three sizes, in two shards."""
    random = np.random.default_rng(0)

    def split(name: str, count: int) -> Arrays:
        files = []
        for i in range(count):
            file, coarse = io.BytesIO(), Image.fromarray(random.integers(0, 256, (6, 6, 3), np.uint8))
            coarse.resize([(60, 80), (90, 70), (64, 64)][i % 3], Image.Resampling.BICUBIC).save(file, "JPEG")
            files.append(np.frombuffer(file.getvalue(), np.uint8))
        stream, lengths = np.concatenate(files), np.array([len(file) for file in files], np.int32)
        half = len(stream) // 2
        return {f"{name}_jpegs_0000": stream[:half], f"{name}_jpegs_0001": stream[half:], f"{name}_lengths": lengths}

    labels = {"train_labels": random.integers(0, 10, 200).astype(np.uint16)}
    return {"classes": np.arange(10, dtype=np.uint16), **split("train", 200), **labels, **split("test", 30)}


def resnet_logits(made: Any, framework: str, data: Arrays) -> list[np.ndarray]:
    """Logits of test images."""
    images, _ = next(evaluation(evaluation_data(data), made.hyper, made.worker))
    library = import_module(framework)
    if framework == "tensorflow":
        return [made.logits(library.constant(images)).numpy()]
    made.model.eval()
    with library.no_grad():
        return [made.logits(library.as_tensor(images)).numpy()]


# --- Language modelling -------------------------------------------------------------------------------------------

VOCABULARY = 33_278


@cache
def short_text() -> Arrays:
    """`mini`'s text, its test part cut."""
    text = real("language_modeling")
    return {**text, "test_tokens": text["test_tokens"][:5000], "audit_positions": np.array([17, 4500])}


@cache
def random_words() -> Arrays:
    """What the tests need of WikiText-2: its vocabulary's size and words of every frequency."""
    words = (VOCABULARY ** np.random.default_rng(0).random(20_000)).astype(np.uint16)
    return {
        "vocabulary": np.array(["<eos>", *map(str, range(1, VOCABULARY))]),
        "train_tokens": words[:15_000],
        "test_tokens": words[15_000:],
        "audit_positions": np.array([17, 4500]),
    }


def log_probabilities(made: Any, framework: str, data: Arrays) -> list[np.ndarray]:
    """Of the test text, and of a training batch without dropout."""
    with mock.patch.object(language_modeling, "DECIMALS", 8):
        of_text = np.concatenate([np.array(row) for row in made.predict(evaluation_data(data))])
    batch = next(language_modeling.Batches(data["train_tokens"], made.hyper, 1).iterate(0))
    library = import_module(framework)
    tensor = library.as_tensor if framework == "torch" else library.constant
    words, targets = (tensor(array.astype(np.int64)) for array in (batch.words, batch.targets))
    rare_words, rare_targets = made.rare(batch.words), made.rare(batch.targets)
    carry = language_modeling.initial_carry(made.hyper, made.hyper.streams)
    x, pointed, _ = made.model(words, rare_words, {name: tensor(value) for name, value in carry.items()})
    trained = made.model.log_probabilities(x, pointed, targets, rare_targets)
    return [of_text, trained.detach().numpy() if framework == "torch" else trained.numpy()]


@cache
def two_shards() -> Arrays:
    """In the place of sharded text: the same kind of tokens, in shards of other lengths."""
    tokens = (4096 ** np.random.default_rng(0).random(20_000)).astype(np.uint16)
    return {
        "vocabulary": np.arange(4096, dtype=np.uint16),
        "begin_token": np.array([1], np.uint16),
        "train_tokens_0000": tokens[:9000],
        "train_tokens_0001": tokens[9000:15_000],
        "test_tokens": tokens[15_000:],
        "audit_positions": np.array([17, 4500]),
    }


def gpt_logits(made: Any, framework: str, data: Arrays) -> list[np.ndarray]:
    """Of some sequences of the test text."""
    words = data["test_tokens"][: 8 * made.hyper.sequence_length].astype(np.int64).reshape(8, -1)
    library = import_module(framework)
    if framework == "torch":
        with library.no_grad():
            return [made.model(library.as_tensor(words)).numpy()]
    return [made.model(library.constant(words)).numpy()]


# --- Recommendation -----------------------------------------------------------------------------------------------


@cache
def few_histories() -> Arrays:
    """Histories of 2 to 60 of 120 items, in MovieLens' place."""
    random = np.random.default_rng(0)
    taken = [random.permutation(120)[: random.integers(3, 61)] for _ in range(40)]
    users = np.repeat(np.arange(40), [len(t) for t in taken])
    arrays = leave_one_out(Interactions("the test", users, np.concatenate(taken), np.arange(len(users))), 30)
    return without_answers(arrays)


def item_scores(made: Any, framework: str, data: Arrays) -> list[np.ndarray]:
    """Of all items after the longest histories, and the mean loss of a batch."""
    known, library = made.known(), import_module(framework)
    _, questions = known.questions(data["test_candidates"])
    batch, length = next(known.batches(0))
    if framework == "torch":
        made.model.eval()
        scores = made.logits(made.items, library.as_tensor(questions[-1].windows), questions[-1].length)
        loss = made.loss(made.items, library.as_tensor(batch), length).detach()
    else:
        scores = made.logits(library.constant(questions[-1].windows), questions[-1].length)
        loss = made.loss(made.items, library.constant(batch), length, None, float((batch[:, 2] - batch[:, 1]).sum()))
    return [scores.numpy(), loss.numpy()]


# --- Reinforcement learning ---------------------------------------------------------------------------------------


@cache
def three_episodes(scale: str) -> Arrays:
    """Three evaluation episodes."""
    arrays = real("reinforcement_learning", scale)
    return {**arrays, "test_seeds": load_task("reinforcement_learning").evaluation_arrays(arrays, 0)["test_seeds"][:3]}


def probabilities_and_values(made: Any, framework: str, data: Arrays) -> list[np.ndarray]:
    """Log-probabilities and values of the first observations of other environments."""
    episodes = Group(str(data["environment"]), range(8), 8, 0).episodes
    observations = np.stack([episode.observation for episode in episodes])
    library = import_module(framework)
    tensor = library.as_tensor if framework == "torch" else library.constant
    outputs = made.agent(tensor(observations))
    return [out.detach().numpy() if framework == "torch" else out.numpy() for out in outputs]


# --- Speech -------------------------------------------------------------------------------------------------------


@cache
def spoken_noise() -> Arrays:
    """What the tests need of AN4: its shapes."""
    drawn = np.random.default_rng(0)
    frames = drawn.integers(80, 300, 64, np.int32)
    return {
        "train_features": drawn.integers(0, 256, (frames.sum(), 64), np.uint8),
        "train_frames": frames,
        "train_labels": drawn.integers(1, 100, 64 * 4, np.uint8),
        "train_lengths": np.full(64, 4, np.int32),
        "test_features": drawn.integers(0, 256, (200, 64), np.uint8),
        "test_frames": np.int32([120, 80]),
        "units": load_task("speech").lines_array([f"WORD{i}" for i in range(99)]),
    }


def label_logits(made: Any, framework: str, data: Arrays) -> list[np.ndarray]:
    """Of the shortest test recordings."""
    _, features, frames = made.evaluation.of(evaluation_data(data))[-1]
    logits = made.logits(features, frames)
    return [logits.detach().numpy() if framework == "torch" else logits.numpy()]


# --- Translation --------------------------------------------------------------------------------------------------


@cache
def few_phrases() -> Arrays:
    """The phrases, 1,000 of them to train on and 20 to translate."""
    arrays = real("translation")
    few = {"train_source": 1000, "train_target": 1000, "test_source": 20}
    cut = {name: arrays[name][: np.flatnonzero(arrays[name] == END)[count - 1] + 1] for name, count in few.items()}
    return {"subword_model": arrays["subword_model"], **cut}


@cache
def few_pairs() -> Arrays:
    """In the place of WMT's shards: 600 of the phrases, in two shards."""
    data = few_phrases()
    sides = [np.split(data[name], np.flatnonzero(data[name] == END) + 1) for name in ("train_source", "train_target")]
    pairs = [np.concatenate(pair) for pair in zip(*sides, strict=True)][:600]
    shards = {
        f"train_pairs_000{i}": np.concatenate([*pairs[i::2], np.zeros(100 * (i + 1), np.uint16)]) for i in range(2)
    }
    return {"subword_model": data["subword_model"], "test_source": data["test_source"], **shards}


def some_sentences() -> tuple[np.ndarray, np.ndarray]:
    """Eight padded source sentences, and what the decoder reads of their translations."""
    source, target = (padded(few_phrases()[name])[:8] for name in ("train_source", "train_target"))
    source, target = (rows[:, : bucket(int(lengths(rows).max()), "cpu")] for rows in (source, target))
    return source, np.concatenate([np.full((8, 1), BEGIN, np.int32), target[:, :-1]], 1)


def subword_logits(made: Any, framework: str, data: Arrays) -> list[np.ndarray]:
    """Of each next subword."""
    return [made.logits(*some_sentences())]
