"""Pairs of sentences as shards of subwords, of WMT's English and German (`full`) or of Multi30k (`pilot`).

A shard is uint16, little-endian: for one pair after the other the subwords of the source, END, those of the target,
END; the rest is zeros. Shard `i` of `n` has every `n`-th pair from pair `i` on. The subwords are a byte-pair encoding
of both languages, learnt here from every `learnt_from`-th pair. They, and the test's sentences and references, lie in
files of a stated size too: eight bytes that say how many bytes follow, those bytes, and zeros.

A shard is made from the text, some thousand pairs at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

import sentencepiece

from suite.errors import UserError
from tasks.translation.subwords import encoded, subword_model
from tasks.translation.texts import cleaned, newstest2014, parallel, wmt_lines

TOGETHER = 5000  # pairs
COVERAGE = 0.9998  # of the text's characters, by those that are subwords


@dataclass(frozen=True)
class Text:
    """The text of a scale, and the files that are made of it: of how many bytes each, and how many shards."""

    folder: str
    pairs: int
    subwords: int
    learnt_from: int  # every pair whose number this divides
    shards: int
    shard_bytes: int
    model_bytes: int
    test_bytes: int


TEXTS = {
    "pilot": Text("multi30k-bpe", 29_000, 2000, 1, 5, 1 << 19, 1 << 17, 1 << 18),
    # 88 subwords a pair, twice a sentence's, have room
    "full": Text("wmt-en-de", 4_590_101, 33_952, 16, 16, 48 << 20, 1 << 20, 1 << 20),
}


def make(scale: str, files: Path, path: str, into: Path) -> None:
    """See `suite.store.modules.Sharding`: first the subwords, then the shards and the test's sentences."""
    text, name = TEXTS[scale], Path(path).stem
    if name == "subwords":
        pairs = _pairs(scale, files, 0, text.learnt_from)
        model = subword_model((line for pair in pairs for line in pair), text.subwords, COVERAGE)
        _write_boxed(into, model, text.model_bytes)
    elif name == "test":
        english, german = newstest2014(files) if scale == "full" else parallel(files / "multi30k", "test_2016_flickr")
        lines = "".join(f"{line}\n" for line in english + german)
        _write_boxed(into, lines.encode(), text.test_bytes)
    else:
        number = int(name.removeprefix("train_"))
        subwords = sentencepiece.SentencePieceProcessor(model_proto=read_boxed(files / text.folder / "subwords.bin"))
        with into.open("wb") as out:
            found = _write(subwords, _pairs(scale, files, number, text.shards), text.shard_bytes, out)
        if found != (right := len(range(number, text.pairs, text.shards))):
            raise UserError(f"the text of {path} has {found} pairs of sentences, not {right}")


def read_test(scale: str, files: Path) -> tuple[list[str], list[str]]:
    """The sentences of the test and their references."""
    lines = read_boxed(files / TEXTS[scale].folder / "test.bin").decode().split("\n")[:-1]
    return lines[: len(lines) // 2], lines[len(lines) // 2 :]


def read_boxed(path: Path) -> bytes:
    """What a file of a stated size holds. Raises UserError for one that claims to hold more than it has."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    if not 8 < end <= len(content):
        raise UserError(f"{path} says that it holds {end - 8} bytes, and it has {len(content) - 8}")
    return content[8:end]


def _write_boxed(path: Path, content: bytes, size: int) -> None:
    assert 8 + len(content) <= size, f"{len(content)} bytes do not fit into {size} - 8"
    path.write_bytes((len(content).to_bytes(8, "little") + content).ljust(size, b"\0"))


def _write(
    subwords: sentencepiece.SentencePieceProcessor, pairs: Iterator[tuple[str, str]], size: int, out: IO[bytes]
) -> int:
    """Write a shard of `size` bytes; return how many pairs it has."""
    count = 0
    while some := list(islice(pairs, TOGETHER)):
        out.write(encoded(subwords, [line for pair in some for line in pair]).astype("<u2").tobytes())
        count += len(some)
    assert out.tell() <= size, f"{size} bytes are too few for a shard of {out.tell()}"
    out.truncate(size)
    return count


def _pairs(scale: str, files: Path, first: int, step: int) -> Iterator[tuple[str, str]]:
    """Every `step`-th pair of the training text from pair `first` on."""
    if scale == "full":
        for english, german in islice(wmt_lines(files), first, None, step):
            yield cleaned(english), cleaned(german)
    else:
        yield from islice(zip(*parallel(files / "multi30k", "train"), strict=True), first, None, step)
