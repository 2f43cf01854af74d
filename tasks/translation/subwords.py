"""Subwords of both languages: how they are learnt, and sentences written in them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

import numpy as np
import sentencepiece

PAD, BEGIN, END, UNKNOWN = range(4)  # subwords with a meaning of their own


def subword_model(text: Iterable[str], size: int, coverage: float = 1.0) -> bytes:
    """A byte-pair encoding (Sennrich et al. 2016) of `size` subwords, each digit one; always the same bytes for a text.

    The most frequent characters that make up the share `coverage` of the text are subwords, all others unknown.
    """
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_writer=model,
        model_type="bpe",
        vocab_size=size,
        character_coverage=coverage,
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


def encoded(subwords: sentencepiece.SentencePieceProcessor, sentences: Sequence[str]) -> np.ndarray:
    """The subwords uint16 of one sentence after the other, each ended by END."""
    return np.concatenate([np.array([*ids, END], np.uint16) for ids in subwords.encode(sentences)])
