"""What the suite has of its own beside the libraries' optimizers is alike in both frameworks, and like theirs."""

from importlib import import_module

import numpy as np
import pytest

torch = pytest.importorskip("torch")
tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402

from reference_impls import tensorflow_optimizers, tensorflow_shared, torch_shared  # noqa: E402
from reference_impls.torch_muon import Muon, orthogonalised  # noqa: E402
from suite import config  # noqa: E402
from suite.errors import UserError  # noqa: E402

MATRICES = ("conv.weight", "dense.weight", "tall.weight", "stack")
RATE = 0.1


class TorchModel(torch.nn.Module):
    """A parameter of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 8, 3)
        self.dense = torch.nn.Linear(6, 10)
        self.tall = torch.nn.Linear(10, 6)
        self.stack = torch.nn.Parameter(torch.zeros(3, 4, 6))
        self.norm = torch.nn.BatchNorm2d(8)


@keras.saving.register_keras_serializable()
class KerasModel(keras.Model):
    """The same in Keras."""

    def __init__(self) -> None:
        super().__init__(name="model")
        self.conv = keras.layers.Conv2D(8, 3, name="conv")
        self.dense = keras.layers.Dense(10, name="dense")
        self.tall = keras.layers.Dense(6, name="tall")
        self.norm = keras.layers.BatchNormalization(name="norm")
        self.stack = self.add_weight(shape=(3, 4, 6), name="stack")

    def call(self, images):
        """Nothing of use: it makes the variables."""
        return self.tall(self.dense(self.norm(self.conv(images))[..., :6]))


class Torch:
    """Steps along given gradients, in PyTorch."""

    def __init__(self, fp16: bool = False, **muon) -> None:
        self.model = TorchModel()
        named = dict(self.model.named_parameters())
        matrices = [named.pop(name) for name in MATRICES]
        self.muon = Muon(matrices, lr=RATE, momentum=0.9, ns_steps=3, dtype=torch.float32, **muon)
        self.others, others = list(named), list(named.values())
        self.adam = torch.optim.AdamW(others[:2], lr=RATE, betas=(0.9, 0.99), eps=1e-3, weight_decay=0.1, fused=True)
        self.sgd = torch.optim.SGD(others[2:], lr=RATE, momentum=0.8, nesterov=True, weight_decay=0.01, fused=True)
        self.optimizers = (self.muon, self.adam, self.sgd)
        torch_shared.prepare(self.optimizers)
        self.scaler = torch_shared.grad_scaler(torch.device("cpu"), torch.float16 if fp16 else torch.float32)

    def step(self, gradients) -> None:
        """One step."""
        loss = sum((p * torch.from_numpy(gradients[name])).sum() for name, p in self.model.named_parameters())
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
        self.scaler.update()

    def state_dict(self):
        """The state."""
        return torch_shared.state_dict(self.model, self.optimizers, self.scaler, 7)

    def load_state_dict(self, state):
        """Take over a state."""
        return torch_shared.load_state_dict(self.model, self.optimizers, self.scaler, state)


class TensorFlow:
    """The same in TensorFlow."""

    def __init__(self, fp16: bool = False, **muon) -> None:
        self.model = KerasModel()
        self.model(np.zeros((1, 8, 8, 2), np.float32))
        named = {tensorflow_shared.torch_name(v.path): v for v in self.model.trainable_variables}
        matrices = [named.pop(name) for name in MATRICES]
        self.muon = tensorflow_optimizers.Muon(matrices, momentum=0.9, ns_steps=3, dtype=tf.float32, **muon)
        self.others = [named[name] for name in Torch().others]
        self.adam = tensorflow_optimizers.AdamW(RATE, beta_1=0.9, beta_2=0.99, epsilon=1e-3, weight_decay=0.1)
        self.adam.build(self.others[:2])
        self.sgd = tensorflow_optimizers.SGD(self.others[2:], momentum=0.8, weight_decay=0.01)
        self.scaler = tensorflow_optimizers.GradScaler(fp16)
        self.optimizers = (self.muon, self.adam, self.sgd)
        self.step = tf.function(self._step)

    def _step(self, gradients) -> None:
        variables = [*self.muon.variables, *self.others]
        with tf.GradientTape() as tape:
            loss = sum(tf.reduce_sum(v * gradients[tensorflow_shared.torch_name(v.path)]) for v in variables)
            loss = self.scaler.scale(loss)

        computed = tape.gradient(loss, variables)
        self.scaler.step(
            (computed[:4], lambda gradients: self.muon.apply(gradients, RATE)),
            (computed[4:6], lambda gradients: self.adam.apply(gradients, self.others[:2])),
            (computed[6:], lambda gradients: self.sgd.apply(gradients, RATE)),
        )

    def state_dict(self):
        """The state."""
        return tensorflow_shared.state_dict(self.model, self.optimizers, self.scaler, 7)

    def load_state_dict(self, state):
        """Take over a state."""
        return tensorflow_shared.load_state_dict(self.model, self.optimizers, self.scaler, state)


def drawn(seed: int) -> dict[str, np.ndarray]:
    """A gradient for each parameter, in PyTorch's layout."""
    random = np.random.default_rng(seed)
    return {name: random.normal(size=p.shape).astype(np.float32) for name, p in TorchModel().named_parameters()}


def for_keras(gradients):
    """The gradients in Keras's layout."""
    return {
        name: tensorflow_shared.from_torch("/kernel" if name in MATRICES[:3] else name, g)
        for name, g in gradients.items()
    }


def assert_near(first, second, tolerance=1e-5) -> None:
    """Two states hold the same names, and values as near as rounding leaves them."""
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_allclose(value, second[name], rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("fp16", [False, True])
@pytest.mark.parametrize("muon", [{}, {"unit_norm": True}, {"weight_decay": 0.1}])
def test_steps_are_alike_in_both_frameworks(muon, fp16):
    pytorch, tensorflow = Torch(fp16, **muon), TensorFlow(fp16, **muon)
    tensorflow.load_state_dict(pytorch.state_dict() | drawn(1))
    assert pytorch.load_state_dict(tensorflow.state_dict()) == 7
    for seed in (2, 3, 4):
        pytorch.step(drawn(seed))
        tensorflow.step(for_keras(drawn(seed)))
    assert_near(pytorch.state_dict(), tensorflow.state_dict())
    assert pytorch.state_dict()["updates"] == 3


def test_a_state_is_taken_over_by_the_other_framework():
    pytorch, tensorflow = Torch(), TensorFlow()
    pytorch.load_state_dict(pytorch.state_dict() | drawn(1))
    for seed in (2, 3):
        pytorch.step(drawn(seed))
    tensorflow.load_state_dict(pytorch.state_dict())
    assert_near(pytorch.state_dict(), tensorflow.state_dict(), 0.0)
    assert all(isinstance(value, np.ndarray) for value in tensorflow.state_dict().values())
    pytorch.step(drawn(4))
    tensorflow.step(for_keras(drawn(4)))
    assert_near(pytorch.state_dict(), tensorflow.state_dict())


@pytest.mark.parametrize("framework", [Torch, TensorFlow])
def test_an_overflow_in_fp16_skips_the_step_and_halves_the_scale(framework):
    trained = framework(fp16=True)
    trained.load_state_dict(trained.state_dict() | drawn(1))
    arranged = for_keras if framework is TensorFlow else dict
    trained.step(arranged(drawn(2)))
    before = trained.state_dict()
    overflowing = {name: np.full_like(g, np.inf) for name, g in drawn(3).items()}
    trained.step(arranged(overflowing))
    after = trained.state_dict()
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed == {"scale", "_growth_tracker"}
    assert all(type(value) is np.ndarray for value in after.values())
    assert after["scale"] == before["scale"] / 2
    assert after["_growth_tracker"].dtype == np.int32
    trained.load_state_dict({name: value for name, value in after.items() if name not in changed})
    assert trained.state_dict()["scale"] == before["scale"]


@pytest.mark.parametrize("overflown", [MATRICES[0], Torch().others[0], Torch().others[-1]])
def test_an_overflow_in_fp16_skips_the_step_of_its_own_optimizer_alone_in_both_frameworks(overflown):
    pytorch, tensorflow = Torch(fp16=True), TensorFlow(fp16=True)
    tensorflow.load_state_dict(pytorch.state_dict() | drawn(1))
    pytorch.load_state_dict(tensorflow.state_dict())
    before, gradients = pytorch.state_dict(), drawn(2)
    gradients[overflown] = np.full_like(gradients[overflown], np.inf)
    pytorch.step(gradients)
    tensorflow.step(for_keras(gradients))
    assert_near(pytorch.state_dict(), tensorflow.state_dict())
    moved = {name for name in (*MATRICES, *pytorch.others) if (pytorch.state_dict()[name] != before[name]).any()}
    assert overflown not in moved
    assert moved
    assert pytorch.state_dict()["scale"] == before["scale"] / 2


def test_muon_is_that_of_pytorch_where_that_can_be_used():
    """Within what bf16 leaves of them: three decimal digits, through five iterations."""
    torch.manual_seed(0)
    ours, theirs = (torch.nn.Parameter(torch.ones(24, 16)) for _ in range(2))
    own = Muon([ours], lr=RATE, momentum=0.9, ns_steps=5, dtype=torch.bfloat16, weight_decay=0.1)
    library = torch.optim.Muon([theirs], lr=RATE, momentum=0.9, ns_steps=5, weight_decay=0.1)
    for _ in range(3):
        ours.grad = torch.randn(24, 16)
        theirs.grad = ours.grad.clone()
        own.step()
        library.step()
    assert (ours - theirs).norm() < 0.02 * (theirs - 1).norm()


def test_muon_s_steps_are_as_long_in_both_frameworks_in_bf16():
    """Its factors are not rounded to bf16, which would shorten each step by one or two in a hundred."""
    drawn = np.random.default_rng(0).normal(size=(4, 1, 64, 48)).astype(np.float32)
    matrices = [keras.Variable(each) for each in drawn]
    muon = tensorflow_optimizers.Muon(matrices, momentum=0.0, ns_steps=5, dtype=tf.bfloat16)
    muon.apply([tf.constant(each) for each in drawn], tf.constant(1.0))
    ours = (drawn - np.stack([each.numpy() for each in matrices])).ravel()
    twins = orthogonalised([torch.from_numpy(each) for each in drawn], 5, torch.bfloat16)
    theirs = torch.stack(twins).numpy().ravel()
    assert (ours @ theirs) / (theirs @ theirs) == pytest.approx(1, abs=3e-3)


def test_adamw_is_that_of_keras_but_for_epsilon():
    ours, theirs = (keras.Variable(np.ones(5, np.float32), name=name) for name in ("ours", "theirs"))
    own = tensorflow_optimizers.AdamW(RATE, epsilon=1e-12, weight_decay=0.1)
    library = keras.optimizers.AdamW(RATE, epsilon=1e-12, weight_decay=0.1)
    for seed in range(3):
        gradient = tf.constant(np.random.default_rng(seed).normal(size=5).astype(np.float32))
        own.apply([gradient], [ours])
        library.apply([gradient], [theirs])
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("task", "name", "at", "rate"),
    [
        ("detection", "opt_learning_rate_warmup_samples", (0,), 0.006),
        ("language_modeling", "warmup_fraction", (0,), 1),
        ("recommendation", "opt_learning_rate_warmup_steps", (0, 40), 0.006),
        ("speech", "opt_warmup_epochs", (0,), 0.004),
        ("translation", "warmup_steps", (0, 100), 1),
    ],
)
def test_a_warm_up_of_zero_is_none(task, name, at, rate):
    values = config.benchmark(task, "mini").hyperparameters | {name: 0}
    recipe = import_module(f"reference_impls.{task}.shared").Hyperparameters.of(values)
    assert recipe.learning_rate(*at) == rate


@pytest.mark.parametrize("epochs", [0.3, 0.4])
def test_a_schedule_that_ends_within_its_warm_up_rises_until_then(epochs):
    values = config.benchmark("translation", "mini").hyperparameters | {"epochs": epochs, "warmup_steps": 40}
    recipe = import_module("reference_impls.translation.shared").Hyperparameters.of(values)
    steps = round(100 * epochs)
    rates = [recipe.learning_rate(step, 100) for step in range(2 * steps)]
    assert rates == pytest.approx([(step + 1) / 40 for step in range(steps)] + steps * [0])


@pytest.mark.parametrize(
    ("benchmark", "module", "schedule", "warm_up"),
    [
        (("speech", "mini"), "shared", "epochs", "opt_warmup_epochs"),
        (("image_classification", "pilot"), "resnet", "schedule_samples", "warmup_samples"),
    ],
)
def test_a_schedule_is_longer_than_its_warm_up(benchmark, module, schedule, warm_up):
    values = config.benchmark(*benchmark).hyperparameters
    of = import_module(f"reference_impls.{benchmark[0]}.{module}").Hyperparameters.of
    with pytest.raises(UserError, match=f"{schedule}={values[warm_up]} is not more than {warm_up}={values[warm_up]}:"):
        of(values | {schedule: values[warm_up]})
    of(values | {schedule: values[warm_up] + 1})


@pytest.mark.parametrize(
    ("benchmark", "module", "name", "rate", "expected"),
    [
        (("image_classification", "mini"), "shared", "whiten_bias_epochs", "whiten_learning_rate", 0),
        (("language_modeling", "pilot"), "gpt", "decay_fraction", "learning_rate", 1),
        (("reinforcement_learning", "mini"), "shared", "opt_learning_rate_decay_samples", "learning_rate", 0.003),
    ],
)
def test_a_decay_over_nothing_divides_by_nothing(benchmark, module, name, rate, expected):
    values = config.benchmark(*benchmark).hyperparameters | {name: 0}
    recipe = import_module(f"reference_impls.{benchmark[0]}.{module}").Hyperparameters.of(values)
    assert getattr(recipe, rate)(0) == expected
