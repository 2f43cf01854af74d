"""Text as shards of tokens, in the format of llm.c (github.com/karpathy/llm.c, dev/data/data_common.py).

A shard is a header of 256 int32 numbers, the first three of which are MAGIC, 1 and the count of tokens, and then the
tokens, uint16, all little-endian. Each document begins with one token, `begin`. `full` has FineWeb's shards as they are
published; `pilot` has WikiText-2 in the same form, made here: a byte-pair encoding is learnt from its training text,
then each shard is a part of the articles.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

MAGIC, HEADER = 20240520, 256  # int32 numbers
PILOT_SHARDS = 6
PILOT_VOCABULARY = 4096
PILOT = "wikitext-2-bpe"


@dataclass(frozen=True)
class Sharded:
    """A sharded text: the file `test`, of which `test_tokens` after the first are scored."""

    test: str
    test_tokens: int
    vocabulary: int
    begin: int


SHARDED = {
    "pilot": Sharded(f"{PILOT}/val_000000.bin", 65_536, PILOT_VOCABULARY, 1),
    # GPT-2's 50,257 tokens (Radford et al. 2019), the last <|endoftext|>; records are scored on 10 * 2^20 tokens
    "full": Sharded("fineweb10B/fineweb_val_000000.bin", 10_485_760, 50_257, 50_256),
}


def read_shard(path: Path) -> np.ndarray:
    """The tokens uint16 of a shard, memory-mapped. Raises ValueError for a file of another format or length."""
    header = np.fromfile(path, "<i4", HEADER)
    tokens: np.ndarray = np.memmap(path, "<u2", "r", 4 * HEADER)
    if len(header) < HEADER or [*header[:3]] != [MAGIC, 1, len(tokens)]:
        raise ValueError(f"{path} is no shard of {len(tokens)} tokens: it begins with {[*map(int, header[:3])]}")
    return tokens


def write_shard(path: Path, tokens: np.ndarray) -> None:
    """Write `tokens`, each below 2^16, as a shard."""
    header = np.zeros(HEADER, "<i4")
    header[:3] = MAGIC, 1, len(tokens)
    path.write_bytes(header.tobytes() + tokens.astype("<u2").tobytes())


def make(scale: str, files: Path, path: str, into: Path) -> None:
    """See `suite.store.modules.Sharding`: of `pilot` the tokeniser, and then the shards of both splits."""
    import sentencepiece

    assert scale == "pilot", "the shards of other scales are published"
    if path == f"{PILOT}/tokenizer.model":
        into.write_bytes(_tokeniser(_text(files, "train")))
        return
    split, number = path.removeprefix(f"{PILOT}/").removesuffix(".bin").split("_")
    articles = _articles(_text(files, "train" if split == "train" else "test"))
    if split == "train":
        articles = articles[int(number) :: PILOT_SHARDS]
    subwords = sentencepiece.SentencePieceProcessor(model_file=str(files / PILOT / "tokenizer.model"))
    write_shard(into, np.concatenate([np.array([subwords.bos_id(), *ids]) for ids in subwords.encode(articles)]))


def _text(files: Path, split: str) -> str:
    return (files / "wikitext-2" / f"wiki.{split}.tokens").read_text("utf-8")


def _articles(text: str) -> list[str]:
    """Each begins with its title, a line ` = Title = `; a section's title has more signs, as ` = = Section = = `."""
    articles: list[list[str]] = []
    for line in text.splitlines():
        title = line.startswith(" = ") and not line.startswith(" = = ")
        if title or not articles:
            articles.append([])
        articles[-1].append(line.strip())
    return ["\n".join(lines).strip() for lines in articles if any(lines)]


def _tokeniser(text: str) -> bytes:
    """A byte-pair encoding (Sennrich et al. 2016) that falls back to bytes and keeps ends of lines; always the same."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text.splitlines()),
        model_writer=model,
        model_type="bpe",
        vocab_size=PILOT_VOCABULARY,
        byte_fallback=True,
        normalization_rule_name="identity",
        user_defined_symbols=["\n", "<unk>"],  # WikiText's own word for those it left out
        max_sentence_length=1 << 16,
        shuffle_input_sentence=False,
        num_threads=1,
        unk_id=0,
        unk_piece="<none>",
        bos_id=1,
        eos_id=-1,
        pad_id=-1,
        minloglevel=2,
    )
    return model.getvalue()
