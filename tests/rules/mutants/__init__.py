"""For each rule ways to break it and nothing else: `MUTANTS[rule]` edits a run's sound evidence in place.

`RESULT_MUTANTS[rule]` edits the folder of a result of five runs.
"""

from tests.rules.mutants import (  # noqa: F401 (importing a module registers its mutants)
    audit,
    benchmark,
    copies,
    equivalence,
    files,
    implementation,
    log,
    outcome,
    restarts,
    rounds,
    runs,
    systems,
    witness,
)
from tests.rules.mutants.registry import MUTANTS, RESULT_MUTANTS

__all__ = ["MUTANTS", "RESULT_MUTANTS"]
