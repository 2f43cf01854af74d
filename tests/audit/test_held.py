"""`suite audit PATH equivalence=true`: an implementation of one's own, held to the reference by the auditor."""

import pytest
import yaml

from suite.check.__main__ import main as check
from suite.record.system import ROOT
from suite.submit.__main__ import main as submit
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


def theirs(folder, factor):
    """The evidence of a run whose learning rate of the head is `factor` times the reference's, and whose code it is."""
    path = folder / "ours.py"
    path.write_text(OURS.format(factor=factor))
    return trained(folder, ROOT, "seed=11", f"implementation={path}", "submitter=example-org"), path


def test_an_auditor_finds_what_is_not_the_reference(tmp_path, capsys):
    made, _ = theirs(tmp_path, 1.05)
    code, report, failed = audited(capsys, made, "blocks=1", "draw=01", "equivalence=true")
    assert (code, failed) == (1, {"audit.9"}), report["findings"]
    assert any("head.weight" in each["found"] for each in report["findings"] if each["rule"] == "audit.9")


def test_a_package_is_audited_with_the_code_that_it_brings(tmp_path, capsys):
    """From the run by the comparison and the submission to the audit, which finds the code nowhere else."""
    made, path = theirs(tmp_path, 1.0)
    precision = yaml.safe_load((made / "config.yaml").read_text())["precision"]
    words = ["task=image_classification", "scale=mini", f"implementation={path}", f"precision={precision}"]
    assert check([*words, f"out={made}"]) == 0
    path.unlink()
    words = ["org=example-org", "category=research", f"runs={made}", f"out={tmp_path / 'packages'}", "partial=true"]
    assert submit(words) == 0, capsys.readouterr().out
    code, report, _ = audited(capsys, tmp_path / "packages" / "example-org", "blocks=1", "draw=01", "equivalence=true")
    assert (code, report["verdict"], report["blocks"][0]["exact"]) == (0, "pass", True), report
