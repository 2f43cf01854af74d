"""Language modelling: predict each word of the test text from the words before it.

The quality of `small` is the perplexity over words; that of `mini`, whose text comes from a grammar with known
probabilities, is how many nats per word the model needs above the grammar itself.

`pilot` and `full` have subwords, in shards that `shards.py` describes; there the quality is `log_perplexity`, MLPerf's
name for the mean negative log-likelihood in nats per token.

Arrays of `mini` and `small`: `vocabulary` str [V], words by falling frequency in `small`; `train_tokens` uint16 [N] and
`test_tokens` uint16 [M], one text each in numbers of the vocabulary; `audit_positions` int64 [A], increasing. `mini`
also has `answer_log_probabilities` float32 [M], what the grammar gave the words of the test text. In `pilot` and `full`
a word is a subword, `vocabulary` uint16 [V] holds their numbers only, `begin_token` uint16 [1] is the one before each
document, and shards `train_tokens_0000` and so on, uint16, take the place of `train_tokens`.

Predictions: for each `CHUNK` words of the test text the list of their natural log-probabilities; then for each audited
position the log-probabilities of all V words there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suite.errors import BadPrediction, UserError
from suite.store.files import fetching
from tasks.language_modeling import grammar
from tasks.language_modeling.shards import SHARDED, read_shard

METRICS = {"perplexity": (0.0, math.inf), "log_perplexity": (0.0, math.inf), "excess_nats": (-math.inf, math.inf)}
EOS = "<eos>"  # ends each line of the files, and stands before the first word of each text
CHUNK = 512
AUDITED = 8
LOWEST = -1000.0  # of the log-probabilities
TOLERANCE = 1e-3  # of a distribution's sum, and of the two log-probabilities of one word
LUCK = 20.0  # nats: a model beats the grammar by this much in the whole text with a probability of at most e^-20

MINI_TRAIN, MINI_TEST = 250_000, 40_000


def prepare(scale: str, files: Path) -> dict[str, np.ndarray]:
    """The arrays of `mini` (sampled from the grammar), `small` (WikiText-2), or what a sharded text is scored by."""
    if scale == "mini":
        return _grammar()
    return _wikitext2(files / "wikitext-2") if scale == "small" else _sharded(scale, files)


def _grammar() -> dict[str, np.ndarray]:
    train, _ = grammar.sample(MINI_TRAIN, seed=1)
    test, log_probabilities = grammar.sample(MINI_TEST, seed=2)
    arrays = _arrays(grammar.vocabulary(), train, test)
    return {**arrays, "answer_log_probabilities": log_probabilities}


def _wikitext2(folder: Path) -> dict[str, np.ndarray]:
    train, test = (_words(folder / f"wiki.{split}.tokens") for split in ("train", "test"))
    counts = Counter(train)
    vocabulary = sorted(counts, key=lambda word: (-counts[word], word))
    number = {word: i for i, word in enumerate(vocabulary)}
    return _arrays(vocabulary, *(np.array([number[word] for word in words]) for words in (train, test)))


def _sharded(scale: str, files: Path) -> dict[str, np.ndarray]:
    """The test tokens after the first, which is the one that documents begin with."""
    text = SHARDED[scale]
    try:
        tokens = read_shard(files / text.test)
    except ValueError as error:
        again = fetching(f"language_modeling/{scale}", str(files))
        raise UserError(f"{error}; delete it and run {again}") from error
    if tokens[0] != text.begin:
        raise UserError(f"{files / text.test} begins with token {tokens[0]}, not with a document's first, {text.begin}")
    test = tokens[1 : text.test_tokens + 1]
    scored = _scored(np.arange(text.vocabulary, dtype=np.uint16), test)
    return {**scored, "begin_token": np.array([text.begin], np.uint16)}


def _words(path: Path) -> list[str]:
    """The words of a UTF-8 file with `EOS` at the end of each line."""
    return [word for line in path.read_bytes().splitlines() for word in [*line.decode().split(), EOS]]


def _arrays(vocabulary: Sequence[str], train: np.ndarray, test: np.ndarray) -> dict[str, np.ndarray]:
    return {"train_tokens": train.astype(np.uint16), **_scored(np.array(vocabulary), test)}


def _scored(vocabulary: np.ndarray, test: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "vocabulary": vocabulary,
        "test_tokens": test.astype(np.uint16),
        "audit_positions": (2 * np.arange(AUDITED) + 1) * len(test) // (2 * AUDITED),
    }


def split_sizes(data: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Words of each split."""
    train = sum(len(array) for name, array in data.items() if name.startswith("train_tokens"))
    return {"train_samples": train, "eval_samples": len(data["test_tokens"])}


def score(predictions: Sequence[Any], data: Mapping[str, np.ndarray]) -> dict[str, float]:
    """`perplexity`, e ^ -mean log-probability; for `mini` also `excess_nats`, the nats per word above the grammar, and
    for subwords `log_perplexity`.

    Raises BadPrediction for anything but lists of log-probabilities, for an audited distribution that does not sum to
    1 or that disagrees with the text's log-probability there, and for a text more probable than the grammar allows.
    """
    tokens, positions = data["test_tokens"], data["audit_positions"]
    chunks = -(-len(tokens) // CHUNK)
    if len(predictions) != chunks + len(positions):
        raise BadPrediction(
            0, f"{len(predictions)} predictions for {chunks} chunks and {len(positions)} audited positions"
        )
    lengths = [CHUNK] * (len(tokens) // CHUNK) + [len(tokens) % CHUNK] * (len(tokens) % CHUNK > 0)
    text = np.concatenate(
        [_log_probabilities(line, predictions[line - 1], length) for line, length in enumerate(lengths, 1)]
    )
    for line, position in enumerate(positions, chunks + 1):
        distribution = _log_probabilities(line, predictions[line - 1], len(data["vocabulary"]))
        if abs((total := np.exp(distribution).sum()) - 1) > TOLERANCE:
            raise BadPrediction(line, f"the probabilities at word {position} sum to {total:.4f}, not 1")
        if abs((there := distribution[tokens[position]]) - text[position]) > TOLERANCE:
            raise BadPrediction(
                line, f"log-probability of word {position} is {there}, but {text[position]} in the text"
            )
    perplexity = {"perplexity": float(np.exp(np.minimum(-text.mean(), 700.0)))}
    if data["vocabulary"].dtype.kind == "u":
        return {"log_perplexity": float(-text.mean()), **perplexity}
    if (truth := data.get("answer_log_probabilities")) is None:
        return perplexity
    if (ahead := text.sum() - truth.sum(dtype=np.float64)) > LUCK:
        raise BadPrediction(0, f"the text is {ahead:.0f} nats more probable than by the grammar that it comes from")
    return {"excess_nats": float(-ahead / len(text)), **perplexity}


def _log_probabilities(line: int, values: Any, length: int) -> np.ndarray:
    """As float64 [length]. Raises BadPrediction unless `values` is a list of that many numbers from `LOWEST` to 0."""
    if type(values) is not list or len(values) != length:
        raise BadPrediction(line, f"{values!r:.40} is not a list of {length} log-probabilities")
    array = np.array(values, np.float64) if set(map(type, values)) == {float} else None
    if array is not None and LOWEST <= array.min() <= array.max() <= 0:  # there are millions, on the clock
        return array
    for value in values:
        if type(value) not in (float, int) or not LOWEST <= value <= 0:
            raise BadPrediction(line, f"{value!r:.40} is not a log-probability from {LOWEST:.0f} to 0")
    return np.array(values, np.float64)
