"""Whatever a rule forbids, done to sound evidence, is found by that rule."""

import pytest

from suite.rules.reading import PACKAGE, RESULT, RUN
from tests.rules.evidence_maker import isolate
from tests.rules.found import ALWAYS
from tests.rules.mutation import survey


@pytest.mark.slow
def test_no_mutant_is_missed(tmp_path, monkeypatch):
    isolate(monkeypatch, tmp_path)
    made = survey(tmp_path)
    print(made)
    assert made.misses == []
    assert made.mutants.keys() | ALWAYS == {rule for checks in (RUN, RESULT, PACKAGE) for rule in checks.by_rule}
    assert made.mutants.total() > 400
