"""Reinforcement learning from end to end, through the commands; its episodes, honest and hostile."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite import config
from suite.errors import BadPrediction
from suite.store.arrays import prepared
from suite.store.task import load_task
from tasks.reinforcement_learning import FIRST_EVALUATION_SEED
from tasks.reinforcement_learning.episode import Episode
from tests.command import ENVIRONMENT, PROJECT, run

TASK = load_task("reinforcement_learning")
SEEDS = [FIRST_EVALUATION_SEED, FIRST_EVALUATION_SEED + 1, FIRST_EVALUATION_SEED + 2]
CARTPOLE = {"environment": np.array("CartPole-v1"), "test_seeds": np.array(SEEDS)}
LANDER = {"environment": np.array("LunarLander-v3"), "test_seeds": np.array(SEEDS)}


def play(name: str, seed: int, choose) -> tuple[dict, float]:
    """An episode with the actions that `choose` makes of observations: the prediction, and the return by Gymnasium."""
    import gymnasium

    environment = gymnasium.make(name)
    observation, _ = environment.reset(seed=seed)
    actions, total, over = [], 0.0, False
    while not over:
        actions.append(choose(observation))
        observation, reward, terminated, truncated, _ = environment.step(actions[-1])
        total += float(reward)
        over = terminated or truncated
    return {"seed": seed, "actions": "".join(map(str, actions))}, total


def balance(observation) -> int:
    """Keeps CartPole up, to its time limit."""
    return int(observation[2] + 0.3 * observation[3] + 0.05 * observation[0] + 0.1 * observation[1] > 0)


def brake(observation) -> int:
    """Lands or crashes LunarLander."""
    return 2 if observation[3] < -0.3 else 1 if observation[4] < -0.1 else 3 if observation[4] > 0.1 else 0


@pytest.mark.parametrize("package", ["Box2D", "gymnasium"])
def test_a_missing_environment_gets_one_line(tmp_path, monkeypatch, package):
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError({package!r} + ' is not here')")
    monkeypatch.setitem(ENVIRONMENT, "PYTHONPATH", f"{tmp_path}{os.pathsep}{PROJECT}")
    arguments = ("task=reinforcement_learning", "scale=small", "hw=cpu", "framework=torch", "out=evidence")
    done = run(tmp_path, "suite.run", *arguments, "mlflow=false")
    assert done.returncode == 2
    assert "LunarLander-v3" in done.stderr
    assert "pip install -c constraints.txt -e '.[reinforcement-learning]'" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("data", "choose"), [(CARTPOLE, balance), (CARTPOLE, lambda _: 1), (LANDER, brake)])
def test_scores_the_returns_that_gymnasium_gives(data, choose):
    episodes = [play(str(data["environment"]), seed, choose) for seed in SEEDS]
    metrics = TASK.score([episode for episode, _ in episodes], data)
    assert metrics["mean_return"] == np.mean([total for _, total in episodes])
    assert metrics["return_deviation"] == pytest.approx(np.std([total for _, total in episodes]))
    assert metrics["mean_length"] == np.mean([len(episode["actions"]) for episode, _ in episodes])


def test_a_cartpole_that_stays_up_is_over_at_the_time_limit():
    episodes = [play("CartPole-v1", seed, balance)[0] for seed in SEEDS]
    assert TASK.score(episodes, CARTPOLE)["mean_return"] == 500
    cut = [episodes[0] | {"actions": episodes[0]["actions"][:-1]}, *episodes[1:]]
    with pytest.raises(BadPrediction, match="not over after 499 actions") as caught:
        TASK.score(cut, CARTPOLE)
    assert caught.value.line == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda e: e | {"actions": e["actions"] + "1"},
        lambda e: e | {"actions": e["actions"][:-1]},
        lambda e: e | {"actions": "2" + e["actions"][1:]},
        lambda e: e | {"actions": "\N{ARABIC-INDIC DIGIT ZERO}" + e["actions"][1:]},
        lambda e: e | {"actions": "1" * 501},
        lambda e: e | {"actions": [int(a) for a in e["actions"]]},
        lambda e: e | {"seed": e["seed"] + 1},
        lambda e: e | {"seed": float(e["seed"])},
        lambda e: e | {"return": 500},
        lambda e: {"actions": e["actions"]},
        lambda e: 500,
    ],
)
def test_refuses_what_is_not_the_episode_of_its_seed(spoil):
    episodes = [play("CartPole-v1", seed, lambda _: 1)[0] for seed in SEEDS]
    episodes[1] = spoil(episodes[1])
    with pytest.raises(BadPrediction) as caught:
        TASK.score(episodes, CARTPOLE)
    assert caught.value.line == 2


def test_refuses_missing_episodes():
    with pytest.raises(BadPrediction, match="2 episodes for 3 seeds"):
        TASK.score([play("CartPole-v1", seed, balance)[0] for seed in SEEDS[:2]], CARTPOLE)
    with pytest.raises(BadPrediction, match="4 episodes for 3 seeds"):
        TASK.score([play("CartPole-v1", seed, lambda _: 1)[0] for seed in (*SEEDS, SEEDS[0])], CARTPOLE)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["seed", "actions", "x"]), inner),
)
ALMOST = st.fixed_dictionaries(
    {"seed": st.sampled_from(SEEDS) | JSON, "actions": st.text("0123", max_size=1100) | st.text("01") | JSON}
)


@pytest.mark.parametrize("data", [CARTPOLE, LANDER])
@settings(max_examples=60)
@given(st.lists(JSON | ALMOST, min_size=3, max_size=3) | st.lists(JSON, max_size=5))
def test_no_prediction_breaks_the_metric(data, predictions):
    try:
        metrics = TASK.score(predictions, data)
    except BadPrediction:
        return
    assert all(isinstance(value, float) for value in metrics.values())


def test_another_process_plays_a_landing_again_bit_by_bit():
    prediction, _ = play("LunarLander-v3", SEEDS[0], brake)
    program = (
        "import sys; from tasks.reinforcement_learning.episode import Episode; e = Episode('LunarLander-v3');"
        "e.begin(7); [e.step(2) for _ in range(20)];"
        "e.begin(int(sys.argv[1]), map(int, sys.argv[2])); print(e.over, e.total.hex(), e.observation.tobytes().hex())"
    )
    arguments = [sys.executable, "-c", program, str(prediction["seed"]), prediction["actions"]]
    other = subprocess.run(arguments, cwd=PROJECT, capture_output=True, text=True, check=True).stdout.split()
    episode = Episode("LunarLander-v3")
    episode.begin(prediction["seed"], map(int, prediction["actions"]))
    assert other == ["True", episode.total.hex(), episode.observation.tobytes().hex()]


def test_draws_a_landing_from_the_predictions_of_a_run(tmp_path):
    from xml.etree import ElementTree

    prediction, total = play("LunarLander-v3", SEEDS[1], brake)
    (tmp_path / "config.yaml").write_text("task: reinforcement_learning\nscale: small\n")
    cut = {**prediction, "actions": prediction["actions"][:-1]}
    lines = [{}, prediction, {**prediction, "seed": -1}, cut]
    (tmp_path / "predictions.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    done = run(tmp_path, "tasks.reinforcement_learning.draw", ".", "landing.svg", "2")
    assert done.returncode == 0, done.stderr
    svg = ElementTree.parse(tmp_path / "landing.svg")
    assert f"return {total:.1f} after {len(prediction['actions'])} steps" in svg.find("{*}title").text
    assert len(svg.find("{*}polyline").get("points").split()) == len(prediction["actions"]) + 1
    for line, said in (
        ("1", ".: predictions.jsonl, line 1: not an episode with the seed of an evaluation"),
        ("3", ".: predictions.jsonl, line 3: not an episode with the seed of an evaluation"),
        ("4", f".: predictions.jsonl, line 4: the episode is not over after {len(cut['actions'])} actions"),
        ("5", ". has 4 episodes, no line 5"),
    ):
        refused = run(tmp_path, "tasks.reinforcement_learning.draw", ".", "landing.svg", line)
        assert (refused.returncode, refused.stderr) == (2, f"error: {said}\n")


@pytest.mark.parametrize(("scale", "name"), [("mini", "CartPole-v1"), ("small", "LunarLander-v3")])
def test_an_environment_is_all_that_is_prepared(scale, name):
    data = prepared(config.benchmark("reinforcement_learning", scale), TASK)
    assert str(data["environment"]) == name
    assert data.keys() == {"environment"}


@given(st.integers(0, 2**63 - 1))
def test_evaluation_is_100_episodes_apart_from_training_and_the_run_s_own(seed):
    drawn, again, other = (TASK.evaluation_arrays({}, each)["test_seeds"] for each in (seed, seed, seed ^ 1))
    assert np.array_equal(drawn, again)
    assert len(set(drawn.tolist())) == 100
    assert FIRST_EVALUATION_SEED <= drawn.min() < drawn.max() < 2 * FIRST_EVALUATION_SEED
    assert len({*drawn.tolist(), *other.tolist()}) > 190
