"""A submission as an archive: reviewed as its folder is, or refused in one line; nothing of it escapes or stays."""

import contextlib
import errno
import json
import lzma
import os
import signal
import tarfile
import zipfile
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.errors import Stopped, UserError
from suite.review import archive
from suite.review.__main__ import main
from tests.review.archives import member, of_members, packed, refused

pytestmark = pytest.mark.usefixtures("temporary")
QUICK = settings(max_examples=60)


@pytest.mark.parametrize("suffix", [".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".TAR.XZ"])
def test_archive_is_reviewed_as_its_folder_is(sound_result, tmp_path, capsys, suffix):
    given = packed(tmp_path / f"given{suffix.lower()}", sound_result)
    given = given.rename(tmp_path / f"given{suffix}")
    assert main([str(given), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert [log["path"] for log in made["logs"]] == [f"result/run_{index}/log.txt" for index in range(1, 6)]


def test_what_macos_adds_to_a_zip_is_left_out(sound_result, tmp_path):
    given = packed(tmp_path / "given.zip", sound_result)
    with zipfile.ZipFile(given, "a") as zipped:
        for name in zipped.namelist():
            zipped.writestr(f"__MACOSX/{Path(name).parent}/._{Path(name).name}", b"\0\5\x16\7")
    assert main([str(given)]) == 0


def test_what_macos_adds_to_a_tar_is_left_out(sound_result, tmp_path, capsys):
    given = packed(tmp_path / "given.tar", sound_result)
    with tarfile.open(given, "a") as tar:
        for name in tar.getnames():
            tar.addfile(member(f"{Path(name).parent}/._{Path(name).name}"))
    assert main([str(given), "--json"]) == 0
    assert "._" not in capsys.readouterr().out


def test_a_full_disk_of_temporary_folders_is_named_with_its_mend(run, tmp_path, monkeypatch):
    given = packed(tmp_path / "given.tar", run.folder)
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(tarfile.TarFile, "extract", Mock(side_effect=full))
    refused(given, r"^given\.tar was not unpacked: .*suite-review-\S+: No space left on device; .* as TMPDIR; give")


def test_a_signal_leaves_nothing_unpacked(run, tmp_path, monkeypatch):
    given = packed(tmp_path / "given.zip", run.folder)
    monkeypatch.setattr("suite.review.__main__.report", lambda *_, **__: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(Stopped):
        main([str(given)])


def test_file_that_is_no_archive_is_told_which_are_read(tmp_path):
    (tmp_path / "given.tar.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    refused(tmp_path / "given.tar.zst", r"Not a directory; give .* as \.zip, \.tar, \.tar\.xz")


def test_archive_without_evidence_is_named_itself(tmp_path):
    given = of_members(tmp_path / "given.tar", member("readme.txt"))
    with pytest.raises(UserError, match=rf"^{given} holds no evidence: "):
        main([str(given)])


def test_changed_byte_in_an_archive_fails(run, tmp_path):
    with (run.folder / "log.txt").open("ab") as file:
        file.write(b"more\n")
    assert main([str(packed(tmp_path / "given.zip", run.folder)), "--html", str(tmp_path / "page.html")]) == 1
    assert "more" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    "bad",
    [
        member("/etc/escaped"),
        member("../escaped"),
        member("a/../../escaped"),
        member("a\\..\\escaped"),
        member("n" * 300),
        member("/".join("d" * 30)),
        member("link", tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("link", tarfile.LNKTYPE, linkname="/etc/passwd"),
        member("fifo", tarfile.FIFOTYPE),
        member("device", tarfile.CHRTYPE, devmajor=1, devminor=5),
    ],
    ids=lambda bad: f"{bad.type}-{bad.name[:10]}",
)
def test_member_that_could_escape_refuses_the_archive(tmp_path, bad):
    refused(of_members(tmp_path / "given.tar", member("log.txt"), bad), "was not unpacked")
    assert not (tmp_path / "escaped").exists()


@pytest.mark.parametrize("again", ["./d/\u00e9.txt", "d/\u00c9.txt", "D/e\u0301.txt"])
def test_name_twice_refuses_the_archive(tmp_path, again):
    """Also where it is the same to some file systems alone."""
    refused(of_members(tmp_path / "given.tar", member("d/\u00e9.txt"), member(again)), "two files")


@pytest.mark.parametrize("name", ["../escaped", "/escaped", "a\\escaped"])
def test_zip_member_that_could_escape_refuses_the_archive(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "given.zip", "w") as zipped:
        zipped.writestr(name, "text")
    refused(tmp_path / "given.zip", "backslash" if "\\" in name else "lead out")


def test_zipped_link_refuses_the_archive(tmp_path):
    info = zipfile.ZipInfo("log.txt")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "given.zip", "w") as zipped:
        zipped.writestr(info, "/etc/passwd")
    refused(tmp_path / "given.zip", "is a link")


def test_modes_are_not_taken_over(tmp_path):
    log = member("log.txt", mode=0o6777)
    with archive.unpacked(of_members(tmp_path / "given.tar", log, member("d", tarfile.DIRTYPE, mode=0))) as folder:
        assert not (folder / "log.txt").stat().st_mode & 0o7111
        assert os.access(folder / "d", os.W_OK)


def test_the_longest_path_is_unpacked(tmp_path):
    """In Linux it has 4,096 bytes, with the folder that it is unpacked to."""
    name = "/".join(["d" * 190] * archive.MAX_DEPTH)
    with archive.unpacked(of_members(tmp_path / "given.tar", member(name, mtime=0.5), content=b"text")) as folder:
        assert (folder / name).read_text() == "text"


def test_attributes_of_all_members_refuse_the_archive_but_for_a_comment(tmp_path):
    for key in ("comment", "path"):
        with tarfile.open(tmp_path / f"{key}.tar", "w", pax_headers={key: "text"}) as tar:
            tar.addfile(member("log.txt"))
    with archive.unpacked(tmp_path / "comment.tar") as folder:
        assert os.listdir(folder) == ["log.txt"]
    refused(tmp_path / "path.tar", "attributes of all members")


def test_encrypted_member_refuses_the_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "given.zip", "w") as zipped:
        zipped.writestr("log.txt", "text")
        zipped.infolist()[0].flag_bits |= 1
    refused(tmp_path / "given.zip", "encrypted")


def test_xz_in_two_streams_is_refused(tmp_path):
    content = of_members(tmp_path / "given.tar", member("log.txt"), content=b"text" * 4096).read_bytes()
    (tmp_path / "given.tar.xz").write_bytes(lzma.compress(content[:4096]) + lzma.compress(content[4096:]))
    refused(tmp_path / "given.tar.xz", "more than one xz stream")


def test_unusual_compression_in_a_zip_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "given.zip", "w", zipfile.ZIP_LZMA) as zipped:
        zipped.writestr("log.txt", "text")
    refused(tmp_path / "given.zip", "rare compression")


@pytest.fixture(scope="module")
def archives(tmp_path_factory, sound_run):
    folder = tmp_path_factory.mktemp("archives")
    names = ("a.zip", "a.tar", "a.tar.gz", "a.tar.bz2", "a.tar.xz")
    return {name: packed(folder / name, sound_run.folder).read_bytes() for name in names}


@QUICK
@given(data=st.data(), junk=st.binary(max_size=30), cut=st.integers(0, 600))
def test_no_bytes_raise(archives, tmp_path, data, junk, cut):
    name = data.draw(st.sampled_from(sorted(archives)))
    content = archives[name]
    at = data.draw(st.integers(0, len(content)))
    path = tmp_path / name
    path.write_bytes(content[:at] + junk + content[at + cut :])
    with contextlib.suppress(UserError), archive.unpacked(path) as folder:
        assert all(each.resolve().is_relative_to(folder.resolve()) for each in folder.rglob("*"))


@QUICK
@given(name=st.text(st.characters(codec="utf-8"), min_size=1, max_size=60).filter(lambda name: name[0] != "\0"))
def test_no_name_escapes(tmp_path, name):
    path = tmp_path / "given.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr(name, "text")
    before = {each for each in Path(tmp_path).iterdir() if each.name != "temporary"}
    with contextlib.suppress(UserError), archive.unpacked(path) as folder:
        assert sum(each.is_file() for each in folder.rglob("*")) <= 1
    assert {each for each in Path(tmp_path).iterdir() if each.name != "temporary"} == before
