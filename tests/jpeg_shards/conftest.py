"""Archives and folders in ImageNet's formats, with a few made-up pictures."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.imagenet import in_the_place_of_imagenet, write_archives, write_folders
from tests.jpeg_shards.small import SMALL


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A folder of archives, and their pictures."""
    folder = tmp_path_factory.mktemp("drawn")
    return folder, write_archives(folder, SMALL)


@pytest.fixture
def pictures(tmp_path: Path, drawn: tuple[Path, dict[str, bytes]]) -> Iterator[dict[str, bytes]]:
    """The pictures of archives in `tmp_path`, which are taken for ImageNet's."""
    folder, made = drawn
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    with in_the_place_of_imagenet(tmp_path, SMALL):
        yield made


@pytest.fixture
def unpacked(tmp_path: Path, pictures: dict[str, bytes]) -> Path:
    """A data folder with `imagenet/`, of the pictures of `tmp_path`'s archives."""
    write_folders(tmp_path, pictures, tmp_path / "unpacked")
    return tmp_path / "unpacked"
