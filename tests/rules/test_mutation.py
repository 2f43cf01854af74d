"""Whatever a rule forbids, done to sound evidence, is found by that rule."""

import pytest

from tests.rules.evidence_maker import isolate
from tests.rules.mutation import changed, survey


@pytest.mark.slow
def test_no_derived_mutant_is_missed(tmp_path, monkeypatch):
    """Those written by hand are in test_rules.py."""
    isolate(monkeypatch, tmp_path)
    made = survey(tmp_path, changed())
    print(made)
    assert made.misses == []
    assert made.mutants.total() > 400
