import pytest

from tests.rules.evidence_maker import write_run


@pytest.fixture(scope="session")
def sound_run(tmp_path_factory):
    """Evidence of one run that passes; copy it before editing."""
    return write_run(tmp_path_factory.mktemp("sound") / "run")


@pytest.fixture
def run(sound_run, tmp_path):
    """Evidence of one run that passes, to be edited."""
    return sound_run.copy(tmp_path / "evidence")


@pytest.fixture(scope="session")
def sound_result(tmp_path_factory):
    """The folder of five runs that pass."""
    folder = tmp_path_factory.mktemp("sound") / "result"
    for index in range(1, 6):
        write_run(folder / f"run_{index}", index, runs=5)
    return folder
