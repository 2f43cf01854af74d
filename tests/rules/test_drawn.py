"""Evaluation episodes are drawn for each run from what nobody knows before, and the review draws them again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from suite.harness.seeds import evaluation_seed
from suite.record import evidence, mllog
from suite.rules.verdict import review
from suite.store.task import load_task
from tasks.reinforcement_learning.episode import Episode
from tests.json_values import FINITE_JSON
from tests.minis import trained
from tests.rules.editor import Evidence

TASK = load_task("reinforcement_learning")


@pytest.fixture
def run(tmp_path, tmp_path_factory):
    """Evidence of a real run, of which each test changes a copy."""
    real = Evidence(trained(tmp_path_factory, "reinforcement_learning") / "evidence")
    return real.copy(tmp_path / "evidence")


def found(run):
    return {finding.rule: finding.found for finding in review(run.folder).findings if finding.severity != "note"}


def head(token=None, seed=1, name="Gymnasium CartPole-v1", prev="0" * 64):
    """The lines of a log's head that evaluation arrays are drawn from."""
    shared = {"time_ms": 1, "event_type": "POINT_IN_TIME", "metadata": {"token": token, "prev": prev}}
    values = {logkeys.CONFIG: "0" * 64, keys.SEED: seed, logkeys.DATASET: name}
    records = [{**shared, "key": key, "value": value} for key, value in values.items()]
    return [mllog.parse(at, (mllog.TOKEN + json.dumps(record)).encode()) for at, record in enumerate(records, 1)]


def played(seed, choose=lambda seen: int(seen[2] + 0.3 * seen[3] + 0.05 * seen[0] + 0.1 * seen[1] > 0)):
    """An episode of CartPole, kept up to the time limit."""
    episode = Episode("CartPole-v1")
    episode.begin(seed)
    while not episode.over:
        episode.step(choose(episode.observation))
    return {"seed": seed, "actions": "".join(map(str, episode.actions))}


def put(run, predictions):
    """Replace the predictions and what the log says of them; each is an episode of return 500."""
    sha256 = evidence.write_predictions(run.folder / evidence.PREDICTIONS, predictions)
    evidence.keep_predictions(run.folder / evidence.PREDICTIONS, sha256)
    metrics = {"mean_return": 500.0, "return_deviation": 0.0, "mean_length": 500.0}
    change = {"metrics": metrics, "predictions_sha256": sha256}
    run.edit(keys.EVAL_ACCURACY, lambda r: r.update(value=500.0, metadata={**r["metadata"], **change}), at=-1)


def drawn(run):
    return TASK.evaluation_arrays({}, evaluation_seed(list(mllog.read(run.folder / evidence.LOG))))[
        "test_seeds"
    ].tolist()


def test_an_honest_run_passes(run):
    assert found(run) == {}
    predicted = (run.folder / evidence.PREDICTIONS).read_text().splitlines()
    assert [json.loads(line)["seed"] for line in predicted] == drawn(run)


def test_episodes_of_a_seed_of_one_s_own_are_found(run):
    put(run, [played(seed) for seed in drawn(run)])
    assert found(run) == {}
    put(run, [played(seed) for seed in TASK.evaluation_arrays({}, 7)["test_seeds"].tolist()])
    assert "an episode of another seed than" in found(run)["quality.6"]


def test_a_head_that_is_changed_afterwards_draws_other_episodes(run):
    before = drawn(run)
    run.edit(keys.CACHE_CLEAR, lambda record: record.update(time_ms=record["time_ms"] - 1))
    assert not set(before) & set(drawn(run))
    assert "an episode of another seed than" in found(run)["quality.6"]


def test_a_head_that_does_not_tell_leaves_nothing_to_score(run):
    run.edit_log(lambda records: records.remove(next(r for r in records if r["key"] == logkeys.DATASET)))
    assert "nobody can tell for which evaluation arrays" in found(run)["quality.6"]


@pytest.mark.parametrize("made", [lambda each: each, lambda each: {**each, "actions": each["actions"][:-1]}])
@pytest.mark.parametrize(
    ("part", "change"), [("detected", {"architecture": "another"}), ("software", {"gymnasium": "0.1"})]
)
def test_where_episodes_may_end_elsewhere_the_question_stays_open(run, made, part, change):
    put(run, [made(played(seed, lambda _: 0)) for seed in drawn(run)])
    run.edit_system(lambda values: values["detected"].pop("architecture"))  # as older evidence
    assert review(run.folder).verdict == "fail"
    run.edit_system(lambda values: values[part].update(change))
    again = review(run.folder)
    (name,) = change
    assert again.verdict == "error"
    assert all(f"({name} {change[name]}, here " in each.found for each in again.findings if each.rule == "quality.6")


def test_without_a_token_the_whole_head_decides_with_one_the_token_does():
    assert evaluation_seed(head(prev="1" * 64)) != evaluation_seed(head()) != evaluation_seed(head(seed=2))
    assert evaluation_seed(head("a round", prev="1" * 64)) == evaluation_seed(head("a round"))
    others = {evaluation_seed(each) for each in (head("a round"), head("another"), head("a round", seed=2), head())}
    assert len(others) == 4
    assert evaluation_seed(head(name="Gymnasium LunarLander-v3")) != evaluation_seed(head())
    assert evaluation_seed([*head(), *head(seed=2, prev="1" * 64)]) == evaluation_seed(head())  # what stood there first


@given(FINITE_JSON, FINITE_JSON, st.permutations(range(3)), st.integers(0, 3))
def test_a_head_may_hold_anything(token, seed, order, kept):
    lines = head(token, seed)
    made = evaluation_seed([lines[at] for at in order[:kept]])
    assert made is None or 0 <= made < 2**63
    assert (made is None) == (kept < 3 or type(seed) is not int or not isinstance(token, str | None))
