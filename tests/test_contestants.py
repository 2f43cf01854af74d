"""Implementations of one's own in three frameworks: trained, reviewed, and trained again by the code that was kept.

JAX's needs jax, which the development packages bring; numpy's is that of tests/test_implementation.py.
"""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from suite.review.__main__ import main as review
from tests.audit.conftest import needs_isolation
from tests.command import run

HERE = Path(__file__).parent
DIGITS = ("task=image_classification", "scale=mini", "hw=cpu", "mlflow=false")
NEEDS_JAX = pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed: pip install -e '.[jax]'")


def reviewed(evidence, capsys):
    code = review([str(evidence), "--json"])
    made = json.loads(capsys.readouterr().out)
    failed = [finding for finding in made["findings"] if finding["severity"] != "note"]
    return code, made["converged"], failed


@pytest.fixture
def theirs(tmp_path, request):
    """An implementation of digits in the framework that is asked for, in a folder `theirs`."""
    if request.param == "jax":
        shutil.copytree(HERE / "implementations/jax_digits", tmp_path / "theirs")
    else:
        words = ("task=image_classification", "implementation=theirs", f"framework={request.param}")
        assert run(tmp_path, "suite.new", *words).returncode == 0
    return request.param


@needs_isolation
@pytest.mark.slow
@pytest.mark.parametrize(
    "theirs",
    [
        pytest.param("torch", marks=pytest.mark.soak),  # tests/audit/test_package.py goes further
        pytest.param("tensorflow", marks=pytest.mark.soak),
        pytest.param("jax", marks=NEEDS_JAX),
    ],
    indirect=True,
)
def test_it_trains_digits_to_the_target_and_passes_review_and_audit(theirs, tmp_path, capsys):
    words = ("implementation=theirs", "seed=3", "checkpoints=keep", "out=evidence")
    done = run(tmp_path, "suite.run", *DIGITS, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert yaml.safe_load((tmp_path / "evidence/config.yaml").read_text())["framework"] == theirs
    assert reviewed(tmp_path / "evidence", capsys) == (0, True, [])
    (tmp_path / "theirs/__init__.py").write_text("raise AssertionError('the code that was kept trains again')\n")
    audit = run(tmp_path, "suite.audit", "evidence", "run_code=true", "blocks=1", "--json")
    assert audit.returncode == 0, audit.stdout + audit.stderr
    (block,) = json.loads(audit.stdout)["blocks"]
    assert block["exact"]


@pytest.mark.parametrize("theirs", [pytest.param("jax", marks=NEEDS_JAX)], indirect=True)
def test_what_it_does_not_train_is_one_line(theirs, tmp_path):
    """As of the references: what the author's code refuses is the user's mistake."""
    done = run(tmp_path, "suite.run", *DIGITS, "implementation=theirs", "hyperparameters.eval_shift_fraction=0.5")
    assert done.returncode == 2, done.stdout
    (said,) = done.stderr.splitlines()
    assert said.startswith("error: the JAX example trains scale=mini alone: ")


@pytest.mark.soak  # what it promises and a run does not need is of its author alone
@pytest.mark.parametrize("theirs", [pytest.param("jax", marks=NEEDS_JAX)], indirect=True)
def test_jax_keeps_the_promises_of_an_implementation(theirs, tmp_path):
    words = ("task=image_classification", "scale=mini", "implementation=theirs")
    done = run(tmp_path, "suite.check", *words)
    assert done.returncode == 0, done.stdout + done.stderr
