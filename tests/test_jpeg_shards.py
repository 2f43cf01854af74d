"""Images of a thousand classes: archives as ImageNet's are made into shards, and read from them."""

import errno
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image

from suite import config
from suite.errors import UserError
from suite.run.__main__ import main
from suite.store import files
from suite.store import shards as made_files
from suite.store.arrays import prepared
from suite.store.task import load_task
from tasks.image_classification import archives, folders, hub, index, shards
from tasks.image_classification.jpegs import Jpegs
from tasks.image_classification.requests import request
from tests.command import ENVIRONMENT
from tests.imagenet import in_the_place_of_imagenet, make_all, write_archives, write_folders, write_parquet

TASK = load_task("image_classification")
PILOT = config.benchmark("image_classification", "pilot")
FULL = config.benchmark("image_classification", "full")
TRAIN_BYTES, TEST_BYTES = 147_897_477_120, 6_744_924_160  # of ImageNet's archives
CLASSES, TRAIN, TEST = 5, 23, 6
SMALL = index.Pictures("imagenet-jpeg", TRAIN, TEST, CLASSES, 5, 1 << 20, 1 << 21)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A folder of archives, and their pictures."""
    folder = tmp_path_factory.mktemp("drawn")
    return folder, write_archives(folder, SMALL)


@pytest.fixture
def pictures(tmp_path: Path, drawn: tuple[Path, dict[str, bytes]]) -> Iterator[dict[str, bytes]]:
    """Archives in `tmp_path`, taken for ImageNet's, and their pictures."""
    folder, made = drawn
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    with in_the_place_of_imagenet(tmp_path, SMALL):
        yield made


def make(folder: Path) -> dict[str, np.ndarray]:
    """All files of `full`, and its arrays."""
    mapped = make_all(folder)
    return {**TASK.prepare("full", folder), **mapped}


def test_shards_hold_every_picture_once_with_its_class(tmp_path: Path, pictures: dict[str, bytes]) -> None:
    data = make(tmp_path)
    train, test = Jpegs(data, "train"), Jpegs(data, "test")
    assert TASK.split_sizes(data) == {"train_samples": TRAIN, "eval_samples": TEST}
    found = [(int(label), file.tobytes()) for label, file in zip(data["train_labels"], train, strict=True)]
    right = [(int(name.split("/")[0]), file) for name, file in pictures.items() if name[0].isdigit()]
    assert sorted(found) == sorted(right)
    assert [label for label, _ in found[:CLASSES]] == [*range(CLASSES)]  # the first of each class come first
    assert [file.tobytes() for file in test] == [pictures[f"test/{i}"] for i in range(TEST)]
    assert data["answer_labels"].tolist() == [pictures[f"label/{i}"][0] for i in range(TEST)]
    total = int(data["train_lengths"].sum())
    assert SMALL.shard_bytes < total < SMALL.shards * SMALL.shard_bytes  # some lie in two shards; zeros at the end
    assert not np.concatenate([data[f"train_jpegs_{i:04d}"] for i in range(SMALL.shards)])[total:].any()


def test_a_part_of_the_shards_holds_the_pictures_that_lie_whole_in_it(
    tmp_path: Path, pictures: dict[str, bytes]
) -> None:
    data = make(tmp_path)
    whole = Jpegs(data, "train")
    part = Jpegs({name: data[name] for name in ("train_jpegs_0000", "train_lengths")}, "train")
    assert 0 < len(part) < len(whole)
    assert all(np.array_equal(a, b) for a, b in zip(part, whole, strict=False))
    assert int(part.ends[-1]) <= SMALL.shard_bytes < int(whole.ends[len(part)])


def test_requests_for_single_pictures_are_a_split_of_them(tmp_path: Path, pictures: dict[str, bytes]) -> None:
    data = make(tmp_path)
    asked = [request(data, index) for index in (4, 0)]
    together = {name: np.concatenate([each[name] for each in asked]) for name in asked[0]}
    assert [file.tobytes() for file in Jpegs(together, "test")] == [pictures["test/4"], pictures["test/0"]]


def test_other_archives_are_refused(tmp_path: Path, pictures: dict[str, bytes]) -> None:
    kit = tmp_path / archives.DEVKIT
    kit.write_bytes(kit.read_bytes() + b"0")
    with pytest.raises(UserError, match=r"devkit_t12\.tar\.gz is corrupt: its md5 is \w+, not \w+"):
        shards.make("full", tmp_path, f"{SMALL.folder}/index.bin", tmp_path / "index.bin")


@pytest.fixture
def unpacked(tmp_path: Path, pictures: dict[str, bytes]) -> Path:
    """A data folder with `imagenet/`, of the pictures of `tmp_path`'s archives."""
    write_folders(tmp_path, pictures, tmp_path / "unpacked")
    return tmp_path / "unpacked"


def test_folders_and_parquet_files_give_the_bytes_that_archives_give(
    tmp_path: Path, unpacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(unpacked, tmp_path / "packed")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / folders.NAME).symlink_to(unpacked / folders.NAME)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    made = make(tmp_path)
    for other in ("linked", "packed"):
        again = make(tmp_path / other)
        assert again.keys() == made.keys()
        assert all(np.array_equal(again[name], made[name]) for name in made), other


def test_shards_are_made_of_what_the_index_was_made_of(tmp_path: Path, unpacked: Path) -> None:
    """Also when the archives come later."""
    made = make(unpacked)
    for name in archives.MD5:
        (tmp_path / name).rename(unpacked / name)
    shards.make("full", unpacked, f"{SMALL.folder}/train_0000.bin", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == made["train_jpegs_0000"].tobytes()


def test_unpacking_goes_on_where_it_was_ended(tmp_path: Path, unpacked: Path) -> None:
    *_, last = write_parquet(unpacked, tmp_path / "packed")
    whole = last.read_bytes()
    at = whole.index(b"\xff\xd8\xff")  # within a page: the footer is right
    last.write_bytes(whole[: at - 20] + bytes(20) + whole[at:])
    with pytest.raises(UserError, match=r"cannot read .*validation-00000-of-00001\.parquet: .*; bring it again"):
        shards.bring("full", tmp_path / "packed")
    assert not folders.there(tmp_path / "packed")
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "packed" / "imagenet.part").rglob("*.JPEG")}
    assert len(kept) >= TRAIN
    torn = next(iter(kept))
    torn.write_bytes(torn.read_bytes()[:100])
    last.write_bytes(whole)
    shards.bring("full", tmp_path / "packed")
    found = {path.name: path for path in (tmp_path / "packed" / folders.NAME).rglob("*.JPEG")}
    assert len(found) == TRAIN + TEST
    assert {path for path in kept if found[path.name].stat().st_mtime_ns != kept[path]} == {torn}


def test_a_disk_that_is_full_is_no_fault_of_a_parquet_file(
    tmp_path: Path, unpacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(unpacked, tmp_path / "packed")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(UserError, match=r"ImageNet needs \d\.\d GB in .*packed, which has 0\.0 GB free"):
        shards.bring("full", tmp_path / "packed")
    monkeypatch.undo()
    monkeypatch.setattr(Path, "write_bytes", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        shards.bring("full", tmp_path / "packed")


def test_none_of_the_three_is_one_line_that_names_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with pytest.raises(UserError) as error:
        made_files.ensure(FULL, tmp_path / "none")
    said = str(error.value)
    assert "\n" not in said
    for part in (
        *archives.MD5,
        "imagenet/train/",
        "gated",
        "HF_TOKEN",
        "https://huggingface.co/datasets/ILSVRC/imagenet-1k",
    ):
        assert part in said
    (tmp_path / archives.TRAIN).touch()
    monkeypatch.setenv("HF_TOKEN", "a token")  # nothing is downloaded where an archive is
    with pytest.raises(UserError, match=rf"Bring one of three: {archives.TEST}, {archives.DEVKIT} of "):
        shards.bring("full", tmp_path)


def test_a_dry_run_tells_what_the_shards_can_be_made_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["task=image_classification", "scale=full", "hw=cpu", f"data_dir={tmp_path}", "dry_run=true"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "which each user accepts there); 154.67 GB are to be made of one of: the archives of https://image" in said
    assert f"https://huggingface.co/datasets/ILSVRC/imagenet-1k, gated, in {tmp_path}, which has" in said


def _lose_a_picture(folder: Path) -> None:
    next((folder / "train").rglob("*.JPEG")).unlink()


def _lose_a_class(folder: Path) -> None:
    shutil.rmtree(folder / "train" / min((folder / "val").iterdir()).name)


def _lose_a_class_of_both(folder: Path) -> None:
    for split in ("train", "val"):
        shutil.rmtree(max((folder / split).iterdir()))


def _rename(folder: Path) -> None:
    picture = next((folder / "val").rglob("*.JPEG"))
    picture.rename(picture.with_name("cat.jpg"))


@pytest.mark.parametrize(
    ("spoil", "answer"),
    [
        (_lose_a_picture, r"training pictures, test pictures and classes are \[22, 6, 5\], not \[23, 6, 5\]"),
        (_lose_a_class, r"imagenet/val has a class n\d{8}, and .*imagenet/train has not"),
        (_lose_a_class_of_both, r"classes are \[\d+, \d, 4\], not \[23, 6, 5\]"),
        (_rename, r"cat\.jpg is not called as ImageNet's pictures are: ILSVRC2012_val_00000001\.JPEG"),
        (
            lambda folder: shutil.rmtree(folder / "val"),
            r"cannot read .*imagenet/val: .*; it has a folder for each class",
        ),
    ],
)
def test_other_folders_are_refused(spoil: Callable[[Path], None], answer: str, unpacked: Path) -> None:
    spoil(unpacked / folders.NAME)
    with pytest.raises(UserError, match=answer):
        make(unpacked)


def test_a_picture_that_changed_since_the_index_was_made_is_refused(unpacked: Path, tmp_path: Path) -> None:
    make(unpacked)
    picture = next((unpacked / folders.NAME / "val").rglob("*.JPEG"))
    picture.write_bytes(b"short")
    with pytest.raises(UserError, match=r"\.JPEG has 5 bytes, and had \d+ when the index was made"):
        shards.make("full", unpacked, f"{SMALL.folder}/test_0000.bin", tmp_path / "made")


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (None, r"have \d+ training pictures and 6 of validation, not 23 and 6: .*HF_TOKEN"),
        (b"PAR1 no more", r"cannot read .*train-00000-of-00003\.parquet: .*; bring it again"),
    ],
)
def test_parquet_files_that_are_missing_or_unreadable_are_told(
    content: bytes | None, answer: str, tmp_path: Path, unpacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    first, *_ = write_parquet(unpacked, tmp_path / "packed")
    first.unlink() if content is None else first.write_bytes(content)
    with pytest.raises(UserError, match=answer):
        shards.bring("full", tmp_path / "packed")
    assert not (tmp_path / "packed" / "imagenet.part").exists()


@pytest.fixture
def served(tmp_path: Path, unpacked: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The hub's answers, to whom shows `right`, from a server of this machine; who does not is refused."""
    packed = {path.name: path.read_bytes() for path in write_parquet(unpacked, tmp_path / "on_the_hub")}
    listed = [
        {"path": f"data/{name}", "size": len(content), "lfs": {"oid": hashlib.sha256(content).hexdigest()}}
        for name, content in packed.items()
    ]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            body = packed[name] if name in packed else json.dumps([*listed, {"path": "data/test-0.parquet"}]).encode()
            self.send_response(200 if self.headers["Authorization"] == "Bearer right" else 403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(hub, "HUB", f"http://127.0.0.1:{http.server_port}")
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    yield "right"
    http.shutdown()
    http.server_close()


def test_the_gated_copy_is_downloaded_with_a_token(
    tmp_path: Path, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "another")
    with pytest.raises(
        UserError, match=r"403 .*Does HF_TOKEN open it\? To have the Hub's copy, which is gated: accept"
    ):
        shards.bring("full", tmp_path / "new")
    monkeypatch.setenv("HF_TOKEN", served)
    (tmp_path / "new").mkdir()
    assert make(tmp_path / "new")["answer_labels"].tolist() == make(tmp_path)["answer_labels"].tolist()


def test_what_full_declares_is_what_is_made() -> None:
    for benchmark in (PILOT, FULL):
        pictures, dataset = index.PICTURES[benchmark.scale], benchmark.dataset
        rows = index.ROW.itemsize * (pictures.train + pictures.test)
        sizes = [rows, *[pictures.shard_bytes] * pictures.shards, pictures.test_bytes]
        assert [file.bytes for file in dataset.members] == sizes
        assert (dataset.train_samples, dataset.eval_samples) == (pictures.train, pictures.test)
    full = index.PICTURES["full"]
    assert full.shards * full.shard_bytes >= TRAIN_BYTES - 512 * full.train  # a header beside each picture
    assert full.test_bytes >= TEST_BYTES - 512 * full.test


@pytest.mark.slow
def test_making_a_shard_of_full_takes_little_memory(tmp_path: Path) -> None:
    """With an index of ImageNet's size, of an archive that is a hole."""
    full = index.PICTURES["full"]
    with (tmp_path / archives.TRAIN).open("wb") as archive:
        archive.truncate(TRAIN_BYTES)
    rows = np.zeros(full.train + full.test, index.ROW)
    rows["place"], rows["length"] = np.arange(len(rows)) * 110_000, 110_000
    (tmp_path / full.folder).mkdir()
    rows.tofile(tmp_path / full.folder / "index.bin")
    tracemalloc.start()
    shards.make("full", tmp_path, f"{full.folder}/train_0300.bin", tmp_path / "made")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (tmp_path / "made").stat().st_size == full.shard_bytes
    assert peak < 128e6, peak


def test_a_pilot_takes_shards_of_full_and_all_test_pictures() -> None:
    part = FULL.of_subset(0.01).dataset
    assert len(part.shards_of("train_jpegs")) == 6
    assert len(part.shards_of("test_jpegs")) == 1
    assert part.train_samples is None


@pytest.mark.slow
@pytest.mark.data("image_classification/small")
def test_the_pilots_shards_are_made_once_and_a_killed_making_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The declared sums hold them to the same bytes each time."""
    (tmp_path / "cifar-10-batches-py").symlink_to(Path(os.environ["SUITE_DATA"]) / "cifar-10-batches-py")
    command = [sys.executable, "-m", "suite.data", "fetch", "image_classification/pilot", f"data_dir={tmp_path}"]
    killed = subprocess.Popen(command, env=ENVIRONMENT, start_new_session=True)
    made = tmp_path / "cifar-10-jpeg"
    while killed.poll() is None and len(list(made.glob("*.bin"))) < 3:
        time.sleep(0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    kept = {path.name: path.stat().st_mtime_ns for path in made.glob("*.bin")}
    assert 3 <= len(kept) < 10
    subprocess.run(command, env=ENVIRONMENT, check=True)
    assert files.faults(PILOT.dataset, tmp_path, "sha256") == []
    assert {name: (made / name).stat().st_mtime_ns for name in kept} == kept
    assert made_files.ensure(PILOT, tmp_path) == tmp_path
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = prepared(PILOT.of_subset(0.5), TASK, str(tmp_path))
    half = Jpegs(data, "train")
    assert TASK.split_sizes(data) == {"train_samples": len(half), "eval_samples": 10_000}
    assert 25_000 < len(half) < 27_000  # of eight shards, the last of which is not full
    assert np.asarray(Image.open(io.BytesIO(half[0].tobytes()))).shape == (32, 32, 3)
