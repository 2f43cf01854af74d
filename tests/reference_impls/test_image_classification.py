"""What is peculiar to image classification: what a step sees of its images, whitening, and shifted views."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from reference_impls.image_classification.shared import Draws, Hyperparameters, area_average
from suite import config
from tests.reference_impls import flops
from tests.reference_impls.cases import BY_ID, FRAMEWORKS, build
from tests.reference_impls.material import coloured_noise, real

IMAGES = coloured_noise()["train_images"]
LABELS = np.arange(200, dtype=np.uint8)
each_framework = pytest.mark.parametrize("framework", FRAMEWORKS)


def recipe(**changes) -> Hyperparameters:
    return Hyperparameters.of(config.benchmark("image_classification", "small").hyperparameters | changes)


def seen(framework: str, drawn: np.ndarray, size: int, hyper: Hyperparameters) -> tuple[np.ndarray, np.ndarray]:
    """What a step sees of the first 200 images: pixels [B, size, size, C] and labels."""
    module, library = import_module(f"reference_impls.image_classification.{framework}"), import_module(framework)
    if framework == "torch":
        training = module.TrainingImages(IMAGES[:200].shape, hyper)
        training.images.copy_(library.from_numpy(IMAGES[:200]))
        training.labels.copy_(library.from_numpy(LABELS))
        images, labels = training(library.from_numpy(drawn), size)
        return images.permute(0, 2, 3, 1).numpy(), labels.numpy()
    images, labels = module.seen(library.constant(IMAGES[:200]), library.constant(LABELS), drawn, size, hyper)
    return images.numpy(), labels.numpy()


def test_one_seed_gives_one_order_and_another_seed_another():
    def first(seed: int):
        return next(Draws(4000, recipe(), seed).iterate(1)).drawn

    assert np.array_equal(first(1), first(1))
    assert not np.array_equal(first(1)[0], first(2)[0])


@each_framework
def test_every_epoch_sees_every_image_once_and_mirrored_in_turn(framework):
    hyper = recipe(translate=0, epoch_sizes=[32], global_batch_size=100)
    draws = Draws(200, hyper, 1).iterate(0)
    epochs = []
    for _ in range(2):
        images, labels = zip(*[seen(framework, next(draws).drawn, 32, hyper) for _ in range(2)], strict=True)
        epochs.append(dict(zip(np.concatenate(labels).tolist(), np.concatenate(images), strict=True)))
    assert all(set(epoch) == set(range(200)) for epoch in epochs)
    assert all(np.array_equal(epochs[0][i], epochs[1][i][:, ::-1]) for i in range(200))
    assert 50 < sum(np.allclose(epochs[0][i], (IMAGES[i] - 120.0) / 64) for i in range(200)) < 150


@each_framework
def test_shifted_images_have_their_borders_reflected(framework):
    drawn = np.int32([[7, 8, 9], [0, 3, 6], [6, 3, 1], [0, 1, 0]])
    images, labels = seen(framework, drawn, 32, recipe(translate=3))
    wider = (np.pad(IMAGES[:200], ((0, 0), (3, 3), (3, 3), (0, 0)), "reflect") - 120.0) / 64
    assert labels.tolist() == [7, 8, 9]
    assert np.array_equal(images[0], wider[7, 0:32, 6:38])
    assert np.array_equal(images[1], wider[8, 3:35, 3:35][:, ::-1])
    assert np.array_equal(images[2], wider[9, 6:38, 1:33])


@each_framework
def test_smaller_images_are_averages_of_areas(framework):
    drawn = np.int32([[7, 8], [0, 0], [0, 0], [0, 0]])
    hyper = recipe(translate=0, epoch_sizes=[16, 20, 32])
    whole, half, other = (seen(framework, drawn, size, hyper)[0] for size in (32, 16, 20))
    assert np.allclose(half, whole.reshape(2, 16, 2, 16, 2, 3).mean((2, 4)), atol=1e-6)
    weights = area_average(32, 20)
    assert np.allclose(other, np.einsum("pi,bijc,qj->bpqc", weights, whole, weights), atol=1e-6)
    assert np.allclose(weights.sum(1), 1)
    assert np.allclose(weights.sum(0), 20 / 32)


@each_framework
def test_whitened_patches_are_uncorrelated(framework):
    module, library = import_module(f"reference_impls.image_classification.{framework}"), import_module(framework)
    mixed = IMAGES[:50] // 2 + np.roll(IMAGES[:50], 1, 2) // 4 + np.roll(IMAGES[:50], 1, 3) // 4
    images = (np.float32(mixed) - 120) / 64
    if framework == "torch":
        weights = module.whitening(library.from_numpy(images).permute(0, 3, 1, 2)).numpy()
    else:
        weights = module.whitening(library.constant(images)).numpy().transpose(3, 2, 0, 1)
    patches = np.lib.stride_tricks.sliding_window_view(images, (2, 2), (1, 2)).reshape(-1, 12)
    white = patches @ weights[:12].reshape(12, 12).T
    assert np.abs(np.cov(patches.T)[~np.eye(12, dtype=bool)]).max() > 0.1
    assert np.allclose(white.T @ white / len(white), np.eye(12), atol=0.05)
    assert np.array_equal(weights[12:], -weights[:12])


def test_a_gpu_loads_no_library_on_the_clock_to_whiten(monkeypatch):
    import torch

    from reference_impls.image_classification.torch import whitening
    from tests.bench.device import Counted, Meta

    solve, places = torch.linalg.eigh, []
    monkeypatch.setattr(torch.linalg, "eigh", lambda matrix: places.append(matrix.device.type) or solve(matrix))
    with Meta(Counted()):
        whitening(torch.empty(50, 3, 32, 32, device="meta"))
    assert places == ["cpu"]


@each_framework
def test_uncertain_images_are_also_seen_mirrored_and_shifted(framework):
    images = real("image_classification")["test_images"]
    made = build(BY_ID["image_classification-mini"], framework, flip=True, eval_shift_fraction=0.25)
    made.train_until(500)
    wider = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)), "reflect")
    views = (images, wider[:, :-2, :-2], wider[:, 2:, 2:])
    seen, mirrored = ([made.logits(made.images(view[:, :, ::way])).numpy() for view in views] for way in (1, -1))
    scores, *shifted = [(one + other) / 2 for one, other in zip(seen, mirrored, strict=True)]
    odds = np.exp(seen[0] - seen[0].max(1, keepdims=True))
    best = np.sort(odds / odds.sum(1, keepdims=True), 1)
    unsure = np.argsort(best[:, -1] - best[:, -2])[:199]
    mixed = seen[0].copy()
    mixed[unsure] = scores[unsure] / 2 + (shifted[0][unsure] + shifted[1][unsure]) / 4
    assert made.predict({"test_images": images}) == mixed.argmax(1).tolist()
    assert (mixed.argmax(1) != seen[0].argmax(1)).any()


def test_an_evaluation_looks_once_at_an_image_and_five_times_more_at_an_uncertain_one():
    images = real("image_classification")["test_images"]
    once, more = (
        build(BY_ID["image_classification-mini"], "torch", flip=True, eval_shift_fraction=part) for part in (0.0, 0.25)
    )
    looks = flops.torch(lambda: more.predict({"test_images": images})) / flops.torch(
        lambda: once.predict({"test_images": images})
    )
    assert looks == pytest.approx(1 + 5 * 199 / len(images))


@pytest.mark.slow
def test_a_torch_step_is_traced_whole():
    torch = pytest.importorskip("torch")
    case = BY_ID["image_classification-small"]
    made = build(case, "torch", widths=[8, 16], global_batch_size=10)
    drawn = torch.from_numpy(next(made.draws.iterate(0)).drawn)
    made.train_until(10)
    for size in (20, 32):
        whole = torch.compile(made._loss, backend="aot_eager", fullgraph=True, dynamic=False)
        assert torch.allclose(whole(drawn, size), made._loss(drawn, size), rtol=1e-3)


@pytest.mark.slow
def test_a_tensorflow_step_can_be_compiled():
    tf = pytest.importorskip("tensorflow")
    case = BY_ID["image_classification-small"]
    losses = []
    for jit in (False, True):
        made = build(case, "tensorflow", widths=[8, 16], global_batch_size=10)
        made.graph_step = tf.function(made._step, jit_compile=jit)
        losses.append([made.train_until(samples).loss for samples in (10, 20)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_batch_norm_has_ones_where_it_has_no_scale():
    """Without a weight the gradient of the bias is empty in PyTorch's kernel for GPUs, which a probe's step runs."""
    torch = import_module("torch")
    made = build(BY_ID["image_classification-mini"], "torch")
    norms = [each for each in made.model.modules() if isinstance(each, torch.nn.BatchNorm2d)]
    assert all(each.bias.requires_grad and torch.equal(each.weight, torch.ones_like(each.bias)) for each in norms)
    assert not any(name.endswith("norm1.weight") for name in made.state_dict())


def test_tensorflow_warns_of_no_retracing_in_a_second_run(monkeypatch):
    tf = pytest.importorskip("tensorflow")
    case, told = BY_ID["image_classification-small"], []
    case = replace(case, changes=case.changes | {"epoch_sizes": [20, 24, 28, 32]})
    monkeypatch.setattr(tf.get_logger(), "handle", lambda record: told.append(record.getMessage()))
    for _ in range(2):
        made = build(case, "tensorflow")
        made.train_until(20 * made.hyper.global_batch_size)
    assert told == []
