"""A result is shown as one of a round only if the round's token drew the seed of each of its runs."""

from suite.rules.verdict import review
from tests.rules.editor import Evidence
from tests.rules.evidence_maker import isolate, write_result
from tests.rules.mutants.rounds import a_token_that_did_not_draw_the_seed
from tests.rules.mutants.runs import reseeded


def test_a_result_of_a_round_names_its_token(tmp_path, monkeypatch):
    isolate(monkeypatch, tmp_path)
    write_result(tmp_path / "result", 2, token="round 1")
    assert review(tmp_path / "result").results[0].token == "round 1"
    reseeded(Evidence(tmp_path / "result" / "run_2"), 5)
    assert review(tmp_path / "result").results[0].token is None


def test_a_token_that_drew_nothing_is_not_shown(run):
    a_token_that_did_not_draw_the_seed(run)
    assert review(run.folder).results[0].token is None
