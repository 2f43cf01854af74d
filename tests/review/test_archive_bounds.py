"""An archive that asks for much room, memory or time is refused in one line before it takes that."""

import gzip
import lzma
import os
import tarfile
import zipfile
import zlib

import pytest

from suite.review import archive
from tests.review.archives import member, of_members, packed, refused

pytestmark = pytest.mark.usefixtures("temporary")


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


def test_many_attributes_of_a_member_are_not_read(tmp_path):
    many = {f"SUITE.{i}": "" for i in range(archive.MAX_ATTRIBUTES + 1)}
    refused(of_members(tmp_path / "given.tar", member("log.txt", pax_headers=many)), "attributes")


def test_huge_table_of_contents_is_not_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "given.zip", "w") as zipped:
        for i in range(archive.MAX_TABLE_BYTES // 0xFFFF + 1):
            info = zipfile.ZipInfo(f"log_{i}.txt")
            info.comment = b"c" * 0xFFFF
            zipped.writestr(info, "")
    refused(tmp_path / "given.zip", "table of contents")


def test_xz_that_asks_for_much_memory_is_refused(tmp_path):
    stream = bytearray(lzma.compress(b"\0" * 1024, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0}]))
    at = stream.index(b"\x21\x01") + 2  # the size of the dictionary in the first block's header, and that header's sum
    stream[at] = 40
    size = (stream[12] + 1) * 4
    stream[12 + size - 4 : 12 + size] = zlib.crc32(bytes(stream[12 : 12 + size - 4])).to_bytes(4, "little")
    (tmp_path / "given.tar.xz").write_bytes(stream)
    refused(tmp_path / "given.tar.xz", "(?i)memory")
