"""Datasets of many files: listed in a file of their own, downloaded one by one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from suite.config import folder
from suite.config.dataset import Dataset, Mirror
from suite.errors import UserError
from suite.store import files
from tests.store.conftest import MEMBERS, dataset


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Dataset]:
    """MEMBERS, below `set/` in the data root, served from `https://…/v1/`."""
    served = tmp_path / "served"
    for name, content in MEMBERS.items():
        path = served / "v1" / name.removeprefix("set/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(served))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    url = f"http://127.0.0.1:{http.server_port}/v1/"
    yield dataset(b"", url).model_copy(update={"archive": None, "mirror": Mirror(url=url, below="set/")})
    http.shutdown()
    http.server_close()


def test_missing_and_corrupt_files_are_downloaded(mirror: Dataset, tmp_path: Path) -> None:
    root = tmp_path / "data"
    files.ensure(mirror, root)
    assert not files.faults(mirror, root, "sha256")
    (root / "set/a.bin").write_bytes(b"damaged")
    kept = (root / "set/sub/b.bin").stat()
    files.ensure(mirror, root)
    assert (root / "set/a.bin").read_bytes() == MEMBERS["set/a.bin"]
    assert (root / "set/sub/b.bin").stat() == kept


def test_a_file_may_have_a_place_of_its_own(mirror: Dataset, tmp_path: Path) -> None:
    assert mirror.mirror
    assert not isinstance(mirror.files, str)
    (tmp_path / "served/v1/a.bin").rename(tmp_path / "served/v1/another name.bin")
    first, second = mirror.files
    own = first.model_copy(update={"url": mirror.mirror.url + "another%20name.bin"})
    files.ensure(mirror.model_copy(update={"files": (own, second)}), tmp_path / "data")
    assert (tmp_path / "data/set/a.bin").read_bytes() == MEMBERS["set/a.bin"]


def test_a_file_the_mirror_lacks_is_named_with_its_place(mirror: Dataset, tmp_path: Path) -> None:
    (tmp_path / "served/v1/sub/b.bin").unlink()
    with pytest.raises(UserError, match=r"v1/sub/b\.bin: HTTP 404") as error:
        files.ensure(mirror, tmp_path / "data")
    assert "\n" not in str(error.value)


def test_a_name_stands_for_a_list_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mirror: Dataset) -> None:
    assert not isinstance(mirror.files, str)
    (tmp_path / "files").mkdir()
    lines = [f"{file.sha256}  {file.bytes}  {file.path}\n" for file in mirror.files]
    (tmp_path / "files" / "some-set.txt").write_text("".join(lines))
    monkeypatch.setattr(folder, "CONF", tmp_path)
    named = mirror.model_copy(update={"files": "some-set"})
    assert named.members == mirror.files
    assert named.bytes == sum(map(len, MEMBERS.values()))
    files.ensure(named, tmp_path / "data")
    assert not files.faults(named, tmp_path / "data", "sha256")
