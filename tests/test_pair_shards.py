"""Pairs of sentences: archives as WMT's are made into shards of subwords, and read from them."""

import tarfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sentencepiece

from suite import config
from suite.errors import UserError
from suite.run.__main__ import main
from suite.store import shards as made_files
from suite.store.task import load_task
from tasks.translation import shards, texts
from tasks.translation.sizes import sized
from tasks.translation.subwords import END
from tests.command import run
from tests.imagenet import add
from tests.killed_making import killed_and_made
from tests.wmt import in_the_place_of_wmt, make_all

TASK = load_task("translation")
PILOT = config.benchmark("translation", "pilot")
FULL = config.benchmark("translation", "full")
PAIRS, TEST = 203, 7
SMALL = shards.Text("wmt-en-de", PAIRS, 300, 2, 3, 1 << 16, 1 << 17, 1 << 14)


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Archives in `tmp_path`, taken for WMT's, and their sentences."""
    with in_the_place_of_wmt(tmp_path, SMALL, TEST) as made:
        yield made


def text(data: dict[str, np.ndarray], subwords: np.ndarray) -> list[str]:
    """Sentences that stand one after the other."""
    model = sentencepiece.SentencePieceProcessor(model_proto=data["subword_model"].tobytes())
    ends = np.flatnonzero(subwords == END) + 1
    decoded: list[str] = model.decode([row[:-1].tolist() for row in np.split(subwords, ends)[:-1]])
    return decoded


def test_shards_hold_every_pair_once_in_turn(tmp_path: Path, lines: tuple[list[str], list[str]]) -> None:
    mapped = make_all(tmp_path)
    data = {**TASK.prepare("full", tmp_path), **mapped}
    assert TASK.split_sizes(data) == {"eval_samples": TEST}
    for i, shard in enumerate(mapped.values()):
        found = text(data, shard)
        assert (found[::2], found[1::2]) == (lines[0][i:PAIRS:3], lines[1][i:PAIRS:3])
        used = np.flatnonzero(shard == END)[-1] + 1
        assert shard[:used].all()
        assert not shard[used:].any()
    assert "" in text(data, mapped["train_pairs_0000"])
    model = sentencepiece.SentencePieceProcessor(model_proto=data["subword_model"].tobytes())
    assert model.vocab_size() == SMALL.subwords
    assert text(data, data["test_source"]) == lines[0][PAIRS:]
    assert TASK.score(lines[1][PAIRS:], data) == {"uncased_bleu": pytest.approx(100)}
    assert TASK.score([line.upper() for line in lines[1][PAIRS:]], data)["uncased_bleu"] == pytest.approx(100)


def test_what_is_made_is_always_the_same(tmp_path: Path, lines: tuple[list[str], list[str]]) -> None:
    make_all(tmp_path)
    for path in (tmp_path / SMALL.folder).iterdir():
        shards.make("full", tmp_path, f"{SMALL.folder}/{path.name}", tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_other_archives_are_refused(tmp_path: Path, lines: tuple[list[str], list[str]]) -> None:
    make_all(tmp_path)
    shard = (f"{SMALL.folder}/train_0001.bin", tmp_path / "made")
    path, name = [*texts.ARCHIVES.items()][2]
    for languages, problem in (
        (("en", "de"), r"the text of .*train_0001\.bin has \d+ pairs of sentences, not 68"),
        (("en", "fr"), rf"{Path(path).name} holds no {name}\.de"),
    ):
        with tarfile.open(tmp_path / path, "w:gz") as archive:
            for language in languages:
                add(archive, f"training/{name}.{language}", b"one\n")
        with pytest.raises(UserError, match=problem):
            shards.make("full", tmp_path, *shard)
    with tarfile.open(tmp_path / path, "w:gz") as archive:
        add(archive, f"{name}.en", b"one\ntwo\n")
        add(archive, f"{name}.de", b"eins\n")
    with pytest.raises(UserError, match=rf"{name}\.en and {name}\.de have not as many lines"):
        shards.make("full", tmp_path, *shard)
    (tmp_path / path).write_bytes(b"no archive")
    with pytest.raises(UserError, match=r"cannot read .*nc-v12\.tgz: .*; python -m suite\.data fetch"):
        shards.make("full", tmp_path, *shard)


def test_a_line_that_is_no_utf_8_or_cannot_be_printed_is_a_line_of_text() -> None:
    """The languages' lines must not shift."""
    assert texts.cleaned("\ta\u00a0 soft\u00ad hyphen\n".encode() + b"\xff") == "a soft hyphen \ufffd"


@pytest.mark.parametrize("content", [b"", b"\0" * 100, (93).to_bytes(8, "little") + b"x" * 92, b"\xff" * 100])
def test_a_file_that_holds_less_than_it_says_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "subwords.bin").write_bytes(content)
    with pytest.raises(UserError, match=r"subwords\.bin says that it holds"):
        shards.read_boxed(tmp_path / "subwords.bin")


def test_what_is_declared_is_what_is_made() -> None:
    for benchmark in (PILOT, FULL):
        made, dataset = shards.TEXTS[benchmark.scale], benchmark.dataset
        sizes = [made.model_bytes, *[made.shard_bytes] * made.shards, made.test_bytes]
        assert [file.bytes for file in dataset.members] == sizes
        assert dataset.members[0].path == f"{made.folder}/subwords.bin"
        assert len(dataset.shards_of("train_pairs")) == made.shards
        assert dataset.train_samples is None
    assert {file.path for file in FULL.dataset.source_files.members} == {*texts.ARCHIVES, texts.TEST}
    assert shards.TEXTS["full"].pairs == 1_920_209 + 2_399_123 + 270_769  # as MLPerf's logs have train_samples
    part = FULL.of_subset(0.1).dataset
    assert len(part.shards_of("train_pairs")) == 2


@pytest.mark.parametrize("scale", ["pilot", "full"])
def test_the_declared_signature_is_that_of_the_metric(scale: str) -> None:
    from tasks.translation import uncased_metric

    bleu = uncased_metric()
    bleu.corpus_score(["Ein Satz."], [["Ein Satz."]])
    assert config.benchmark("translation", scale).metric_signature == str(bleu.get_signature())


def test_pairs_are_made_of_one_length(tmp_path: Path, lines: tuple[list[str], list[str]]) -> None:
    mapped = make_all(tmp_path)
    data = {**TASK.prepare("full", tmp_path), **mapped}
    arrays, hyperparameters = sized(21, data)
    assert hyperparameters == {"max_sequence_length": 24}
    for name, array in arrays.items():
        ends = np.flatnonzero(array == END) + 1
        assert (np.diff(ends, prepend=0) == 21).all(), name
        assert len(ends) == (np.asarray(data[name]) == END).sum(), name


@pytest.mark.soak
def test_making_a_shard_takes_little_memory(tmp_path: Path) -> None:
    """Whatever the text's length: some thousand pairs at a time."""
    like = shards.Text("wmt-en-de", 20_000, 300, 100, 1, 8 << 20, 1 << 17, 1 << 14)
    with in_the_place_of_wmt(tmp_path, like, TEST):
        make_all(tmp_path)
        tracemalloc.start()
        shards.make("full", tmp_path, "wmt-en-de/train_0000.bin", tmp_path / "made")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 64e6, peak


@pytest.mark.slow
@pytest.mark.data("translation/small")
def test_the_pilots_shards_are_made_once_and_a_killed_making_goes_on(tmp_path: Path) -> None:
    """And a changed one is told."""
    made = killed_and_made(PILOT, tmp_path, "multi30k", 2)
    (tmp_path / "multi30k").unlink()  # of what is made nothing is made again
    assert made_files.ensure(PILOT, tmp_path) == tmp_path
    with (made / "train_0003.bin").open("r+b") as file:
        file.write(b"\1\1")
    done = run(tmp_path, "suite.data", "verify", "translation/pilot", f"data_dir={tmp_path}")
    assert done.returncode == 1
    assert "train_0003.bin is corrupt" in done.stdout


def test_a_dry_run_tells_what_is_brought_and_what_is_made_of_it(tmp_path, capsys):
    assert main(["task=translation", "scale=full", "hw=cpu", f"data_dir={tmp_path}", "dry_run=true"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"1.78 GB of 1.78 GB are to be brought to {tmp_path}" in said
    assert "0.81 GB are to be made of them there" in said
    assert main(["task=translation", "scale=small", "hw=cpu", f"data_dir={tmp_path}", "dry_run=true"]) == 0
    assert "1.2 MB of 1.2 MB are to be brought" in " ".join(capsys.readouterr().out.split())
