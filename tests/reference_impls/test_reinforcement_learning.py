"""What is peculiar to reinforcement learning: initial weights, seeds, actions, advantages, processes, evaluation."""

import os
import signal
from dataclasses import astuple, replace

import numpy as np
import psutil
import pytest

from reference_impls.reinforcement_learning.environments import Environments, Group, Rollout
from reference_impls.reinforcement_learning.shared import Hyperparameters, initial_parameters, orders
from suite import config
from suite.errors import UserError
from suite.store.task import load_task
from tasks.reinforcement_learning import FIRST_EVALUATION_SEED
from tests.reference_impls.cases import BY_ID, FRAMEWORKS, SHORT_EPISODES, build
from tests.waiting import FOREVER_S

TASK = load_task("reinforcement_learning")
each_framework = pytest.mark.parametrize("framework", FRAMEWORKS)


def recipe(scale: str, **changes) -> Hyperparameters:
    return Hyperparameters.of(config.benchmark("reinforcement_learning", scale).hyperparameters | changes)


def constant(odds: list[float], size: int) -> list[np.ndarray]:
    """A policy that gives every observation the same probabilities."""
    return [np.zeros((len(odds), size), np.float32), np.log(np.float32(odds))]


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_a_state_holds_the_episodes_that_run(scale):
    implementation = build(BY_ID[f"reinforcement_learning-{scale}"], "torch")
    implementation.train_until(1536)
    state = implementation.state_dict()
    assert state["episodes_ended"].sum() > 0
    assert (state["episode_actions"] >= 0).any()


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_each_update_exchanges_gradients(scale):
    assert config.benchmark("reinforcement_learning", scale).exchanges_per_step == recipe(scale).updates


@each_framework
def test_diverging_is_told_by_the_loss(framework):
    implementation = build(BY_ID["reinforcement_learning-mini"], framework, opt_base_learning_rate=1e38)
    assert np.isnan(implementation.train_until(1024).loss)


def test_a_gpu_multiplies_fp32_as_it_is_whatever_an_environment_has_set():
    torch = pytest.importorskip("torch")
    torch.backends.cuda.matmul.allow_tf32 = True  # as TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1 has it
    build(BY_ID["reinforcement_learning-mini"], "torch")
    assert not torch.backends.cuda.matmul.allow_tf32


def test_weights_start_orthogonal():
    parameters = initial_parameters(recipe("small", hidden_sizes=[64, 32]), 8, 4, 1)
    gains = dict(
        zip(
            ("actor.0", "actor.2", "actor.4", "critic.0", "critic.2", "critic.4"),
            [2**0.5, 2**0.5, 0.01, 2**0.5, 2**0.5, 1],
            strict=True,
        )
    )
    assert [*parameters] == [f"{layer}.{name}" for layer in gains for name in ("weight", "bias")]
    assert [parameters[f"{layer}.weight"].shape for layer in gains] == [
        (64, 8),
        (32, 64),
        (4, 32),
        (64, 8),
        (32, 64),
        (1, 32),
    ]
    for layer, gain in gains.items():
        weight = parameters[f"{layer}.weight"]
        wide = weight if weight.shape[0] <= weight.shape[1] else weight.T
        assert np.allclose(wide @ wide.T, gain**2 * np.eye(len(wide)), atol=1e-5)
        assert not parameters[f"{layer}.bias"].any()


def test_training_seeds_are_apart_from_the_evaluation_seeds_and_differ_by_run():
    def seeds(seed: int) -> list[int]:
        group = Group("CartPole-v1", range(4), 4, seed)
        begun = {episode.seed for episode in group.episodes}
        for iteration in range(2):
            group.rollout(constant([0.5, 0.5], 4), iteration, 128)
            begun |= {episode.seed for episode in group.episodes}
        return sorted(begun)

    assert seeds(1) == seeds(1)
    assert not set(seeds(1)) & set(seeds(2))
    assert max(seeds(1)) < FIRST_EVALUATION_SEED


def test_actions_are_drawn_from_their_probabilities():
    odds = [0.1, 0.2, 0.3, 0.4]
    actions = Group("LunarLander-v3", range(4), 4, 1).rollout(constant(odds, 8), 0, 128).actions
    assert np.allclose(np.bincount(actions.ravel(), minlength=4) / actions.size, odds, atol=0.06)


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_the_number_of_processes_changes_nothing(cores):
    """Of 20 environments, in three groups, the last one smaller."""
    environments = Environments("LunarLander-v3", 20, 7, cores)
    assert len(environments.processes) == cores
    policy = constant([0.1, 0.2, 0.3, 0.4], 8)
    together = environments.rollout(policy, 3, 100)
    for numbers in (range(8), range(8, 16), range(16, 20)):
        alone = Group("LunarLander-v3", numbers, 20, 7).rollout(policy, 3, 100)
        for ours, theirs in zip(astuple(together), astuple(alone), strict=True):
            assert np.array_equal(ours[:, numbers], theirs)
    assert together.over.any()
    state = environments.state_dict()
    after = environments.rollout(policy, 4, 50)
    environments.load_state_dict(state)
    for ours, theirs in zip(astuple(environments.rollout(policy, 4, 50)), astuple(after), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.timeout(400)  # seconds, of which it takes a few; asked for group by group the process waits for ever
def test_a_process_has_any_number_of_groups():
    """Both the weights for eight groups and the steps of one are more than a pipe holds."""
    environments = Environments("LunarLander-v3", 64, 7, 1)
    assert len(environments.processes) == 1
    policy = [np.zeros((4096, 8), np.float32), np.zeros(4096, np.float32), *constant([0.25] * 4, 4096)]
    assert environments.rollout(policy, 0, 128).actions.shape == (128, 64)


def test_a_signal_to_all_processes_leaves_the_environments_to_the_harness():
    environments = Environments("CartPole-v1", 16, 7, 2)
    for process in environments.processes:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
    assert environments.state_dict()["episodes_ended"].tolist() == [0] * 16


def test_no_process_outlives_the_environments():
    environments = Environments("CartPole-v1", 16, 7, 2)
    environments.state_dict()
    children = [psutil.Process(process.pid) for process in environments.processes]
    assert all(child.is_running() for child in children)
    del environments
    _, alive = psutil.wait_procs(children, timeout=FOREVER_S)
    assert not alive


@pytest.mark.timeout(400)
def test_processes_end_while_another_has_their_pipe_as_well():
    """One that was forked from this would."""
    environments = Environments("CartPole-v1", 8, 7, 1)
    (process,) = environments.processes
    other = os.dup(process.stdin.fileno())
    del environments
    assert process.returncode is not None
    os.close(other)


def advantages(framework: str, rollout: Rollout, following: float, **changes) -> np.ndarray:
    """What an implementation makes of a rollout, its value set to 1 of zeros and to `following` of ones."""
    steps, count = rollout.rewards.shape
    sizes = {"global_batch_size": steps * count, "num_envs": count, "minibatch_size": count, "hidden_sizes": []}
    made = build(BY_ID["reinforcement_learning-mini"], framework, **sizes, **changes)
    state = made.state_dict()
    state |= {"critic.0.weight": np.float32([[following - 1, 0, 0, 0]]), "critic.0.bias": np.float32([1])}
    made.load_state_dict(state)
    if framework == "torch":
        import torch

        *_, advantage, target = made.prepare(*map(torch.from_numpy, astuple(rollout)))
    else:
        import tensorflow as tf

        *_, advantage, target = made.prepare(*map(tf.constant, astuple(rollout)))
    assert np.allclose(target.numpy(), advantage.numpy() + 1)
    return advantage.numpy().reshape(steps, count)


@each_framework
def test_an_episode_cut_by_the_time_limit_goes_on_in_the_value_of_its_end(framework):
    rollout = Rollout.empty(4, 1, 4)
    rollout.rewards[:], rollout.successors[:], rollout.over[2] = 1, 1, True
    changes = {"gamma": 0.5, "gae_lambda": 0.5, "reward_scale": 2.0}
    cut = advantages(framework, rollout, 8.0, **changes)
    # each error is 2 * 1 + 0.5 * 8 - 1 = 5; a later one counts a quarter, not across the end of an episode
    assert cut[:, 0].tolist() == [5 + (5 + 5 / 4) / 4, 5 + 5 / 4, 5, 5]
    ended = advantages(framework, replace(rollout, terminated=rollout.over), 8.0, **changes)
    assert ended[:, 0].tolist() == [5 + (5 + 1 / 4) / 4, 5 + 1 / 4, 1, 5]


@each_framework
def test_advantages_are_those_of_the_recursion(framework):
    """Over a number of steps that is no power of two, with episodes that end anywhere."""
    random = np.random.default_rng(0)
    steps, count = 37, 5
    rollout = Rollout.empty(steps, count, 4)
    rollout.rewards[:], rollout.successors[:], rollout.over[:] = (
        random.normal(size=(steps, count)),
        1,
        random.random((steps, count)) < 0.1,
    )
    found = advantages(framework, rollout, 3.0, gamma=0.99, gae_lambda=0.95, reward_scale=1.0)
    expected, after = np.zeros((steps, count)), np.zeros(count)
    for t in reversed(range(steps)):
        expected[t] = after = rollout.rewards[t] + 0.99 * 3 - 1 + 0.99 * 0.95 * ~rollout.over[t] * after
    assert np.allclose(found, expected, atol=1e-4)


def test_evaluation_takes_the_most_probable_action_until_each_episode_ends():
    data = TASK.prepare("mini", None)
    data |= TASK.evaluation_arrays(data, 7)
    episodes = Environments("CartPole-v1", 16, 1, 2).evaluate(constant([0.4, 0.6], 4), data["test_seeds"])
    assert [episode["seed"] for episode in episodes] == data["test_seeds"].tolist()
    assert all(set(episode["actions"]) == {"1"} for episode in episodes)
    assert TASK.score(episodes, data)["mean_length"] == np.mean([len(episode["actions"]) for episode in episodes])


def test_every_pass_takes_every_step_once():
    hyper = recipe("mini", **SHORT_EPISODES)
    rows = orders(1, 0, hyper)
    assert rows.shape == (hyper.updates, hyper.minibatch_size)
    assert all(sorted(epoch) == list(range(512)) for epoch in rows.reshape(hyper.update_epochs, -1).tolist())
    assert not np.array_equal(rows, orders(1, 1, hyper))


@pytest.mark.parametrize("name", ["num_envs", "minibatch_size"])
def test_a_batch_that_they_do_not_divide_is_one_line(name):
    with pytest.raises(UserError, match=f"global_batch_size=2048 is no multiple of {name}=24, the environment"):
        recipe("mini", **{name: 24})


def test_torch_updates_on_one_thread_and_leaves_the_others_their_threads(monkeypatch):
    torch = pytest.importorskip("torch")
    made = build(BY_ID["reinforcement_learning-mini"], "torch")
    before, within, loss_of = torch.get_num_threads(), set(), made.loss_of

    def loss(*minibatch):
        within.add(torch.get_num_threads())
        return loss_of(*minibatch)

    try:
        torch.set_num_threads(2)
        monkeypatch.setattr(made, "loss_of", loss)
        made.train_until(1)
        assert (within, torch.get_num_threads()) == ({1}, 2)
    finally:
        torch.set_num_threads(before)


def test_the_step_of_torch_is_traced_whole():
    import torch

    made = build(BY_ID["reinforcement_learning-mini"], "torch")
    rollout = [torch.from_numpy(array) for array in astuple(Rollout.empty(made.hyper.steps, made.hyper.num_envs, 4))]
    traced = {
        name: torch.compile(getattr(made, name), backend="aot_eager", fullgraph=True, dynamic=False)
        for name in ("prepare", "loss")
    }
    steps = traced["prepare"](*rollout)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(steps, made.prepare(*rollout), strict=True))
    batch = [whole[:128] for whole in steps]
    assert traced["loss"](*batch).item() == pytest.approx(made.loss(*batch).item())
