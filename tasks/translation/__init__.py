"""Translation from English to German; the quality is sacreBLEU's corpus BLEU (13a, cased) on detokenised text.

A prediction is the German text of one test sentence, a string. Arrays (both scales):
`subword_model` uint8, a sentencepiece model of both languages, learnt from the training split;
`train_source`, `train_target`, `test_source` uint16: the subwords of one sentence after the other, each sentence
ended by END; `answer_text` uint8: the reference translations in UTF-8, each ended by a line feed.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from sacrebleu.metrics.bleu import BLEU

from suite.errors import BadPrediction
from tasks.translation.phrases import phrases

METRICS = {"bleu": (0.0, 100.0)}
PAD, BEGIN, END, UNKNOWN = range(4)  # subwords with a meaning of their own
SUBWORDS = {"mini": 1000, "small": 4000}
PHRASES_TRAIN, PHRASES_TEST = 10_000, 500
LONGEST = 1000  # characters of a prediction; the longest reference has 198


def prepare(scale: str, files: Path) -> dict[str, np.ndarray]:
    """The arrays of `mini` (CLDR phrases, 10,000 + 500) or `small` (Multi30k, 29,000 + 1,000 of test_2016_flickr)."""
    if scale == "mini":
        english, german = phrases(PHRASES_TRAIN + PHRASES_TEST)
        train = english[:PHRASES_TRAIN], german[:PHRASES_TRAIN]
        test = english[PHRASES_TRAIN:], german[PHRASES_TRAIN:]
    else:
        train = parallel(files / "multi30k", "train")
        test = parallel(files / "multi30k", "test_2016_flickr")
    model = subword_model(train[0] + train[1], SUBWORDS[scale])
    subwords = sentencepiece.SentencePieceProcessor(model_proto=model)

    def encoded(sentences: list[str]) -> np.ndarray:
        return np.concatenate([np.array([*ids, END], np.uint16) for ids in subwords.encode(sentences)])

    return {
        "subword_model": np.frombuffer(model, np.uint8),
        "train_source": encoded(train[0]),
        "train_target": encoded(train[1]),
        "test_source": encoded(test[0]),
        "answer_text": np.frombuffer("".join(f"{line}\n" for line in test[1]).encode(), np.uint8),
    }


def parallel(folder: Path, split: str) -> tuple[list[str], list[str]]:
    """The English and the German sentences of a split, white space made single spaces."""
    return _sentences(folder / f"{split}.en.gz"), _sentences(folder / f"{split}.de.gz")


def _sentences(path: Path) -> list[str]:
    lines = gzip.decompress(path.read_bytes()).splitlines()
    return [" ".join(line.decode().split()) for line in lines]


def subword_model(text: list[str], size: int) -> bytes:
    """A byte-pair encoding (Sennrich et al. 2016) of `size` subwords, each digit one of them; always the same bytes."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_writer=model,
        model_type="bpe",
        vocab_size=size,
        character_coverage=1.0,
        normalization_rule_name="identity",
        split_digits=True,
        shuffle_input_sentence=False,
        num_threads=1,
        pad_id=PAD,
        bos_id=BEGIN,
        eos_id=END,
        unk_id=UNKNOWN,
        minloglevel=2,
    )
    return model.getvalue()


def metric() -> BLEU:
    """BLEU as shared tasks report it (Post 2018); a run logs its signature."""
    return BLEU(tokenize="13a", force=True)  # force: no warning about text that looks tokenised


def split_sizes(data: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Sentences of each split."""
    train, test = (int((data[name] == END).sum()) for name in ("train_source", "test_source"))
    return {"train_samples": train, "eval_samples": test}


def score(predictions: Sequence[Any], data: Mapping[str, np.ndarray]) -> dict[str, float]:
    """`{"bleu": 0 to 100}`.

    Raises BadPrediction for what is not one line of at most LONGEST printable characters, or when there is not one
    for each test sentence.
    """
    references = data["answer_text"].tobytes().decode().split("\n")[:-1]
    if len(predictions) != len(references):
        raise BadPrediction(0, f"{len(predictions)} predictions for {len(references)} test sentences")
    for line, prediction in enumerate(predictions, 1):
        if type(prediction) is not str:
            raise BadPrediction(line, f"expected a string, found {type(prediction).__name__}")
        if len(prediction) > LONGEST:
            raise BadPrediction(line, f"{len(prediction)} characters; a translation has at most {LONGEST}")
        if not prediction.isprintable():
            raise BadPrediction(line, f"{prediction!r:.40} is not one line of printable characters")
    return {"bleu": float(metric().corpus_score(predictions, [references]).score)}
