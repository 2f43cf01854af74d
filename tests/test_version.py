"""A version of the suite stands for one set of benchmarks: whoever changes what a run is held to raises it."""

import hashlib
import json
import tomllib
from pathlib import Path

from suite import __version__, config

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"

SUMS = {
    "0.1.0": "ed919131c5f4808598e2fbd1f9e2b7d23161f4e16b3049a9b592590d188a42f9",
}


def test_a_version_has_one_set_of_benchmarks():
    benchmarks = [config.benchmark(task, scale) for task in config.names("task") for scale in config.scales(task)]
    held_to = [each.model_dump(mode="json", exclude={"title": True, "dataset": {"citation"}}) for each in benchmarks]
    found = hashlib.sha256(json.dumps(held_to, sort_keys=True).encode()).hexdigest()
    assert SUMS[__version__] == found, (
        "raise __version__ in suite/__init__.py, and add its sum here: see CONTRIBUTING.md"
    )


def test_the_package_has_the_suite_s_version():
    assert tomllib.loads(PYPROJECT.read_text())["project"]["version"] == __version__
