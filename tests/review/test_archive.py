"""A submission as an archive: reviewed as its folder is, or refused in one line; nothing of it escapes or stays."""

import contextlib
import gzip
import io
import json
import lzma
import os
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.errors import UserError
from suite.review import archive
from suite.review.__main__ import main

QUICK = settings(max_examples=60)


@pytest.fixture(autouse=True)
def _temporary(tmp_path, monkeypatch):
    """A folder for temporary files that must be empty again."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []


def packed(path, folder):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
            for each in sorted(folder.rglob("*")):
                zipped.write(each, each.relative_to(folder.parent))
    else:
        mode = {".gz": "w:gz", ".tgz": "w:gz", ".bz2": "w:bz2", ".xz": "w:xz", ".tar": "w"}[path.suffix]
        with tarfile.open(path, mode) as tar:
            tar.add(folder, folder.name)
    return path


def of_members(path, *members, content=b""):
    with tarfile.open(path, "w") as tar:
        for member in members:
            member.size = len(content) if member.isreg() and not member.size else member.size
            tar.addfile(member, io.BytesIO(content) if member.isreg() else None)
    return path


def member(name, kind=tarfile.REGTYPE, **fields):
    made = tarfile.TarInfo(name)
    made.type = kind
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def refused(path, match):
    with pytest.raises(UserError, match=match) as error:
        main([str(path)])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("suffix", [".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".TAR.XZ"])
def test_archive_is_reviewed_as_its_folder_is(sound_result, tmp_path, capsys, suffix):
    given = packed(tmp_path / f"given{suffix.lower()}", sound_result)
    given = given.rename(tmp_path / f"given{suffix}")
    assert main([str(given), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert [log["path"] for log in made["logs"]] == [f"result/run_{index}/log.txt" for index in range(1, 6)]


def test_file_that_is_no_archive_is_told_which_are_read(tmp_path):
    (tmp_path / "given.tar.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    refused(tmp_path / "given.tar.zst", r"Not a directory; give .* as \.zip, \.tar, \.tar\.xz")


def test_changed_byte_in_an_archive_fails(run, tmp_path, capsys):
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


def test_modes_are_not_taken_over(run, tmp_path):
    log = member("log.txt", mode=0o6777)
    with archive.unpacked(of_members(tmp_path / "given.tar", log, member("d", tarfile.DIRTYPE, mode=0))) as folder:
        assert not (folder / "log.txt").stat().st_mode & 0o7111
        assert os.access(folder / "d", os.W_OK)


@pytest.fixture
def small_bounds(monkeypatch):
    monkeypatch.setattr(archive, "FREE_BYTES", 1 << 20)
    monkeypatch.setattr(archive, "MAX_MEMBERS", 100)


@pytest.mark.parametrize("name", ["given.zip", "given.tar.gz", "given.tar.bz2", "given.tar.xz"])
def test_bomb_is_not_unpacked(small_bounds, tmp_path, name):
    (tmp_path / "bomb").mkdir()
    with (tmp_path / "bomb" / "log.txt").open("wb") as file:
        file.truncate(32 << 20)
    refused(packed(tmp_path / name, tmp_path / "bomb"), "unpacks to more than")


def test_many_files_are_not_unpacked(small_bounds, tmp_path):
    refused(of_members(tmp_path / "given.tar", *(member(f"f{i}") for i in range(101))), "more than 100 members")


def test_sparse_member_is_not_unpacked(tmp_path):
    header = member("log.txt", tarfile.GNUTYPE_SPARSE, size=512).tobuf(tarfile.GNU_FORMAT)
    fields = b"".join(b"%011o\0" % value for value in (0, 512))  # one piece of data in a hole of 10 GB
    header = bytearray(header[:386] + fields + header[386 + 24 :])
    header[482:495] = b"\0" + b"%011o\0" % (10 << 27)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "given.tar").write_bytes(bytes(header) + b"\0" * 512 * 3)
    refused(tmp_path / "given.tar", "sparse")


@pytest.fixture
def folders_made(monkeypatch):
    """The paths of the folders that were made."""
    made = []
    mkdir = os.mkdir

    def noted(path, *args, **kwargs):
        mkdir(path, *args, **kwargs)
        made.append(path)

    monkeypatch.setattr(os, "mkdir", noted)
    return made


@pytest.mark.parametrize("name", ["given.tar.gz", "given.zip"])
@pytest.mark.parametrize("kind", [tarfile.DIRTYPE, tarfile.REGTYPE], ids=["explicit", "implied"])
def test_many_folders_are_not_made(tmp_path, folders_made, name, kind):
    names = [f"{i}/" + "d/" * (archive.MAX_DEPTH - 2) + "d" for i in range(3000)]
    if name.endswith(".zip"):
        with zipfile.ZipFile(tmp_path / name, "w") as zipped:
            for each in names:
                zipped.writestr(each + "/" * (kind == tarfile.DIRTYPE), "")
    else:
        with tarfile.open(tmp_path / name, "w:gz") as tar:
            for each in names:
                tar.addfile(member(each, kind))
    refused(tmp_path / name, "folders")
    (made,) = folders_made  # the temporary one
    assert not os.path.exists(made)


@pytest.mark.parametrize(
    "headers",
    [
        member("log.txt", pax_headers={"comment": "n" * (4 << 20)}).tobuf(tarfile.PAX_FORMAT),
        tarfile.TarInfo.create_pax_global_header({"comment": "n" * (4 << 20)}),
        tarfile.TarInfo.create_pax_global_header({"comment": "n"}) * 100,
        member("n" * (4 << 20)).tobuf(tarfile.GNU_FORMAT),
        member("log.txt", size=4 << 20, pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}).tobuf(
            tarfile.PAX_FORMAT
        )
        + b"999999999\n"
        + b"0\n" * (2 << 20),
    ],
    ids=["attribute", "attribute of all members", "many", "name", "sparse pieces"],
)
@pytest.mark.parametrize("before", [0, 1], ids=["first", "second"])
def test_long_headers_are_not_read(tmp_path, headers, before):
    with gzip.open(tmp_path / "given.tar.gz", "wb") as file:
        file.write(member("before.txt").tobuf() * before + headers + member("log.txt").tobuf() + bytes(1024))
    refused(tmp_path / "given.tar.gz", "headers are too large")


def test_digits_are_not_read_for_long(tmp_path):
    """As attributes they take older Pythons a time that grows with their square."""
    digits = member("log.txt", pax_headers={"comment": "1" * archive.MAX_ATTRIBUTE_BYTES})
    refused(of_members(tmp_path / "given.tar", digits), "headers are too large")


def test_many_long_headers_are_not_read(tmp_path):
    long = (member(f"log_{i}.txt", pax_headers={"comment": "n" * (16 << 10)}) for i in range(4))
    refused(of_members(tmp_path / "given.tar", *long), "headers are too large")


def test_the_longest_path_is_unpacked(tmp_path):
    """In Linux it has 4,096 bytes, with the folder that it is unpacked to."""
    name = "/".join(["d" * 190] * archive.MAX_DEPTH)
    with archive.unpacked(of_members(tmp_path / "given.tar", member(name, mtime=0.5), content=b"text")) as folder:
        assert (folder / name).read_text() == "text"


def test_many_attributes_of_a_member_are_not_read(tmp_path):
    many = {f"SUITE.{i}": "" for i in range(archive.MAX_ATTRIBUTES + 1)}
    refused(of_members(tmp_path / "given.tar", member("log.txt", pax_headers=many)), "attributes")


def test_attributes_of_all_members_refuse_the_archive_but_for_a_comment(tmp_path):
    for key in ("comment", "path"):
        with tarfile.open(tmp_path / f"{key}.tar", "w", pax_headers={key: "text"}) as tar:
            tar.addfile(member("log.txt"))
    with archive.unpacked(tmp_path / "comment.tar") as folder:
        assert os.listdir(folder) == ["log.txt"]
    refused(tmp_path / "path.tar", "attributes of all members")


def test_huge_table_of_contents_is_not_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "given.zip", "w") as zipped:
        for i in range(archive.MAX_TABLE_BYTES // 0xFFFF + 1):
            info = zipfile.ZipInfo(f"log_{i}.txt")
            info.comment = b"c" * 0xFFFF
            zipped.writestr(info, "")
    refused(tmp_path / "given.zip", "table of contents")


def test_encrypted_member_refuses_the_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "given.zip", "w") as zipped:
        zipped.writestr("log.txt", "text")
        zipped.infolist()[0].flag_bits |= 1
    refused(tmp_path / "given.zip", "encrypted")


def test_xz_in_two_streams_is_refused(tmp_path):
    content = of_members(tmp_path / "given.tar", member("log.txt"), content=b"text" * 4096).read_bytes()
    (tmp_path / "given.tar.xz").write_bytes(lzma.compress(content[:4096]) + lzma.compress(content[4096:]))
    refused(tmp_path / "given.tar.xz", "more than one xz stream")


def test_xz_that_asks_for_much_memory_is_refused(tmp_path):
    stream = bytearray(lzma.compress(b"\0" * 1024, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0}]))
    at = stream.index(b"\x21\x01") + 2  # the size of the dictionary in the first block's header, and that header's sum
    stream[at] = 40
    size = (stream[12] + 1) * 4
    stream[12 + size - 4 : 12 + size] = zlib.crc32(bytes(stream[12 : 12 + size - 4])).to_bytes(4, "little")
    (tmp_path / "given.tar.xz").write_bytes(stream)
    refused(tmp_path / "given.tar.xz", "(?i)memory")


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
