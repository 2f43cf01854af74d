"""What decided a run, and what only tells it from others."""

from suite.rules.environment import decided
from suite.rules.reading import Evidence
from tests.rules.evidence_maker import write_run


def test_what_tells_runs_and_results_apart_did_not_decide_them(tmp_path):
    one = Evidence.read(write_run(tmp_path / "one").folder)
    other = write_run(tmp_path / "other", index=2, runs=3, seed=200)
    assert decided(Evidence.read(other.folder)) == decided(one)
    other.edit_config(lambda values: values["benchmark"].update(target=0.5))
    apart = decided(Evidence.read(other.folder)).items() ^ decided(one).items()
    assert {name for name, _ in apart} == {"config.benchmark.target"}
