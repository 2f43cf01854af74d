"""The commands where Python, psutil and the file system have none of what Linux alone has: as on macOS."""

import json
from pathlib import Path

import pytest

from tests import command
from tests.command import PROJECT, run

WITHOUT = Path(__file__).parent / "without_linux"
SHORT = ("evaluation.first=2048", "budget_samples=4096", "division=open", "seed=1")


@pytest.fixture(autouse=True)
def without_linux(monkeypatch):
    monkeypatch.setitem(command.ENVIRONMENT, "PYTHONPATH", f"{WITHOUT}:{PROJECT}")


def test_doctor_tells_what_is_there(tmp_path):
    done = run(tmp_path, "suite.doctor")
    assert (done.returncode, done.stderr) == (0, "")
    assert "none: energy is estimated from load" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(["task=image_classification"], 0, marks=pytest.mark.soak),
        (["task=reinforcement_learning", *SHORT], 3),
    ],
)
def test_a_run_ends_as_on_linux_and_its_evidence_can_be_reviewed(words, code, tmp_path):
    done = run(tmp_path, "suite.run", *words, "scale=mini", "hw=cpu", "mlflow=false", "out=evidence")
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    last = (tmp_path / "evidence/power.csv").read_text().splitlines()[-1].split(",")
    assert last[5] == ""  # what a hypervisor stole is not known, which is not none
    review = run(tmp_path, "suite.review", "evidence", "--json")
    verdict = json.loads(review.stdout)
    assert verdict["converged"] == (code == 0)
    assert "log.6" in {each["rule"] for each in verdict["findings"]}  # macOS drops no file from its page cache
