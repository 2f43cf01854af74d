from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.config.dataset import Dataset, File
from suite.errors import UserError
from suite.store import files, sums
from tests.store.conftest import MEMBERS, dataset, tar
from tests.waiting import until

NOWHERE = "http://127.0.0.1:1/set.tar"  # nothing listens there


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def lay_out(root: Path, members: dict[str, bytes] = MEMBERS) -> None:
    for name, content in members.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in folder.rglob("*")
        if not p.is_dir() and not p.name.endswith(".lock")
    }


def test_root_is_argument_then_environment_then_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert files.root() == tmp_path / "cache" / "time-to-accuracy" / "data"
    monkeypatch.setenv("SUITE_DATA", str(tmp_path / "e"))
    assert files.root() == tmp_path / "e"
    assert files.root(str(tmp_path / "a")) == tmp_path / "a"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert files.root("~/a") == tmp_path / "a"  # a shell leaves data_dir=~/a as it is
    (tmp_path / "a").touch()
    with pytest.raises(UserError, match=r"a is not a folder.*data_dir="):
        files.root(str(tmp_path / "a"))


def test_present_files_are_used_and_nothing_is_written(root: Path) -> None:
    lay_out(root)
    for path in [root / "set/sub", root / "set", root]:
        path.chmod(0o555)
    before = sorted(root.rglob("*"))
    assert files.ensure(dataset(b"", NOWHERE), root) == root
    assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize("change", [lambda content: content[:-1], lambda content: content + b"0"])
def test_a_file_of_another_size_is_wrong_before_it_is_read(root: Path, change) -> None:
    lay_out(root, {**MEMBERS, "set/a.bin": change(MEMBERS["set/a.bin"])})
    (wrong,) = files.faults(dataset(b"", NOWHERE), root, "size")
    assert (wrong.path, wrong.state) == (root / "set/a.bin", "wrong size")


def test_a_corrupt_archive_is_downloaded_anew(root: Path, server) -> None:
    packed = tar(MEMBERS)
    (root / "set.tar").write_bytes(packed[:-1] + b"?")
    files.ensure(dataset(packed, server.url), root)
    assert (root / "set.tar").read_bytes() == packed
    assert not files.faults(dataset(packed, server.url), root, "sha256")


def test_an_embedded_dataset_needs_nothing(tmp_path: Path) -> None:
    embedded = dataset(b"", NOWHERE).model_copy(update={"files": (), "archive": None})
    files.ensure(embedded, tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


def test_status_tells_the_states_apart(root: Path) -> None:
    members = {"right": b"1234", "short": b"1234", "flipped": b"1234", "absent": b"1234"}
    lay_out(root, {"right": b"1234", "short": b"123", "flipped": b"1235"})
    told = dataset(b"", NOWHERE, members=members)
    assert [s.state for s in files.status(told, root, "sha256")] == ["present", "wrong size", "corrupt", "missing"]
    cheap = files.status(told, root, "size")
    assert [s.state for s in cheap] == ["present", "wrong size", "present", "missing"]
    assert [s.found_sha256 for s in cheap] == [None] * 4


@pytest.mark.parametrize("wrong", [b"x" * 3000, b"short"])
def test_a_wrong_file_is_named_with_both_sums_and_the_mend(root: Path, wrong: bytes) -> None:
    lay_out(root, MEMBERS | {"set/sub/b.bin": wrong})
    told = dataset(tar(MEMBERS), NOWHERE)
    with pytest.raises(UserError) as error:
        files.ensure(told, root)
    text = str(error.value)
    for part in ("set/sub/b.bin", hashlib.sha256(wrong).hexdigest(), told.files[1].sha256, "3000 bytes", NOWHERE):
        assert part in text
    assert f"{len(wrong)} bytes" in text
    assert "\n" not in text


def test_an_unchanged_file_is_read_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(root)
    read: list[Path] = []
    whole = sums.sha256

    def counted(path: Path) -> str:
        read.append(path)
        return whole(path)

    monkeypatch.setattr(sums, "sha256", counted)
    monkeypatch.setattr(sums, "SETTLED_NS", 10**12)
    for _ in range(3):
        assert not files.faults(dataset(b"", NOWHERE), root)
    assert len(read) == 3 * len(MEMBERS), "a file just written may change again without its times changing"

    read.clear()
    monkeypatch.setattr(sums, "SETTLED_NS", 0)
    for _ in range(3):
        assert not files.faults(dataset(b"", NOWHERE), root)
    assert len(read) == len(MEMBERS)

    changed = root / "set/a.bin"
    before = changed.stat()
    changed.write_bytes(b"?" + MEMBERS["set/a.bin"][1:])
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))  # as by cp -p: the time of its inode tells
    assert [(each.path, each.state) for each in files.faults(dataset(b"", NOWHERE), root)] == [(changed, "corrupt")]


@pytest.mark.parametrize("notes", [b"{", b"[]", b'{"x": 3}'])
def test_damaged_memory_of_sums_is_no_obstacle(root: Path, notes: bytes) -> None:
    path = sums.cache_dir() / "sums.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(notes)
    lay_out(root)
    assert not files.faults(dataset(b"", NOWHERE), root)


@pytest.mark.parametrize("mode", ["w", "w:gz", "zip"])
def test_an_archive_that_is_here_is_unpacked(root: Path, mode: str) -> None:
    content = {"./set/a.bin": MEMBERS["set/a.bin"], "set/sub/b.bin": MEMBERS["set/sub/b.bin"], "set/readme": b"no"}
    if mode == "zip":
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as file:
            for name, data in content.items():
                file.writestr(name, data)
        archive = packed.getvalue()
    else:
        archive = tar(content, mode)
    name = "set.zip" if mode == "zip" else "set.tar"
    (root / name).write_bytes(archive)
    files.ensure(dataset(archive, NOWHERE, name), root)
    assert tree(root) == MEMBERS | {name: archive}


@pytest.mark.parametrize("name", ["set.zip", "set.tar.gz"])
@pytest.mark.parametrize("archive", [b"<html>", tar(MEMBERS, "w:gz")[:-20], tar(MEMBERS)[:700]])
def test_what_cannot_be_unpacked_is_one_line(root: Path, name: str, archive: bytes) -> None:
    (root / name).write_bytes(archive)
    with pytest.raises(UserError, match=rf"(?s){name} cannot be unpacked: .*any other as tar"):
        files.ensure(dataset(archive, NOWHERE, name), root)
    assert tree(root) == {name: archive}


def test_a_corrupt_file_is_replaced_from_the_archive(root: Path) -> None:
    archive = tar(MEMBERS)
    lay_out(root, MEMBERS | {"set/a.bin": b"?", "set.tar": archive})
    files.ensure(dataset(archive, NOWHERE), root)
    assert tree(root) == MEMBERS | {"set.tar": archive}


def test_that_another_command_is_waited_for_is_told_once(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = tar(MEMBERS)
    lay_out(root, {"set.tar": archive})
    said: list[str] = []

    def told() -> bool:
        said.append(capsys.readouterr().err)
        return any(said)

    with ThreadPoolExecutor() as pool:
        with FileLock(root / ".set.tar.lock"):
            waiting = pool.submit(files.ensure, dataset(archive, NOWHERE), root)
            until(told)
        waiting.result()
    told()
    assert "".join(said) == f"another command is bringing Small Set to {root}: waiting for it\n"
    assert tree(root) == MEMBERS | {"set.tar": archive}


def test_what_a_killed_unpacking_left_is_never_taken_for_data(root: Path) -> None:
    archive = tar(MEMBERS)
    lay_out(root, {"set/.set.tar.unpacked/set/a.bin": b"half", "set.tar": archive})
    files.ensure(dataset(archive, NOWHERE), root)
    assert tree(root) == MEMBERS | {"set.tar": archive}


def test_an_archive_is_unpacked_on_the_disk_that_a_linked_folder_leads_to(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, other = tar(MEMBERS), tmp_path / "other"
    lay_out(root, {"set.tar": archive})
    other.mkdir()
    (root / "set").symlink_to(other)
    replace = Path.replace

    def within_a_disk(path: Path, place: Path) -> Path:
        if other in path.resolve().parents and other in place.resolve().parents:
            return replace(path, place)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(Path, "replace", within_a_disk)
    files.ensure(dataset(archive, NOWHERE), root)
    assert tree(other) == {name.removeprefix("set/"): content for name, content in MEMBERS.items()}


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


names = st.one_of(
    st.sampled_from(["../x", "/x", "set/../../x", "set", "set/a.bin", ".", "..", "a\\..\\x", "./../x", "C:/x"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20),
)
hostile = st.lists(
    st.tuples(names, st.sampled_from([tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE]), names),
    max_size=6,
)


@given(hostile)
@settings(max_examples=60)
def test_hostile_members_touch_nothing(members: list[tuple[str, bytes, str]]) -> None:
    archive = tar(MEMBERS, first=[special(*each) for each in members])
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "inner" / "data"
        lay_out(root, {"set.tar": archive})
        files.ensure(dataset(archive, NOWHERE), root)
        assert tree(Path(folder)) == {f"inner/data/{n}": c for n, c in (MEMBERS | {"set.tar": archive}).items()}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_a_link_in_a_files_place_is_refused(root: Path, tmp_path: Path, kind: bytes) -> None:
    (tmp_path / "secret").write_bytes(MEMBERS["set/a.bin"])
    link = special("set/a.bin", kind, str(tmp_path / "secret"))
    packed = tar({"set/sub/b.bin": MEMBERS["set/sub/b.bin"]}, first=[link])
    lay_out(root, {"set.tar": packed})
    with pytest.raises(UserError, match=r"set.tar does not unpack .*a.bin is missing"):
        files.ensure(dataset(packed, NOWHERE), root)
    assert tree(root) == {"set.tar": packed}


@pytest.mark.parametrize("archive_too", [True, False])
def test_a_disk_that_cannot_hold_the_archive_beside_the_files_is_told(
    root: Path, archive_too: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, need = tar(MEMBERS), sum(map(len, MEMBERS.values()))
    free = need + (len(packed) if archive_too else 0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    if archive_too:
        files.require_room(dataset(packed, NOWHERE), root)
    else:
        with pytest.raises(UserError, match=r"Small Set needs 0\.0 GB in .*name a folder on a larger disk"):
            files.require_room(dataset(packed, NOWHERE), root)


def test_what_is_made_needs_the_room_of_its_sources_only_until_they_are_there(root: Path) -> None:
    packed = tar(MEMBERS)
    made = dataset(packed, NOWHERE).model_copy(update={"made": (File(path="made/all.bin", bytes=100),)})
    assert files.needed_bytes(made, root) == 100 + sum(map(len, MEMBERS.values())) + len(packed)
    lay_out(root)
    assert files.needed_bytes(made, root) == 100
    shutil.rmtree(root / "set")
    lay_out(root, {"made/all.bin": bytes(100)})
    assert files.needed_bytes(made, root) == 0


def test_the_command_that_brings_data_can_be_typed_as_it_is(root: Path) -> None:
    assert files.fetching("ten/mini", None) == "python -m suite.data fetch ten/mini"
    assert files.fetching("ten/mini", "my data") == "python -m suite.data fetch ten/mini data_dir='my data'"
    assert files.free_bytes(root / "a/folder/to/come") > 0


def test_without_an_archive_the_source_is_named(root: Path) -> None:
    told: Dataset = dataset(b"", NOWHERE).model_copy(update={"archive": None})
    with pytest.raises(UserError, match=r"a.bin is missing \(and 1 more files\).*https://example.org/set.*data_dir="):
        files.ensure(told, root)
