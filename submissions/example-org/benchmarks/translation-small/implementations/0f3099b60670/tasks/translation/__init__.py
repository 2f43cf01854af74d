"""Translation from English to German; the quality is sacreBLEU's corpus BLEU (13a, cased) on detokenised text.

A prediction is the German text of one test sentence, a string. Arrays (both scales):
`subword_model` uint8, a sentencepiece model of both languages, learnt from the training split;
`train_source`, `train_target`, `test_source` uint16: the subwords of one sentence after the other, each sentence
ended by END; `answer_text` uint8: the reference translations in UTF-8, each ended by a line feed.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from sacrebleu.metrics.bleu import BLEU

from suite.errors import BadPrediction, UserError
from tasks.translation.phrases import phrases

PAD, BEGIN, END, UNKNOWN = range(4)  # subwords with a meaning of their own
SUBWORDS = {"mini": 1000, "small": 4000}
PHRASES_TRAIN, PHRASES_TEST = 10_000, 500
LONGEST = 1000  # characters of a prediction; the longest reference has 198
# Words that one of the two languages has and the other has not.
FREQUENT = {
    "en": frozenset(["a", "and", "is", "of", "on", "the", "to", "with"]),
    "de": frozenset(["auf", "der", "die", "ein", "eine", "einem", "einen", "einer", "mit", "und"]),
}


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
    """The English and the German sentences of a split, white space made single spaces.

    Raises UserError that names the file and the line of what is no text, empty, misaligned or in the wrong language.
    """
    paths = [folder / f"{split}.{language}.gz" for language in ("en", "de")]
    english, german = (sentences(path) for path in paths)
    if len(english) != len(german):
        short, long = sorted(zip((len(english), len(german)), paths, strict=True))
        raise UserError(f"{short[1]}: line {short[0] + 1} is missing: {long[1].name} has {long[0]} lines.")
    for path, text, language in zip(paths, (english, german), ("en", "de"), strict=True):
        _check_language(path, text, language)
    return english, german


def sentences(path: Path) -> list[str]:
    """The lines of a gzipped UTF-8 file, none of them empty. Raises UserError that names the file and the line."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be unpacked ({error}): fetch it again.") from error
    text = []
    for number, line in enumerate(content.splitlines(), 1):
        try:
            text.append(" ".join(line.decode().split()))
        except UnicodeDecodeError as error:
            raise UserError(f"{path}, line {number}: expected UTF-8, found {line[error.start]:#04x}.") from error
        if not text[-1]:
            raise UserError(f"{path}, line {number}: expected a sentence, found an empty line.")
    if not text:
        raise UserError(f"{path}, line 1: expected a sentence, found the end of the file.")
    return text


def _check_language(path: Path, text: list[str], language: str) -> None:
    """Raises UserError, with the first line in the other language, if that is what most telling words belong to."""
    (other,) = FREQUENT.keys() - {language}
    foreign = [_frequent(line, other) - _frequent(line, language) for line in text]
    if sum(foreign) > 0:
        line = 1 + next(i for i, excess in enumerate(foreign) if excess > 0)
        raise UserError(f"{path}, line {line}: expected language {language!r}, found {other!r}: are two files swapped?")


def _frequent(line: str, language: str) -> int:
    return sum(word in FREQUENT[language] for word in line.lower().split())


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
