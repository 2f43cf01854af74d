import shutil

import pytest

from tests.command import eighth
from tests.parity_runs import RUN, begin


@pytest.fixture(scope="session")
def begun(tmp_path_factory):
    """Two runs in `cut`, of which the second was killed at its first evaluation."""
    return begin(tmp_path_factory.mktemp("begun"))


@pytest.fixture(scope="session")
def ended(tmp_path_factory):
    """A run that reached its target."""
    folder = tmp_path_factory.mktemp("ended")
    eighth(folder, "run", *RUN, "seed=1", "out=evidence")
    return folder / "evidence"


@pytest.fixture
def cut(begun, tmp_path):
    shutil.copytree(begun / "cut", tmp_path / "cut")
    return tmp_path / "cut"
