"""What the evidence of a begun run says of the machine that it was begun on, and until when it can go on."""

import json
import time
from dataclasses import replace

import pytest
from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import INIT_LIMITS_MIN
from suite.errors import UserError
from suite.harness import begun
from tests.measure import fakes
from tests.rules.evidence_maker import write_run
from tests.rules.mutants.registry import index_of

NOW = replace(fakes.machine("AMD Instinct MI300X", cpus=4), library="amdsmi")


@pytest.mark.parametrize(
    ("told", "cpus", "library"),
    [
        ({"detected": {"logical_cpus": 64, "library": "nvml"}}, 64, "nvml"),
        ({"detected": {"logical_cpus": 64}}, 64, None),
        ({"detected": {"logical_cpus": "64"}}, 4, None),
        ({"detected": []}, 4, None),
    ],
)
def test_cost_and_energy_are_of_the_processors_and_by_the_library_that_it_was_begun_with(tmp_path, told, cpus, library):
    """As a review derives them, which reads the same file."""
    (tmp_path / "system.json").write_text(json.dumps(told))
    assert begun.machine(tmp_path, NOW) == replace(NOW, logical_cpus=cpus, library=library)


def test_an_initialisation_goes_on_as_long_as_a_review_allows_it(tmp_path):
    limit = INIT_LIMITS_MIN[keys.CLOSED]
    run = write_run(tmp_path / "run")
    run.edit_log(lambda records: records.__delitem__(slice(index_of(records, keys.INIT_STOP), None)))
    for minutes in (limit - 1, limit + 1):
        (start,) = (record["time_ms"] for record in run.records() if record["key"] == keys.INIT_START)
        run.move(time.time_ns() // 1_000_000 - minutes * 60_000 - start)
        before = run.records()
        if minutes < limit:
            begun.open_log(run.folder, 0).close()
        else:
            with pytest.raises(
                UserError, match=f"begun {minutes} minutes ago and never ended, .*2 allows {limit}: begin"
            ):
                begun.open_log(run.folder, 0)
    assert run.records() == before
