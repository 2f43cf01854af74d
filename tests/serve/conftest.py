"""A run whose model is served, for the tests of the command in this process and over HTTP."""

import json

import pytest

from suite.serve.__main__ import main
from tests.command import PROJECT, run

OURS = PROJECT / "tests/implementations/alike"
LOAD = ("scenario=single-stream,server", "rate=2000", "latency=2", "seconds=0.3")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of a few steps whose states were kept."""
    folder = tmp_path_factory.mktemp("serve")
    words = ("task=image_classification", "scale=mini", "hw=cpu", f"implementation={OURS}", "checkpoints=keep")
    done = run(folder, "suite.run", *words, "division=open", "budget_samples=4000", "mlflow=false", "out=kept")
    assert (folder / "kept/states").exists(), done.stdout + done.stderr
    return folder / "kept"


def asked(capsys, *words: str) -> dict:
    assert main([*words, f"implementation={OURS}", "--json"]) == 0
    return json.loads(capsys.readouterr().out)
