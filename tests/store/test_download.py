from __future__ import annotations

import os
import resource
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest

from suite.config.dataset import Remote
from suite.errors import UserError
from suite.store import files
from suite.store.disk import partial
from suite.store.download import DownloadError, download, download_all
from tests.store.conftest import MEMBERS, Raw, Server, chunked, dataset, tar

ARCHIVE = tar(MEMBERS)


def fetched(server: Server, root: Path) -> bool:
    files.ensure(dataset(ARCHIVE, server.url), root)
    assert not files.faults(dataset(ARCHIVE, server.url), root, "sha256")
    return (root / "set.tar").read_bytes() == ARCHIVE and not (root / "set.tar.part").exists()


def failure(server: Server, root: Path, url: str = "") -> str:
    """The one line of the error; nothing that looks like data is left."""
    with pytest.raises(UserError) as error:
        files.ensure(dataset(ARCHIVE, url or server.url), root)
    text = str(error.value)
    assert "\n" not in text
    for part in (url or server.url, str(root / "set.tar"), "data_dir=", f"{len(ARCHIVE)} bytes"):
        assert part in text
    assert not (root / "set.tar").exists()
    assert not (root / "set").exists()
    return text


def test_download_makes_the_folder_and_brings_the_files(server: Server, tmp_path: Path) -> None:
    assert fetched(server, tmp_path / "new" / "data")
    assert server.ranges == [None]


def test_an_archive_may_lie_in_a_folder_of_its_own(server: Server, tmp_path: Path) -> None:
    files.ensure(dataset(ARCHIVE, server.url, "raw/set.tar"), tmp_path)
    assert not files.faults(dataset(ARCHIVE, server.url), tmp_path, "sha256")
    assert (tmp_path / "raw/set.tar").read_bytes() == ARCHIVE


def test_a_broken_connection_is_resumed(server: Server, tmp_path: Path) -> None:
    server.answers = [("drop", 1000), ("drop", 500), 503]
    assert fetched(server, tmp_path)
    assert server.ranges == [None, "bytes=1000-", "bytes=1500-", "bytes=1500-"]


def test_a_later_process_goes_on_with_what_has_come(server: Server, tmp_path: Path) -> None:
    server.answers = [("drop", 4000), *[("drop", 0)] * 3]
    text = failure(server, tmp_path)
    assert "set/a.bin is missing" in text
    assert (tmp_path / "set.tar.part").read_bytes() == ARCHIVE[:4000]
    server.ranges.clear()
    assert fetched(server, tmp_path)
    assert server.ranges == ["bytes=4000-"]


def test_a_server_that_ignores_range_sends_all_again(server: Server, tmp_path: Path) -> None:
    server.answers = [("drop", 4000), "whole"]
    assert fetched(server, tmp_path)
    assert server.ranges == [None, "bytes=4000-"]


def test_an_answer_that_is_not_the_file_leaves_what_has_come(server: Server, tmp_path: Path) -> None:
    (tmp_path / "set.tar.part").write_bytes(ARCHIVE[:4000])
    server.answers = [b"log in first"]
    assert f"12 bytes came, expected {len(ARCHIVE)}" in failure(server, tmp_path)
    assert fetched(server, tmp_path)
    assert server.ranges[-1] == "bytes=4000-"


@pytest.mark.parametrize("page", [b"log in first", b"?" * 5000, b"?" * (len(ARCHIVE) + 1000)])
def test_an_answer_in_chunks_that_is_not_the_file_leaves_what_has_come(
    server: Server, tmp_path: Path, page: bytes
) -> None:
    (tmp_path / "set.tar.part").write_bytes(ARCHIVE[:4000])
    server.answers = [chunked(page)]
    assert f"bytes came, expected {len(ARCHIVE)}" in failure(server, tmp_path)
    assert [path.name for path in tmp_path.glob("*.part*")] == ["set.tar.part"]
    assert fetched(server, tmp_path)
    assert server.ranges == ["bytes=4000-", "bytes=4000-"]


def test_a_page_in_chunks_that_comes_first_is_not_kept(server: Server, tmp_path: Path) -> None:
    server.answers = [chunked(b"log in first")]
    assert f"it holds 12 bytes, expected {len(ARCHIVE)}" in failure(server, tmp_path)
    assert fetched(server, tmp_path)
    assert server.ranges == [None, None]


def test_an_answer_without_a_length_that_ends_early_is_a_broken_connection(server: Server, tmp_path: Path) -> None:
    rest = Raw(ARCHIVE[4000:6000], status=206)
    server.answers = [Raw(ARCHIVE[:3000]), Raw(ARCHIVE[:4000]), Raw(ARCHIVE[:2000]), rest, Raw(b"log in first")]
    assert fetched(server, tmp_path)
    assert server.ranges == [None, "bytes=3000-", "bytes=4000-", "bytes=4000-", "bytes=6000-", "bytes=6000-"]


def test_a_server_that_sends_a_part_of_the_rest_is_asked_for_more(server: Server, tmp_path: Path) -> None:
    (tmp_path / "set.tar.part").write_bytes(ARCHIVE[:3000])
    server.answers = [Raw(ARCHIVE[at : at + 1000], {"Content-Length": "1000"}, 206) for at in (3000, 4000)]
    assert fetched(server, tmp_path)
    assert server.ranges == ["bytes=3000-", "bytes=4000-", "bytes=5000-"]


def test_answers_without_a_length_that_end_early_are_not_asked_for_for_ever(server: Server, tmp_path: Path) -> None:
    server.answers = [Raw(ARCHIVE[:4000])] * 9
    assert f"the connection ended at 4000 of {len(ARCHIVE)} bytes" in failure(server, tmp_path)
    assert (tmp_path / "set.tar.part").read_bytes() == ARCHIVE[:4000]
    assert len(server.ranges) == 4


def test_without_a_sum_no_beginning_of_unknown_length_is_kept(server: Server, tmp_path: Path) -> None:
    """The rest would be put after a page, and the file, of the right size, taken for right."""
    remote = Remote(path="set.tar", bytes=len(ARCHIVE), url=server.url)
    server.answers = [Raw(b"log in first")]
    with pytest.raises(DownloadError, match="it holds 12 bytes"):
        download(remote, tmp_path / "set.tar", progress=False)
    download(remote, tmp_path / "set.tar", progress=False)
    assert (tmp_path / "set.tar").read_bytes() == ARCHIVE


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"Location": "http://.example.com/"}, "Failed to parse"),
        ({"Location": "http://[::1/"}, "Invalid IPv6 URL"),
        ({"Location": "http://127.0.0.1/\xff"}, "can't decode byte 0xff"),
        ({"Content-Length": "abc"}, "invalid literal for int"),
    ],
)
def test_a_malformed_answer_is_tried_again_but_not_for_ever(
    server: Server, tmp_path: Path, headers: dict[str, str], said: str
) -> None:
    answer = Raw(headers=headers, status=302 if "Location" in headers else 200)
    server.answers = [answer] * 3
    assert said in failure(server, tmp_path)
    assert len(server.ranges) == 3
    server.answers = [answer]
    assert fetched(server, tmp_path)


@pytest.mark.parametrize("stale", [b"something else", b"?" * len(ARCHIVE), b"?" * (len(ARCHIVE) + 1)])
def test_a_part_of_something_else_is_thrown_away(server: Server, tmp_path: Path, stale: bytes) -> None:
    (tmp_path / "set.tar.part").write_bytes(stale)
    assert fetched(server, tmp_path)
    assert server.ranges[-1] is None


def test_a_part_the_server_cannot_go_on_with_is_thrown_away(server: Server, tmp_path: Path) -> None:
    (tmp_path / "set.tar.part").write_bytes(ARCHIVE[:100])
    server.answers = [416]
    assert fetched(server, tmp_path)
    assert server.ranges == ["bytes=100-", None]


def test_a_whole_part_needs_no_network(server: Server, tmp_path: Path) -> None:
    (tmp_path / "set.tar.part").write_bytes(ARCHIVE)
    assert fetched(server, tmp_path)
    assert server.ranges == []


def test_an_archive_labelled_gzip_is_kept_as_it_is(server: Server, tmp_path: Path) -> None:
    server.answers = ["gzip"]
    assert fetched(server, tmp_path)
    assert server.ranges == [None]


def test_an_answer_of_404_is_final(server: Server, tmp_path: Path) -> None:
    server.answers = [404]
    assert "HTTP 404 Not Found" in failure(server, tmp_path)
    assert len(server.ranges) == 1


def test_a_failing_server_is_tried_again_but_not_for_ever(server: Server, tmp_path: Path) -> None:
    server.answers = [500] * 9
    assert "set.tar: HTTP 500 Internal Server Error. Bring" in failure(server, tmp_path)
    assert len(server.ranges) == 3


@pytest.mark.parametrize("status", [408, 429, 503])
def test_a_server_that_is_too_busy_is_asked_again_and_later_each_time(
    server: Server, tmp_path: Path, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float | None] = []
    stopped = threading.Event()
    monkeypatch.setattr("suite.store.download.WAIT_S", 2.0)
    monkeypatch.setattr(stopped, "wait", waited.append)
    remote = Remote(path="set.tar", bytes=len(ARCHIVE), sha256=sha256(ARCHIVE).hexdigest(), url=server.url)
    server.answers = [status] * 2
    download(remote, tmp_path / "set.tar", progress=False, stopped=stopped)
    assert waited == [2.0, 4.0]


def test_an_archive_that_lies_there_and_is_wrong_is_brought_anew(server: Server, tmp_path: Path) -> None:
    (tmp_path / "set.tar").write_bytes(ARCHIVE[:-1] + b"?")
    assert fetched(server, tmp_path)
    assert server.ranges == [None]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"?" * len(ARCHIVE), "its content has sha256"),
        (b"log in first", f"it holds 12 bytes, expected {len(ARCHIVE)}"),
        (ARCHIVE[:-1], f"it holds {len(ARCHIVE) - 1} bytes"),
        (ARCHIVE + b"?" * 100_000, "it holds more than"),
    ],
)
def test_wrong_content_is_refused_and_not_kept(server: Server, tmp_path: Path, body: bytes, said: str) -> None:
    server.answers = [body]
    assert said in failure(server, tmp_path)
    assert not (tmp_path / "set.tar.part").exists()
    assert fetched(server, tmp_path)


def test_no_network_is_one_line(server: Server, tmp_path: Path) -> None:
    assert "Connection refused" in failure(server, tmp_path, "http://127.0.0.1:1/set.tar")


def test_a_corrupt_file_is_named_when_it_cannot_be_replaced(server: Server, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set/a.bin").write_bytes(b"?" * len(MEMBERS["set/a.bin"]))
    server.answers = [404]
    with pytest.raises(UserError, match=r"a.bin is corrupt: found .* sha256 .*expected .* sha256 .*HTTP 404"):
        files.ensure(dataset(ARCHIVE, server.url), tmp_path)


def test_a_full_disk_is_one_line(server: Server, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        text = failure(server, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert f"cannot write to {tmp_path}: File too large" in text
    assert fetched(server, tmp_path)


def test_a_folder_that_cannot_be_made_is_one_line(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot write to" in failure(server, tmp_path / "file" / "data")
    assert server.ranges == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_one_line(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o555)
    assert "Permission denied" in failure(server, tmp_path / "data")


def test_processes_that_start_together_download_once(server: Server, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: fetched(server, tmp_path), range(4)))
    assert server.ranges == [None]


def test_a_download_that_is_stopped_leaves_what_has_come(server: Server, tmp_path: Path) -> None:
    """As the others are where one of several has failed, or at Ctrl-C."""
    target, stopped = tmp_path / "set.tar", threading.Event()
    remote = Remote(
        path="set.tar", bytes=len(server.content), sha256=sha256(server.content).hexdigest(), url=server.url
    )
    partial(target).write_bytes(server.content[:10])
    stopped.set()
    with pytest.raises(DownloadError, match="another download failed, or a signal ended all"):
        download(remote, target, progress=False, stopped=stopped)
    assert partial(target).read_bytes() == server.content[:10]
    download(remote, target, progress=False)
    assert target.read_bytes() == server.content


def test_a_download_that_is_stopped_makes_no_further_attempt(server: Server, tmp_path: Path) -> None:
    remote = Remote(path="set.tar", bytes=len(ARCHIVE), sha256=sha256(ARCHIVE).hexdigest(), url=server.url)
    server.answers, stopped = [503] * 2, threading.Event()
    stopped.set()
    with pytest.raises(DownloadError, match="HTTP 503"):
        download(remote, tmp_path / "set.tar", progress=False, stopped=stopped)
    assert len(server.ranges) == 1


def test_where_one_of_many_fails_those_at_work_end_and_the_rest_do_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[bool] = []

    def bring(remote: Remote, target: Path, progress: bool, token: str, stopped: threading.Event) -> None:
        if remote.path == "0":
            raise DownloadError("no such file")
        heard.append(stopped.wait(5))
        time.sleep(0.01)

    monkeypatch.setattr("suite.store.download.download", bring)
    with pytest.raises(DownloadError, match="no such file"):
        download_all([Remote(path=f"{n}", bytes=1, url="http://127.0.0.1:1/") for n in range(500)], tmp_path)
    assert all(heard)
    assert len(heard) < 499
