"""What shards are made of: archives, unpacked folders, or the Hub's parquet files; what is wrong with one is told."""

import errno
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from suite import config
from suite.errors import UserError
from suite.run.__main__ import main
from suite.store import shards as made_files
from tasks.image_classification import archives, folders, hub, shards
from tests.imagenet import write_parquet
from tests.jpeg_shards.small import SMALL, TEST, TRAIN, make


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


def test_what_is_no_class_or_no_picture_shifts_no_label(tmp_path: Path, unpacked: Path) -> None:
    (unpacked / folders.NAME / "train" / "lost+found").mkdir()
    (unpacked / folders.NAME / "val" / ".ipynb_checkpoints").mkdir()
    (min((unpacked / folders.NAME / "val").glob("n*")) / "._ILSVRC2012_val_00000001.JPEG").touch()  # as macOS leaves
    assert make(unpacked)["answer_labels"].tolist() == make(tmp_path)["answer_labels"].tolist()


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
        made_files.ensure(config.benchmark("image_classification", "full"), tmp_path / "not" / "there")
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


def _add_a_class(folder: Path) -> None:
    (folder / "train" / "n00000000").mkdir()


def _flatten(folder: Path) -> None:
    for picture in [*(folder / "val").rglob("*.JPEG")]:
        picture.rename(folder / "val" / picture.name)
    for of_class in [*(folder / "val").glob("n*")]:
        of_class.rmdir()


def _rename(folder: Path) -> None:
    picture = next((folder / "val").rglob("*.JPEG"))
    picture.rename(picture.with_name("cat.jpg"))


def _put_a_file_for_a_class(folder: Path) -> None:
    of_class = min((folder / "val").iterdir())
    shutil.rmtree(of_class)
    of_class.touch()


def _enlarge_a_picture(split: str) -> Callable[[Path], None]:
    return lambda folder: os.truncate(next((folder / split).rglob("*.JPEG")), SMALL.shards * SMALL.shard_bytes)


def _empty_a_picture(folder: Path) -> None:
    os.truncate(next((folder / "val").rglob("*.JPEG")), 0)


def _break_a_link(folder: Path) -> None:
    picture = next((folder / "train").rglob("*.JPEG"))
    picture.unlink()
    picture.symlink_to("gone")


@pytest.mark.parametrize(
    ("spoil", "answer"),
    [
        (_lose_a_picture, r"training pictures, test pictures and classes are \[22, 6, 5\], not \[23, 6, 5\]"),
        (_lose_a_class, r"imagenet/val has a class n\d{8}, and .*imagenet/train has not"),
        (_lose_a_class_of_both, r"classes are \[\d+, \d, 4\], not \[23, 6, 5\]"),
        (_add_a_class, r"imagenet/train/n00000000 has no pictures: bring them, or delete it"),
        (_flatten, r"imagenet/val has no folder of a class, such as n01440764: sort its pictures into theirs"),
        (_rename, r"cat\.jpg is not called as ImageNet's pictures are: ILSVRC2012_val_00000001\.JPEG"),
        (
            lambda folder: shutil.rmtree(folder / "val"),
            r"cannot read .*imagenet/val: .*; it has a folder for each class",
        ),
        (_put_a_file_for_a_class, r"cannot read .*/imagenet/val/n\d{8}: Not a directory"),
        (_enlarge_a_picture("train"), r"23 pictures have \d+ bytes, more than the 5242880 of ImageNet's own files"),
        (_enlarge_a_picture("val"), r"6 pictures have \d+ bytes, more than the 2097152 of ImageNet's own files"),
        (_empty_a_picture, r"/imagenet/val/n\d{8}/ILSVRC2012_val_\d{8}\.JPEG is empty: bring it again"),
        (_break_a_link, r"cannot read .*/imagenet/train/n\d{8}/n\d{8}_\d+\.JPEG: No such file or directory"),
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
    told = rf"\.JPEG has 5 bytes, and had \d+ when the index was made: .* delete {unpacked / SMALL.folder}, .* to begin"
    with pytest.raises(UserError, match=told):
        shards.make("full", unpacked, f"{SMALL.folder}/test_0000.bin", tmp_path / "made")


@pytest.mark.parametrize(("split", "archive"), [("train", archives.TRAIN), ("test", archives.TEST)])
def test_an_archive_that_was_cut_since_the_index_was_made_is_refused(
    split: str, archive: str, tmp_path: Path, pictures: dict[str, bytes]
) -> None:
    make(tmp_path)
    with (tmp_path / archive).open("r+b") as file:
        file.truncate(1000)
    told = rf"{tmp_path / archive} ends within a picture or before it: bring it again from https://image-net\.org"
    with pytest.raises(UserError, match=told):
        shards.make("full", tmp_path, f"{SMALL.folder}/{split}_0000.bin", tmp_path / "made")


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


def test_a_link_to_no_folder_is_told_before_parquet_files_are_unpacked(tmp_path: Path, unpacked: Path) -> None:
    write_parquet(unpacked, tmp_path / "packed")
    (tmp_path / "packed" / folders.NAME).symlink_to("gone")
    with pytest.raises(UserError, match=r"packed/imagenet is a link to gone, where no folder is: mend it, or delete"):
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
    monkeypatch.setenv("HF_TOKEN", "\u201cright\u201d")
    with pytest.raises(UserError, match=r"does not list .*: UnicodeEncodeError: .*Does HF_TOKEN open it\?"):
        shards.bring("full", tmp_path / "new")
    monkeypatch.setenv("HF_TOKEN", f"{served}\r\n")
    (tmp_path / "new").mkdir()
    assert make(tmp_path / "new")["answer_labels"].tolist() == make(tmp_path)["answer_labels"].tolist()


@pytest.mark.parametrize("answer", ['{"error": "x"}', '[{"path": "data/train-0.parquet", "size": 1}]', "<html>"])
def test_an_answer_of_another_than_the_hub_is_one_line(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "right")
    monkeypatch.setattr(hub.requests, "get", Mock(**{"return_value.json": lambda: json.loads(answer)}))
    with pytest.raises(
        UserError, match=r"^https://huggingface\.co does not list datasets/ILSVRC/imagenet-1k: [A-Z]\w+Error: "
    ):
        shards.bring("full", tmp_path)


@pytest.mark.parametrize("keep_size", [False, True])
def test_a_file_of_the_gated_copy_that_cannot_be_read_is_downloaded_again(
    keep_size: bool, tmp_path: Path, unpacked: Path, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", served)
    first, *_ = write_parquet(unpacked, tmp_path / "new")
    whole = first.read_bytes()
    first.write_bytes(whole[:1000] + bytes(len(whole) - 1000) * keep_size)
    shards.bring("full", tmp_path / "new")
    assert first.read_bytes() == whole
    assert folders.there(tmp_path / "new")
