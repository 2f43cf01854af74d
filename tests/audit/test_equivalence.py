"""`suite audit PATH equivalence=true`: an implementation of one's own, held to the reference by the auditor."""

from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from suite.audit import equivalence as auditing
from suite.audit.process import Failed
from suite.audit.replaying import Means
from suite.audit.subject import run_of
from suite.config.folder import ROOT
from suite.rules.reading import Evidence
from tasks import image_classification
from tests.audit.conftest import SEED, audited, needs_isolation, trained

JAX = Path(__file__).parents[1] / "implementations/jax_digits"
OURS = """
import torch

from reference_impls.image_classification import torch as reference

ACCELERATORS = 1


def build(hyperparameters, data, seed, device):
    rate = 1.05 * hyperparameters["head_learning_rate"]
    return reference.build({**hyperparameters, "head_learning_rate": rate}, data, seed, device)
"""


def test_it_is_built_with_the_hyperparameters_of_its_run(run, monkeypatch):
    run.edit_config(lambda values: values["benchmark"]["hyperparameters"].update(global_batch_size=200))
    monkeypatch.setattr(auditing, "equivalence", lambda subject, precisions: subject.benchmark.hyperparameters)
    made = run_of(Evidence.read(run.folder), run.folder, "", None)
    assert auditing.held(made, Means(ROOT, image_classification, {}, "cpu"))["global_batch_size"] == 200


def test_a_process_ends_with_the_last_use_of_what_it_has_built(run, monkeypatch):
    alive = []

    @contextmanager
    def started(*_):
        alive.append("process")
        yield
        alive.pop()

    def equivalence(subject, precisions):
        pair = subject.pair("fp32")
        meanwhile = len(alive)
        del pair
        return meanwhile, len(alive)

    monkeypatch.setattr(auditing, "started", started)
    monkeypatch.setattr(auditing, "equivalence", equivalence)
    made = run_of(Evidence.read(run.folder), run.folder, "", None)
    assert auditing.held(made, Means(ROOT, image_classification, {}, "cpu")) == (2, 0)


def test_states_that_cannot_be_compared_are_told(run, monkeypatch):
    monkeypatch.setattr(auditing, "equivalence", lambda *_: {}["head.weight"])
    made = run_of(Evidence.read(run.folder), run.folder, "", None)
    with pytest.raises(Failed, match="its states cannot be compared: KeyError: 'head"):
        auditing.held(made, Means(ROOT, image_classification, {}, "cpu"))


@needs_isolation
@pytest.mark.soak  # trains; test_package.py tells most of the same
@pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed: pip install -e '.[jax]'")
def test_code_in_a_framework_of_no_reference_is_held_to_one(tmp_path, capsys):
    made = trained(tmp_path, ROOT, f"seed={SEED}", f"implementation={JAX}")
    code, report, failed = audited(capsys, made, "blocks=1", "draw=01", "equivalence=true")
    assert (code, failed) == (0, set()), report["findings"]
    ((_, trials),) = [each.values() for each in report["equivalence"]]
    assert any(trial["found"] for trial in trials)


@needs_isolation
@pytest.mark.soak
def test_an_auditor_finds_a_changed_hyperparameter_again(tmp_path, capsys):
    """That which changes nothing passes: see test_package.py."""
    (tmp_path / "ours.py").write_text(OURS)
    made = trained(tmp_path, ROOT, f"seed={SEED}", f"implementation={tmp_path / 'ours.py'}")
    code, report, failed = audited(capsys, made, "blocks=1", "draw=01", "equivalence=true")
    assert (code, failed) == (1, {"audit.9"}), report["findings"]
    told = [each["found"] for each in report["findings"] if each["rule"] == "audit.9"]
    assert any("head.weight" in each for each in told)
    ((_, trials),) = [each.values() for each in report["equivalence"]]
    beyond = [trial for trial in trials if trial["found"] is not None and trial["found"] > trial["bound"]]
    assert len(beyond) == len(told) < len(trials)
