"""Both frameworks are one recipe: same parameters, same batches, same outputs, same work."""

import importlib

import numpy as np
import pytest

from reference_impls.recommendation.shared import (
    Histories,
    Hyperparameters,
    dropout_masks,
    initial_parameters,
    made_up_batches,
    ranking,
)
from suite import config
from suite.harness.implementation import Device
from suite.store.task import load_task
from tasks.recommendation.protocol import Interactions, leave_one_out

TASK = load_task("recommendation")
SHORT = {"lengths": [8, 20], "global_batch_size": 4, "epochs": 4}  # quick, with more than one length and cut histories


def small_shapes() -> dict[str, np.ndarray]:
    """Histories of 2 to 60 of 120 items, in MovieLens' place."""
    random = np.random.default_rng(0)
    taken = [random.permutation(120)[: random.integers(3, 61)] for _ in range(40)]
    users = np.repeat(np.arange(40), [len(t) for t in taken])
    return leave_one_out(Interactions("the test", users, np.concatenate(taken), np.arange(len(users))), 30)


DATA = small_shapes()


def hyperparameters(scale: str, **changes) -> dict:
    return config.benchmark("recommendation", scale).hyperparameters | changes


def build(framework: str, scale: str, data=DATA, seed: int = 3, precision: str = "fp32", **changes):
    module = importlib.import_module(f"reference_impls.recommendation.{framework}")
    return module.build(hyperparameters(scale, **SHORT | changes), data, seed, Device("cpu", precision))


def visible(data):
    return {name: array for name, array in data.items() if not name.startswith("answer_")}


@pytest.fixture(scope="module")
def both():
    return {framework: build(framework, "small", visible(DATA)) for framework in ("torch", "tensorflow")}


def test_both_start_from_the_same_parameters(both):
    ours, theirs = (implementation.state_dict() for implementation in both.values())
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_both_take_the_same_steps_and_torch_weights_give_the_same_scores(both):
    torch, tensorflow = both.values()
    losses = [implementation.train_until(40).loss for implementation in (torch, tensorflow)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    ours, theirs = torch.state_dict(), tensorflow.state_dict()
    assert max(np.abs(ours[name] - theirs[name]).max() for name in ours) < 1e-3
    tensorflow.load_state_dict(ours)
    inputs = np.random.default_rng(1).integers(0, 121, (4, 20), np.int32)
    question = inputs, np.int64([0, 5, 19, 7]), np.random.default_rng(2).integers(0, 120, (4, 31), np.int32)
    expected = torch.scores(*question)
    assert expected.std() > 0.01
    assert np.abs(expected - tensorflow.scores(*question)).max() < 1e-4
    assert torch.predict() == tensorflow.predict()


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_goes_on_from_a_state_as_if_never_stopped(framework, both):
    implementation = both[framework]
    start = implementation.state_dict()
    implementation.train_until(int(start["step"]) * 4 + 20)
    middle = implementation.state_dict()
    implementation.train_until(int(start["step"]) * 4 + 60)
    end = implementation.state_dict()
    implementation.load_state_dict(middle)
    implementation.train_until(int(start["step"]) * 4 + 60)
    assert all(np.array_equal(end[name], value) for name, value in implementation.state_dict().items())


def test_building_does_not_touch_the_training_data():
    class Untouchable(np.ndarray):
        def __array_function__(self, function, types, arguments, keywords):
            raise AssertionError(f"{function.__name__} of the training data")

        def __getitem__(self, key):
            raise AssertionError("the training data was read")

    data = {name: a.view(Untouchable) if name.startswith("train_") else a for name, a in DATA.items()}
    for framework in ("torch", "tensorflow"):
        build(framework, "mini", data, lengths=[8])


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_both_have_as_many_parameters_and_do_the_same_floating_point_operations(scale):
    import tensorflow as tf
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    hyper = Hyperparameters.of(hyperparameters(scale, **SHORT))
    batch = list(made_up_batches(hyper, 120))[-1]
    initial = initial_parameters(hyper, 120, 1)
    ours = importlib.import_module("reference_impls.recommendation.torch")
    theirs = importlib.import_module("reference_impls.recommendation.tensorflow")

    arrays = {name: torch.from_numpy(array) for name, array in vars(batch).items()}
    arrays["targets"] = arrays["targets"].long()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        tensors = {name: torch.from_numpy(value) for name, value in initial.items()}
        loss = float(ours.mean_loss(tensors, arrays, hyper, torch.float32))

    variables = {name: tf.Variable(value) for name, value in initial.items()}
    assert sum(v.shape.num_elements() for v in variables.values()) == sum(t.numel() for t in tensors.values())
    constants = {name: tf.constant(array) for name, array in vars(batch).items()}
    graph = tf.function(lambda: theirs.mean_loss(variables, constants, hyper, tf.float32)).get_concrete_function()
    flops = 0
    for operation in graph.graph.get_operations():
        if operation.type in ("MatMul", "BatchMatMulV2"):
            left, transposed = operation.inputs[0].shape, "transpose_a" if operation.type == "MatMul" else "adj_x"
            inner = left[-2] if operation.get_attr(transposed) else left[-1]
            flops += 2 * operation.outputs[0].shape.num_elements() * inner
    assert flops == counter.get_total_flops() > 0
    assert float(graph()) == pytest.approx(loss, abs=1e-5)


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_fp16_with_loss_scaling_learns(framework):
    implementation = build(framework, "small", precision="fp16", lengths=[20], epochs=20)
    first = implementation.train_until(4).loss
    assert implementation.train_until(600).loss < first - 0.1


@pytest.mark.gpu
@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_trains_on_a_gpu(framework, precision):
    module = importlib.import_module(f"reference_impls.recommendation.{framework}")
    data = TASK.prepare("mini", None)
    implementation = module.build(hyperparameters("mini"), visible(data), 3, Device("gpu", precision))
    implementation.train_until(8000)
    assert TASK.score(implementation.predict(), data)["hr_10"] > 0.65


# --- What both share -----------------------------------------------------------------------------------------------


def histories(seed: int = 1, **changes) -> Histories:
    return Histories(visible(DATA), Hyperparameters.of(hyperparameters("small", **SHORT | changes)), seed)


def test_every_training_interaction_is_a_target_once_an_epoch():
    known = histories(global_batch_size=1)
    batches = known.batches(0)
    seen = [item for _ in range(known.steps_per_epoch) for item in next(batches).targets.ravel().tolist() if item >= 0]
    assert sorted(seen) == sorted(DATA["train_items"].tolist())


def test_an_input_is_what_came_before_and_what_was_taken_cannot_come_again():
    known = histories()
    batches = known.batches(0)
    cut = 0
    for _ in range(3 * known.steps_per_epoch):
        batch = next(batches)
        for inputs, targets, taken in zip(batch.inputs, batch.targets, batch.taken, strict=True):
            targets = targets[targets >= 0]
            user, end = next(
                (u, e)
                for u, history in enumerate(known.histories)
                for e in range(len(history), 0, -20)
                if np.array_equal(history[max(e - 20, 0) : e], targets)
            )
            begin = end - len(targets)
            cut += begin > 0
            history = [120, *known.histories[user].tolist()]
            assert inputs[: len(targets)].tolist() == history[begin:end]
            for position in range(len(targets)):
                assert set(np.flatnonzero(taken <= position)) == set(history[1 : begin + position + 1])
    assert cut > 10


def test_a_question_is_the_end_of_the_history():
    known = histories()
    asked = {}
    for users, inputs, last in known.questions():
        assert len(inputs) == len(last) == 4
        for user, row, end in zip(users, inputs, last, strict=False):
            asked[int(user)] = row[: end + 1].tolist()
            assert (row[end + 1 :] == 120).all()
    assert asked == {u: [120, *history.tolist()][-20:] for u, history in enumerate(known.histories)}


def test_one_seed_gives_one_order_and_another_seed_another():
    first = [next(histories(seed).batches(2)) for seed in (1, 1, 2)]
    assert all(np.array_equal(a, b) for a, b in zip(vars(first[0]).values(), vars(first[1]).values(), strict=True))
    assert not np.array_equal(first[0].keep, first[2].keep)
    assert not np.array_equal(first[0].targets, first[2].targets)


def test_dropout_drops_its_share_and_differs_from_step_to_step():
    hyper = Hyperparameters.of(hyperparameters("small"))
    first, second = (dropout_masks(hyper, 1, step, 50) for step in (0, 1))
    assert set(np.unique(first)) == {0, 1}
    assert first.mean() == pytest.approx(1 - hyper.dropout, abs=0.005)
    assert np.mean(first != second) > 0.2


def test_a_ranking_holds_the_best_ten_and_all_that_tie():
    scores = np.float32([5, 5, 9, *[1] * 12, np.nan, 7, 6, 4, 3, 2, 8])
    assert ranking(scores, range(50, 72)) == [
        [52], [71], [66], [67], [50, 51], [68], [69], [70], list(range(53, 65))
    ]  # fmt: skip
    assert ranking(np.full(30, np.nan), range(30)) == [list(range(30))]
