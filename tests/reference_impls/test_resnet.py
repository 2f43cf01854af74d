"""The ResNet: what its steps see of JPEG files, groups that several workers share, and the model at its full size."""

import importlib
import io
import math

import numpy as np
import pytest
from PIL import Image

from reference_impls.image_classification import pictures
from reference_impls.image_classification.pictures import Training, crop_box, evaluation
from reference_impls.image_classification.resnet import Hyperparameters, initial_parameters
from suite import config
from suite.errors import UserError
from suite.harness.implementation import Device
from tasks.image_classification.jpegs import Jpegs
from tests.reference_impls import flops
from tests.reference_impls.cases import CASES, build, worker
from tests.reference_impls.material import few_jpegs

FULL = config.benchmark("image_classification", "full")
PILOT = config.benchmark("image_classification", "pilot")
CASE = next(case for case in CASES if case.id == "image_classification-resnet")
VALUES = {**CASE.benchmark.hyperparameters, **CASE.changes}
HYPER = Hyperparameters.of({**VALUES, "norm_batch_size": 4})


def seen(seed: int, step: int, groups: int, device: Device | None = None) -> list[tuple[int, np.ndarray]]:
    each = Training(few_jpegs(), HYPER, seed, device or worker()).groups(step)
    return [next(each) for _ in range(groups)]


def test_an_epoch_sees_each_image_once():
    steps = 200 // HYPER.global_batch_size
    epochs, numbers = zip(*seen(1, 0, 2 * steps * HYPER.groups), strict=True)
    assert epochs == (0,) * steps * HYPER.groups + (1,) * steps * HYPER.groups
    first, second = np.split(np.concatenate(numbers), 2)
    assert len({*first.tolist()}) == len(first) == steps * HYPER.global_batch_size
    assert not np.array_equal(first, second)


def test_what_is_seen_hangs_on_seed_and_epoch_alone():
    whole = seen(1, 0, 60)
    begun = seen(1, 9, 60 - 9 * HYPER.groups)  # in the middle of an epoch, and over its end
    assert all(a == b and np.array_equal(x, y) for (a, x), (b, y) in zip(whole[9 * HYPER.groups :], begun, strict=True))
    assert not np.array_equal(whole[0][1], seen(2, 0, 1)[0][1])
    again, other = (Training(few_jpegs(), HYPER, seed, worker()) for seed in (1, 2))
    image = again.image(0, 7)
    assert np.array_equal(image, again.image(0, 7))
    assert not np.array_equal(image, again.image(1, 7))
    assert not np.array_equal(image, other.image(0, 7))


def test_images_come_in_the_order_of_their_numbers_with_their_labels():
    training = Training(few_jpegs(), HYPER, 1, worker())
    decoded = training.iterate(5)
    for epoch, group in seen(1, 5, 3):
        images, labels = next(decoded)
        assert np.array_equal(images, [training.image(epoch, int(number)) for number in group])
        assert np.array_equal(labels, few_jpegs()["train_labels"][group])


@pytest.mark.parametrize("size", [2, 3])
def test_the_workers_share_the_groups_of_a_step(size):
    shares = []
    for rank in range(size):
        own = len(range(HYPER.groups)[pictures.part(HYPER.groups, worker(rank, size))])
        shares += seen(1, 3, own, worker(rank, size))
    whole = seen(1, 3, HYPER.groups)
    assert [group.tolist() for _, group in shares] == [group.tolist() for _, group in whole]


def test_crops_are_drawn_as_torchvisions():
    """Areas and sides of the same distribution, within the image."""
    transforms = pytest.importorskip("torchvision.transforms")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    random, image = np.random.default_rng(0), torch.zeros(3, 375, 500)
    ours = np.array([crop_box(500, 375, 0.05, random) for _ in range(1000)])
    left, _, right, lower = ours.T
    assert (ours >= 0).all()
    assert right.max() <= 500
    assert lower.max() <= 375
    drawn = [transforms.RandomResizedCrop.get_params(image, [0.05, 1], [3 / 4, 4 / 3]) for _ in range(1000)]
    theirs = np.array([(j, i, j + w, i + h) for i, j, h, w in drawn])
    assert np.abs(ours.mean(0) - theirs.mean(0)).max() < 20  # four deviations of such a mean's difference
    assert np.abs(ours.std(0) - theirs.std(0)).max() < 20
    assert (right - left).min() * 4 < 500


def test_an_image_that_no_draw_fits_gives_its_middle():
    assert crop_box(1000, 10, 0.9, np.random.default_rng(0)) == (493, 0, 506, 10)
    assert crop_box(10, 1000, 0.9, np.random.default_rng(0)) == (0, 493, 10, 506)


def test_training_images_are_parts_and_mirrored_every_other_time():
    ramp = np.broadcast_to(np.linspace(0, 255, 96, dtype=np.uint8)[None, :, None], (64, 96, 3))
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(ramp)).save(file, "JPEG", quality=95)
    jpeg = np.frombuffer(file.getvalue(), np.uint8)
    made = [pictures.training_image(jpeg, HYPER, np.random.default_rng(i)) for i in range(100)]
    rising = [np.polyfit(range(64), image[32, :, 0].astype(float), 1)[0] > 0 for image in made]
    assert 30 < sum(rising) < 70
    assert all(image.shape == (64, 64, 3) and image.dtype == np.uint8 for image in made)


def test_test_images_are_the_middle_as_torchvision_takes_it():
    transforms = pytest.importorskip("torchvision.transforms")
    files = Jpegs(few_jpegs(), "test")
    take = transforms.Compose([transforms.Resize(HYPER.resize), transforms.CenterCrop(HYPER.image_size)])
    for file in files[0], files[1], files[2]:
        right = np.asarray(take(Image.open(io.BytesIO(file.tobytes()))))
        assert np.array_equal(pictures.test_image(file, HYPER), right)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_each_test_image_is_seen_once(size):
    found = []
    for rank in range(size):
        for images, count in evaluation(few_jpegs(), HYPER, worker(rank, size)):
            assert images.shape == (4, 64, 64, 3)
            found += [*images[:count]]
    files = Jpegs(few_jpegs(), "test")
    assert np.array_equal(found, [pictures.test_image(files[i], HYPER) for i in range(len(files))])


@pytest.mark.parametrize(("split", "named"), [("train", "training"), ("test", "test")])
def test_an_image_that_cannot_be_decoded_is_named(split, named):
    name, data = f"{split}_lengths", dict(few_jpegs())
    data[name] = data[name].copy()  # others take it as it is
    data[name][3:5] += np.array([-200, 200], np.int32)
    with pytest.raises(
        UserError, match=rf"{named} image 3 of the shards cannot be decoded \(.*truncated.*\): bring the images again"
    ):
        _ = (
            list(evaluation(data, HYPER, worker()))
            if split == "test"
            else Training(data, HYPER, 1, worker()).image(0, 3)
        )


def test_the_learning_rate_is_mlperfs():
    hyper = Hyperparameters.of(FULL.hyperparameters)
    steps = 1_281_167 // 1632
    rates = [hyper.rate(epoch * steps) for epoch in (0, 1, 2, 19.5, 37, 38)]
    assert rates == pytest.approx([0, 3.7, 7.4, 1e-4 + 7.3999 / 4, 1e-4, 1e-4])
    assert FULL.evaluation.first == steps * 1632
    assert FULL.evaluation.every == 4 * steps * 1632
    assert FULL.budget_samples == hyper.schedule_samples == 37 * steps * 1632


def test_groups_divide_the_batch_and_models_are_known():
    with pytest.raises(UserError, match="global_batch_size=16 is no multiple of norm_batch_size=6"):
        Hyperparameters.of({**VALUES, "norm_batch_size": 6})
    with pytest.raises(UserError, match="resnet50"):
        Hyperparameters.of({**VALUES, "model": "resnet5"})


def test_its_parameters_are_those_of_the_published_model():
    torch, models = pytest.importorskip("torch"), pytest.importorskip("torchvision.models")
    made = initial_parameters(Hyperparameters.of(FULL.hyperparameters), 1000, 1)
    with torch.device("meta"):
        published = models.resnet50(zero_init_residual=True)
    shapes = {name: tuple(value.shape) for name, value in published.state_dict().items() if "num_batches" not in name}
    assert {name: array.shape for name, array in made.items()} == shapes
    trained = [array.size for name, array in made.items() if ".running_" not in name]
    assert sum(trained) == 25_557_032 == FULL.parameters
    assert {name for name, array in made.items() if not array.any() and "weight" in name} == {
        f"layer{stage}.{i}.bn3.weight" for stage, count in enumerate((3, 4, 6, 3), 1) for i in range(count)
    }


def forward_operations(hyper: Hyperparameters, classes: int) -> tuple[int, int]:
    """Of an image's convolutions and head, forward; and of the first convolution alone, two for each product."""
    shapes = {name: array.shape for name, array in initial_parameters(hyper, classes, 1).items() if array.ndim > 1}
    side = hyper.image_size // 2
    first = 2 * side**2 * math.prod(shapes.pop("conv1.weight"))
    total, side = first, side // 2
    for name, shape in shapes.items():
        if name == "fc.weight":
            total += 2 * math.prod(shape)
            continue
        begins = not name.startswith("layer1") and ".0." in name
        if begins and "conv2" in name:
            side //= 2
        total += 2 * side**2 * math.prod(shape)
    return total, first


@pytest.mark.parametrize("benchmark", [PILOT, FULL], ids=["pilot", "full"])
def test_declared_operations_are_those_of_the_model(benchmark):
    """Backward is twice forward, but for the gradient of the pixels."""
    hyper = Hyperparameters.of(benchmark.hyperparameters)
    forward, first = forward_operations(hyper, 1000 if benchmark is FULL else 10)
    assert benchmark.train_flops_per_sample == 3 * forward - first
    if benchmark is FULL:
        assert forward == pytest.approx(2 * 4.09e9, rel=0.001)  # as torchvision's page has it: 4.09 GFLOPS


def test_operations_are_those_counted():
    hyper = Hyperparameters.of(VALUES)
    forward, first = forward_operations(hyper, 10)
    made = build(CASE, "torch")
    made.train_until(1)
    assert flops.torch(lambda: made.train_until(17)) == hyper.global_batch_size * (3 * forward - first)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "name"),
    [("torch", "TorchResNet"), pytest.param("tensorflow", "TensorFlowResNet", marks=pytest.mark.soak)],
)
def test_at_full_size_the_loss_begins_at_the_logarithm_of_the_classes(framework, name):
    """One step of four images of 224 pixels."""
    hyper = Hyperparameters.of({**FULL.hyperparameters, "global_batch_size": 4, "norm_batch_size": 4})
    data = few_jpegs() | {"classes": np.arange(1000, dtype=np.uint16)}
    module = importlib.import_module(f"reference_impls.image_classification.{framework}_resnet")
    made = getattr(module, name)(hyper, data, 1, worker())
    assert made.train_until(1).loss == pytest.approx(math.log(1000), rel=0.05)
    momenta = [array.size for name, array in made.state_dict().items() if name.startswith("momentum_buffer/")]
    assert sum(momenta) == 25_557_032


@pytest.mark.slow
def test_a_torch_step_is_traced_whole():
    torch = pytest.importorskip("torch")
    made, images = build(CASE, "torch"), torch.from_numpy(np.stack([training_image(i) for i in range(8)]))
    labels = torch.arange(8)
    made.model.train()
    whole = torch.compile(made._loss, backend="aot_eager", fullgraph=True, dynamic=False)
    found = []
    for loss in (made._loss, whole):
        made.load_state_dict(made.state_dict() | {"bn1.running_mean": np.zeros(64, np.float32)})
        found.append((loss(images, labels).item(), made.model.bn1.running_mean.numpy().copy()))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-4)
    assert np.allclose(found[1][1], found[0][1], atol=1e-5)
    assert np.abs(found[1][1]).max() > 1e-3


@pytest.mark.soak
def test_a_tensorflow_step_can_be_compiled():
    tf = pytest.importorskip("tensorflow")
    made = build(CASE, "tensorflow")
    initial = made.state_dict()
    losses = [made.train_until(samples).loss for samples in (16, 32)]
    made.load_state_dict(initial)
    made.add = tf.function(made._add, jit_compile=True)
    assert [made.train_until(samples).loss for samples in (16, 32)] == pytest.approx(losses, rel=1e-3)


def training_image(number: int) -> np.ndarray:
    return Training(few_jpegs(), HYPER, 1, worker()).image(0, number)
