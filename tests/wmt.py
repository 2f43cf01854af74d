"""Archives in WMT's format, with made-up sentences of similar lengths in two languages of made-up words."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np

from tasks.translation import shards, texts
from tests.imagenet import add

SYLLABLES = [first + vowel for first in "bcdfgklmnprst" for vowel in "aeiouäö"]
ODD = ("\u00ad", "  ", "\t", "\r", "\u00a0", "\u2028")  # soft hyphens, and white space of all kinds within lines


def sentences(count: int, random: np.random.Generator) -> tuple[list[str], list[str]]:
    """Pairs of sentences, of some 25 frequent and rare words each; each word always has the same translation."""
    different = min(2000 + count, 500_000)
    words = [["".join(random.choice(SYLLABLES, random.integers(1, 6))) for _ in range(different)] for _ in range(2)]
    made: tuple[list[str], list[str]] = ([], [])
    for length in np.clip(random.lognormal(3.1, 0.5, count), 1, 120).astype(int):
        chosen = (different ** random.random(length)).astype(int) - 1
        for lines, vocabulary in zip(made, words, strict=True):
            lines.append(" ".join(vocabulary[word] for word in chosen).capitalize() + ".")
    return made


def archives(folder: Path, pairs: int, test: int, random: np.random.Generator) -> tuple[list[str], list[str]]:
    """Write archives as their authors publish them. Returns all sentences, cleaned, with those of the test last."""
    made = sentences(pairs + test, random)
    made[0][0] = made[1][1] = ""
    (folder / "wmt").mkdir()
    cuts = [0, pairs // 2, pairs - pairs // 8, pairs]
    for (path, name), begin, end in zip(texts.ARCHIVES.items(), cuts, cuts[1:], strict=False):
        with tarfile.open(folder / path, "w:gz") as archive:
            add(archive, f"training/{name.replace('de', 'cs')}.en", b"of another pair\n")
            for language, lines in (("de", made[1]), ("en", made[0])):
                add(archive, f"training/{name}.{language}", "".join(map(odd, lines[begin:end])).encode())
    with tarfile.open(folder / texts.TEST, "w:gz") as archive:
        for name, lines in ((texts.SOURCE, made[0]), (texts.REFERENCE, made[1])):
            add(archive, f"dev/{name}", sgm(lines[pairs:]).encode())
    return made


def odd(line: str) -> str:
    """A sentence as the line of a file, with characters that the suite leaves out or turns into spaces."""
    at = len(line) // 2
    return line[:at].replace(" ", ODD[at % len(ODD)].strip("\u00ad") or " ", 1) + "\u00ad" + line[at:] + "\n"


def sgm(lines: Sequence[str]) -> str:
    """Sentences in the format of WMT's test sets."""
    segments = "".join(f'<seg id="{i}">{line}</seg>\n' for i, line in enumerate(lines, 1))
    return f'<srcset setid="newstest2014" srclang="any">\n<doc docid="a">\n<p>\n{segments}</p>\n</doc>\n</srcset>\n'


@contextmanager
def in_the_place_of_wmt(folder: Path, like: shards.Text, test: int) -> Iterator[tuple[list[str], list[str]]]:
    """Write `archives` to `folder`, from which `full`, as `like` describes it, is made within the block."""
    made = archives(folder, like.pairs, test, np.random.default_rng(0))
    with mock.patch.dict(shards.TEXTS, full=like):
        yield made


def make_all(folder: Path) -> dict[str, np.ndarray]:
    """Make all files of `full`; return its shards, memory-mapped, by their arrays' names."""
    like = shards.TEXTS["full"]
    (folder / like.folder).mkdir()
    names = [f"train_{i:04d}" for i in range(like.shards)]
    for name in ("subwords", *names, "test"):
        shards.make("full", folder, f"{like.folder}/{name}.bin", folder / like.folder / f"{name}.bin")
    return {name.replace("_", "_pairs_"): np.memmap(folder / like.folder / f"{name}.bin", "<u2", "r") for name in names}
