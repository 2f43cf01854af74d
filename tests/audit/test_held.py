"""`suite audit PATH equivalence=true`: an implementation of one's own, held to the reference by the auditor."""

import pytest

from suite.record.system import ROOT
from tests.audit.conftest import audited, trained

pytestmark = pytest.mark.slow  # each trains
OURS = """
import torch

from reference_impls.image_classification import torch as reference

ACCELERATORS = 1


def build(hyperparameters, data, seed, device):
    rate = {factor} * hyperparameters["head_learning_rate"]
    return reference.build({{**hyperparameters, "head_learning_rate": rate}}, data, seed, device)
"""


@pytest.mark.parametrize(("factor", "found"), [(1.0, set()), (1.05, {"audit.9"})])
def test_an_auditor_holds_it_to_the_reference_again(factor, found, tmp_path, capsys):
    (tmp_path / "ours.py").write_text(OURS.format(factor=factor))
    made = trained(tmp_path, ROOT, "seed=11", f"implementation={tmp_path / 'ours.py'}")
    code, report, failed = audited(capsys, made, "blocks=1", "draw=01", "equivalence=true")
    assert failed == found, report["findings"]
    assert code == (1 if found else 0)
    told = [each["found"] for each in report["findings"] if each["rule"] == "audit.9"]
    assert any("head.weight" in each for each in told) == bool(found)
    ((_, trials),) = [each.values() for each in report["equivalence"]]
    beyond = [trial for trial in trials if trial["found"] is not None and trial["found"] > trial["bound"]]
    assert len(trials) > 20
    assert len(beyond) == len(told)
