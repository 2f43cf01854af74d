"""Both frameworks are one recipe: same parameters, same episodes, same outputs, same work."""

import importlib

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
from suite.harness.implementation import Device
from suite.store.task import load_task
from tasks.reinforcement_learning import FIRST_EVALUATION_SEED

TASK = load_task("reinforcement_learning")
SCALES = ["mini", "small"]
FRAMEWORKS = ["torch", "tensorflow"]
SHORT = {"global_batch_size": 512, "minibatch_size": 128, "num_envs": 4, "update_epochs": 2}


def recipe(scale: str, **changes) -> Hyperparameters:
    return Hyperparameters.of(config.benchmark("reinforcement_learning", scale).hyperparameters | changes)


def build(framework: str, scale: str, seed: int = 3, **changes):
    module = importlib.import_module(f"reference_impls.reinforcement_learning.{framework}")
    data = TASK.prepare(scale, None)
    data["evaluation_seeds"] = data["evaluation_seeds"][:3]
    return module.build(vars(recipe(scale, **SHORT, **changes)), data, seed, Device("cpu", "fp32"))


def observations(scale: str) -> np.ndarray:
    environments = Environments(str(TASK.prepare(scale, None)["environment"]), 8, 0)
    return np.stack([episode.observation for episode in environments.episodes])


@pytest.mark.parametrize("scale", SCALES)
def test_torch_weights_give_the_same_outputs_in_tensorflow(scale):
    torch, tensorflow = build("torch", scale), build("tensorflow", scale, seed=4)
    torch.train_until(1024)
    tensorflow.load_state_dict(torch.state_dict())
    seen = observations(scale)
    assert np.ptp(torch.act(seen)[:, 0]) > 1e-3
    assert np.abs(torch.act(seen) - tensorflow.act(seen)).max() < 1e-4
    assert np.abs(torch.values(seen) - tensorflow.values(seen)).max() < 1e-4
    assert torch.predict() == tensorflow.predict()


@pytest.mark.parametrize("scale", SCALES)
def test_both_take_the_same_steps(scale):
    torch, tensorflow = build("torch", scale), build("tensorflow", scale)
    before, there = torch.state_dict(), tensorflow.state_dict()
    assert before.keys() == there.keys()
    assert all(np.array_equal(before[name], there[name]) for name in before)
    losses = [implementation.train_until(1024).loss for implementation in (torch, tensorflow)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    ours, theirs = torch.state_dict(), tensorflow.state_dict()
    assert np.array_equal(ours["episode_actions"], theirs["episode_actions"])
    assert np.abs(ours["parameters"] - before["parameters"]).max() > 1e-3
    assert np.abs(ours["parameters"] - theirs["parameters"]).max() < 1e-4


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_goes_on_from_a_state_as_if_never_stopped(framework, scale):
    whole, cut, resumed = (build(framework, scale) for _ in range(3))
    whole.train_until(1536)
    cut.train_until(1024)
    cut.predict()
    resumed.load_state_dict(cut.state_dict())
    resumed.train_until(1536)
    expected, found = whole.state_dict(), resumed.state_dict()
    assert expected["episodes_ended"].sum() > 0
    assert (expected["episode_actions"] >= 0).any()
    assert all(np.array_equal(expected[name], found[name]) for name in expected)
    assert whole.predict() == resumed.predict()


@pytest.mark.parametrize("scale", SCALES)
def test_both_do_the_same_floating_point_operations(scale):
    import tensorflow as tf
    from torch.utils.flop_counter import FlopCounterMode

    torch, tensorflow = build("torch", scale), build("tensorflow", scale)
    seen = observations(scale)
    with FlopCounterMode(display=False) as counter:
        torch.act(seen), torch.values(seen)
    flops = 0
    for function in (tensorflow.graph_act, tensorflow.graph_values):
        for operation in function.get_concrete_function(tf.TensorSpec(seen.shape)).graph.get_operations():
            if operation.type == "MatMul":
                rows, inner = operation.inputs[1].shape
                flops += 2 * len(seen) * rows * inner
    assert flops == counter.get_total_flops()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_diverging_is_told_by_the_loss(framework):
    implementation = build(framework, "mini", opt_base_learning_rate=1e38)
    assert np.isnan(implementation.train_until(1024).loss)


@pytest.mark.gpu
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_trains_on_a_gpu(framework):
    module = importlib.import_module(f"reference_impls.reinforcement_learning.{framework}")
    data = TASK.prepare("mini", None)
    implementation = module.build(vars(recipe("mini")), data, 3, Device("gpu", "bf16"))
    implementation.train_until(32768)
    assert TASK.score(implementation.predict(), data)["mean_return"] > 400


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
    hyper = recipe("mini", **SHORT)

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
    hyper = recipe("small", **SHORT)
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
    evaluation = Evaluation("CartPole-v1", data["evaluation_seeds"])
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
    hyper = recipe("mini", **SHORT)
    rows = orders(1, 0, hyper)
    assert rows.shape == (hyper.updates, hyper.minibatch_size)
    assert all(sorted(epoch) == list(range(512)) for epoch in rows.reshape(hyper.update_epochs, -1).tolist())
    assert not np.array_equal(rows, orders(1, 1, hyper))
