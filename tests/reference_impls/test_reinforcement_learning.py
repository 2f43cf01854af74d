"""What is peculiar to reinforcement learning: initial weights, seeds, actions, advantages, evaluation episodes."""

import numpy as np
import pytest

from reference_impls.reinforcement_learning.shared import (
    Environments,
    Evaluation,
    Hyperparameters,
    Rollout,
    initial_parameters,
    orders,
    shapes,
)
from suite import config
from suite.store.task import load_task
from tasks.reinforcement_learning import FIRST_EVALUATION_SEED
from tests.reference_impls.cases import BY_ID, FRAMEWORKS, SHORT_EPISODES, build

TASK = load_task("reinforcement_learning")


def recipe(scale: str, **changes) -> Hyperparameters:
    return Hyperparameters.of(config.benchmark("reinforcement_learning", scale).hyperparameters | changes)


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_a_state_holds_the_episodes_that_run(scale):
    implementation = build(BY_ID[f"reinforcement_learning-{scale}"], "torch")
    implementation.train_until(1536)
    state = implementation.state_dict()
    assert state["episodes_ended"].sum() > 0
    assert (state["episode_actions"] >= 0).any()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_diverging_is_told_by_the_loss(framework):
    implementation = build(BY_ID["reinforcement_learning-mini"], framework, opt_base_learning_rate=1e38)
    assert np.isnan(implementation.train_until(1024).loss)


def test_weights_start_orthogonal():
    layout = shapes(recipe("small", hidden_sizes=[64, 32]), 8, 4)
    assert layout[:6] == [(64, 8), (64,), (32, 64), (32,), (4, 32), (4,)]
    assert layout[-2:] == [(1, 32), (1,)]
    sizes = np.cumsum([int(np.prod(shape)) for shape in layout])
    parts = np.split(initial_parameters(layout, 1), sizes[:-1])
    weights = [part.reshape(shape) for part, shape in zip(parts, layout, strict=True)][::2]
    for weight, gain in zip(weights, [2**0.5, 2**0.5, 0.01, 2**0.5, 2**0.5, 1], strict=True):
        wide = weight if weight.shape[0] <= weight.shape[1] else weight.T
        assert np.allclose(wide @ wide.T, gain**2 * np.eye(len(wide)), atol=1e-5)
    assert not any(part.any() for part in parts[1::2])


def test_training_seeds_are_apart_from_the_evaluation_seeds_and_differ_by_run():
    hyper = recipe("mini", **SHORT_EPISODES)

    def seeds(seed: int) -> list[int]:
        environments = Environments("CartPole-v1", 4, seed)
        begun = {episode.seed for episode in environments.episodes}
        for iteration in range(2):
            environments.rollout(lambda seen: np.full((len(seen), 2), 0.5, np.float32), iteration, hyper)
            begun |= {episode.seed for episode in environments.episodes}
        return sorted(begun)

    assert seeds(1) == seeds(1)
    assert not set(seeds(1)) & set(seeds(2))
    assert max(seeds(1)) < FIRST_EVALUATION_SEED


def test_actions_are_drawn_from_their_probabilities():
    hyper = recipe("small", **SHORT_EPISODES)
    odds = np.float32([0.1, 0.2, 0.3, 0.4])
    environments = Environments("LunarLander-v3", 4, 1)
    actions = environments.rollout(lambda seen: np.tile(odds, (len(seen), 1)), 0, hyper).actions
    assert np.allclose(np.bincount(actions.ravel(), minlength=4) / actions.size, odds, atol=0.06)


def test_an_episode_cut_by_the_time_limit_goes_on_in_the_value_of_its_end():
    hyper = recipe("mini", gamma=0.5, gae_lambda=0.5, reward_scale=2.0)
    flags = np.array([[False], [False], [True], [False]])
    rollout = {
        "observations": np.zeros((4, 1, 4)),
        "actions": np.zeros((4, 1)),
        "rewards": np.ones((4, 1)),
        "successors": np.zeros((4, 1, 4)),
        "over": flags,
    }
    values, following = np.full((4, 1), 1.0), np.full((4, 1), 8.0)
    cut = Rollout(**rollout, terminated=~flags & flags).advantages(values, following, hyper)
    # each error is 2 * 1 + 0.5 * 8 - 1 = 5; a later one counts a quarter, not across the end of an episode
    assert cut[:, 0].tolist() == [5 + (5 + 5 / 4) / 4, 5 + 5 / 4, 5, 5]
    ended = Rollout(**rollout, terminated=flags).advantages(values, following, hyper)
    assert ended[:, 0].tolist() == [5 + (5 + 1 / 4) / 4, 5 + 1 / 4, 1, 5]


def test_evaluation_takes_the_most_probable_action_until_each_episode_ends():
    data = TASK.prepare("mini", None)
    data |= TASK.evaluation_arrays(data, 7)
    evaluation = Evaluation("CartPole-v1", data["test_seeds"])
    sizes = []

    def act(seen):
        sizes.append(len(seen))
        return np.tile(np.float32([0.4, 0.6]), (len(seen), 1))

    episodes = evaluation.play(act)
    assert all(set(episode["actions"]) == {"1"} for episode in episodes)
    assert sizes[0] == 100
    assert sizes[-1] < 100
    assert sum(sizes) == sum(len(episode["actions"]) for episode in episodes)
    assert TASK.score(episodes, data)["mean_length"] == sum(sizes) / 100


def test_every_pass_takes_every_step_once():
    hyper = recipe("mini", **SHORT_EPISODES)
    rows = orders(1, 0, hyper)
    assert rows.shape == (hyper.updates, hyper.minibatch_size)
    assert all(sorted(epoch) == list(range(512)) for epoch in rows.reshape(hyper.update_epochs, -1).tolist())
    assert not np.array_equal(rows, orders(1, 1, hyper))
