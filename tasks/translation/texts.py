"""Parallel text as its authors give it: the gzipped files of Multi30k, the archives of WMT."""

from __future__ import annotations

import gzip
import re
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from suite.errors import UserError

# Those of WMT 2017 that MLPerf's reference takes, and the files in them without the ending of the language
ARCHIVES = {
    "wmt/training-parallel-europarl-v7.tgz": "europarl-v7.de-en",
    "wmt/training-parallel-commoncrawl.tgz": "commoncrawl.de-en",
    "wmt/training-parallel-nc-v12.tgz": "news-commentary-v12.de-en",
}
TEST = "wmt/dev.tgz"
SOURCE, REFERENCE = "newstest2014-deen-src.en.sgm", "newstest2014-deen-ref.de.sgm"
_SEGMENT = re.compile(r"<seg[^>]*>(.*?)</seg>")


def parallel(folder: Path, split: str) -> tuple[list[str], list[str]]:
    """The English and the German sentences of a split of Multi30k, white space made single spaces."""
    return _sentences(folder / f"{split}.en.gz"), _sentences(folder / f"{split}.de.gz")


def _sentences(path: Path) -> list[str]:
    lines = gzip.decompress(path.read_bytes()).splitlines()
    return [" ".join(line.decode().split()) for line in lines]


def wmt_lines(files: Path) -> Iterator[tuple[bytes, bytes]]:
    """The English and the German line of each pair of WMT's training text, archive by archive; see `cleaned`.

    An archive is unpacked as it is read, once for each language. Raises UserError where the languages' lines differ in
    number.
    """
    for archive, name in ARCHIVES.items():
        with _member(files / archive, f"{name}.en") as english, _member(files / archive, f"{name}.de") as german:
            try:
                yield from zip(english, german, strict=True)
            except ValueError:
                raise UserError(f"{files / archive}: {name}.en and {name}.de have not as many lines") from None


def newstest2014(files: Path) -> tuple[list[str], list[str]]:
    """The English sentences of newstest2014 and their German reference translations, as sacreBLEU reads them."""
    english, german = (_segments(files / TEST, name) for name in (SOURCE, REFERENCE))
    return english, german


def _segments(archive: Path, name: str) -> list[str]:
    with _member(archive, name) as file:
        return [cleaned(found.encode()) for found in _SEGMENT.findall(file.read().decode())]


def cleaned(line: bytes) -> str:
    """A line's text with single spaces, without characters that cannot be printed, such as soft hyphens."""
    text = " ".join(line.decode(errors="replace").split())
    return text if text.isprintable() else " ".join("".join(filter(str.isprintable, text)).split())


@contextmanager
def _member(archive: Path, name: str) -> Iterator[IO[bytes]]:
    """The file of this name, in any folder of an archive. Raises UserError if there is none."""
    with ExitStack() as stack:
        try:
            tar = stack.enter_context(tarfile.open(archive, "r:gz"))
        except (OSError, tarfile.TarError) as error:
            raise UserError(f"cannot read {archive}: {error}; python -m suite.data fetch translation/full") from error
        for member in tar:
            if member.isreg() and Path(member.name).name == name:
                content = tar.extractfile(member)
                assert content
                yield stack.enter_context(content)
                return
        raise UserError(f"{archive} holds no {name}")
