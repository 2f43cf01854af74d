"""Translation from English to German; the quality is sacreBLEU's corpus BLEU on detokenised text.

For `mini` and `small` it is cased, on text tokenised by 13a. For `pilot` and `full` it is MLPerf's: uncased, on text
tokenised as by mteval-v14 with its international tokenisation.

A prediction is the German text of one test sentence, a string. Arrays of `mini` and `small`:
`subword_model` uint8, a sentencepiece model of both languages, learnt from the training split;
`train_source`, `train_target`, `test_source` uint16: the subwords of one sentence after the other, each sentence
ended by END; `answer_text` uint8: the reference translations in UTF-8, each ended by a line feed.

In `pilot` and `full` shards `train_pairs_0000` and so on, uint16, which `shards.py` makes, take the place of
`train_source` and `train_target`, and `answer_uncased_text`, in lower case, that of `answer_text`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from sacrebleu.metrics.bleu import BLEU

from suite.errors import BadPrediction
from tasks.translation.phrases import phrases
from tasks.translation.shards import TEXTS, read_boxed, read_test
from tasks.translation.subwords import END, encoded, subword_model
from tasks.translation.texts import parallel

METRICS = {"bleu": (0.0, 100.0), "uncased_bleu": (0.0, 100.0)}
SUBWORDS = {"mini": 1000, "small": 4000}
PHRASES_TRAIN, PHRASES_TEST = 10_000, 500
LONGEST = 1000  # characters of a prediction, or TIMES_LONGER those of the longest reference; small's has 198
TIMES_LONGER = 5


def prepare(scale: str, files: Path) -> dict[str, np.ndarray]:
    """The arrays of `mini` (CLDR phrases, 10,000 + 500), `small` (Multi30k, 29,000 + 1,000 of test_2016_flickr), or
    a sharded scale."""
    if scale in TEXTS:
        return _sharded(scale, files)
    if scale == "mini":
        english, german = phrases(PHRASES_TRAIN + PHRASES_TEST)
        train = english[:PHRASES_TRAIN], german[:PHRASES_TRAIN]
        test = english[PHRASES_TRAIN:], german[PHRASES_TRAIN:]
    else:
        train = parallel(files / "multi30k", "train")
        test = parallel(files / "multi30k", "test_2016_flickr")
    model = subword_model(train[0] + train[1], SUBWORDS[scale])
    subwords = sentencepiece.SentencePieceProcessor(model_proto=model)
    return {
        "subword_model": np.frombuffer(model, np.uint8),
        "train_source": encoded(subwords, train[0]),
        "train_target": encoded(subwords, train[1]),
        "test_source": encoded(subwords, test[0]),
        "answer_text": _lines(test[1]),
    }


def _sharded(scale: str, files: Path) -> dict[str, np.ndarray]:
    model = read_boxed(files / TEXTS[scale].folder / "subwords.bin")
    source, references = read_test(scale, files)
    return {
        "subword_model": np.frombuffer(model, np.uint8),
        "test_source": encoded(sentencepiece.SentencePieceProcessor(model_proto=model), source),
        "answer_uncased_text": _lines([line.lower() for line in references]),
    }


def _lines(sentences: Sequence[str]) -> np.ndarray:
    return np.frombuffer("".join(f"{line}\n" for line in sentences).encode(), np.uint8)


def metric() -> BLEU:
    """BLEU as shared tasks report it (Post 2018); a run logs its signature."""
    return BLEU(tokenize="13a", force=True)  # force: no warning about text that looks tokenised


def uncased_metric() -> BLEU:
    """BLEU as MLPerf's reference of the Transformer computes it (`compute_bleu.py`, uncased), logged likewise."""
    return BLEU(lowercase=True, tokenize="intl", force=True)


def split_sizes(data: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Sentences of each split; with shards, whose samples are subwords of batches, those of the test alone."""
    names = {"train_samples": "train_source", "eval_samples": "test_source"}
    return {size: int((data[name] == END).sum()) for size, name in names.items() if name in data}


def score(predictions: Sequence[Any], data: Mapping[str, np.ndarray]) -> dict[str, float]:
    """`{"bleu": 0 to 100}`, or `uncased_bleu` if the references are uncased.

    Raises BadPrediction for what is not one line of printable characters, at most LONGEST or, if that is more,
    TIMES_LONGER times those of the longest reference, or when there is not one for each test sentence.
    """
    name, text, made = "bleu", data.get("answer_text"), metric()
    if text is None:
        name, text, made = "uncased_bleu", data["answer_uncased_text"], uncased_metric()
    references = text.tobytes().decode().split("\n")[:-1]
    if len(predictions) != len(references):
        raise BadPrediction(0, f"{len(predictions)} predictions for {len(references)} test sentences")
    longest = max(LONGEST, *(TIMES_LONGER * len(reference) for reference in references))
    for line, prediction in enumerate(predictions, 1):
        if type(prediction) is not str:
            raise BadPrediction(line, f"expected a string, found {type(prediction).__name__}")
        if len(prediction) > longest:
            raise BadPrediction(line, f"{len(prediction)} characters; a translation has at most {longest}")
        if not prediction.isprintable():
            raise BadPrediction(line, f"{prediction!r:.40} is not one line of printable characters")
    return {name: float(made.corpus_score(predictions, [references]).score)}
