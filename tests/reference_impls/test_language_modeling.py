"""What is peculiar to language modelling: causality, the pointer, rare words, dropout, learning rates."""

import importlib
import itertools

import numpy as np
import pytest

from reference_impls.language_modeling import shared
from reference_impls.language_modeling.shared import Batches, Hyperparameters
from reference_impls.tensorflow_shared import from_torch, torch_name
from suite import config
from suite.harness.contract import evaluation_data
from tests.reference_impls.cases import BY_ID, FRAMEWORKS, build
from tests.reference_impls.material import VOCABULARY, random_words, real, short_text


def values(predictions):
    return np.concatenate([np.array(row) for row in predictions])


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_word_depends_on_no_later_one(framework):
    data = short_text()
    changed = {**data, "test_tokens": np.concatenate([data["test_tokens"][:3000], data["test_tokens"][:2000]])}
    first, second = (
        values(build(BY_ID["language_modeling-mini"], framework, data=each).predict(evaluation_data(each))[:10])[:5000]
        for each in (data, changed)
    )
    assert np.array_equal(first[:3000], second[:3000])
    assert not np.array_equal(first[3000:], second[3000:])


def pointers(framework, hyper, parameters):
    """The framework's pointer with the parameters, as a function, and what makes its tensors."""
    module = importlib.import_module(f"reference_impls.language_modeling.{framework}_network")
    library = importlib.import_module(framework)
    if framework == "torch":
        made = module.Pointer(hyper).requires_grad_(False)
        made.load_state_dict({name: library.as_tensor(value) for name, value in parameters.items()})
        return made, library.as_tensor
    made = module.Pointer(hyper, library.keras.DTypePolicy("float32"))
    carry = shared.initial_carry(hyper, 2)
    made(library.constant(carry["outputs"]), library.constant(carry["words"]), carry)
    for variable in made.weights:
        name = torch_name(variable.path)
        variable.assign(from_torch(variable.path, parameters[name]))
    return made, library.constant


def recurrences(framework):
    """The framework's recurrence and the gradients of its first two arguments, as a function of arrays."""
    module = importlib.import_module(f"reference_impls.language_modeling.{framework}_network")
    library = importlib.import_module(framework)

    def of_torch(keep, new, last, weight):
        keep, new = (library.tensor(a, requires_grad=True) for a in (keep, new))
        states = module.recurrence(keep, new, library.tensor(last))
        (states * library.tensor(weight)).sum().backward()
        return [a.detach().numpy() for a in (states, keep.grad, new.grad)]

    def of_tensorflow(keep, new, last, weight):
        keep, new = (library.Variable(a) for a in (keep, new))
        with library.GradientTape() as tape:
            states = module.recurrence(keep, new, library.constant(last))
            loss = library.reduce_sum(states * weight)
        return [a.numpy() for a in (states, *tape.gradient(loss, [keep, new]))]

    return of_torch if framework == "torch" else of_tensorflow


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("length", [8, 10, 64, 512])
def test_the_recurrence_and_its_gradient_are_those_of_stepping_through_time(framework, length):
    random = np.random.default_rng(0)
    keep = random.random((length, 3, 5), np.float32)
    new, weight = random.standard_normal((2, length, 3, 5)).astype(np.float32)
    last = random.standard_normal((3, 5)).astype(np.float32)
    states, to_new, before = [], [None] * length, last
    for t in range(length):
        states.append(keep[t] * (states[-1] if t else last) + new[t])
    for t in reversed(range(length)):
        to_new[t] = weight[t] + (keep[t + 1] * to_new[t + 1] if t + 1 < length else 0)
    before = np.concatenate([last[None], states[:-1]])
    found = recurrences(framework)(keep, new, last, weight)
    for ours, theirs in zip(found, (states, to_new * before, to_new), strict=True):
        assert np.allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_room_for_more_rare_words_changes_nothing(framework):
    """On a GPU, whose kernels are compiled for a shape, their places are filled up."""
    data = random_words()
    few = {"width": 32, "tail_widths": [8, 8, 8], "global_batch_size": 256, "dropout": 0.0}
    exact, padded = (build(BY_ID["language_modeling-small"], framework, **few) for _ in range(2))
    padded.rooms = {n: shared.rooms(padded.hyper, len(data["vocabulary"]), n) for n in padded.rooms}
    assert exact.train_until(1024).loss == pytest.approx(padded.train_until(1024).loss, abs=1e-5)
    theirs = padded.state_dict()
    for name, array in exact.state_dict().items():
        assert np.allclose(array, theirs[name], rtol=1e-3, atol=1e-5), name
    padded.load_state_dict(exact.state_dict())
    ours, theirs = (values(each.predict(evaluation_data(data))) for each in (exact, padded))
    assert np.abs(ours - theirs).max() < 1e-3


def test_rare_words_have_room_as_a_rule_and_at_most():
    hyper = Hyperparameters.of(config.benchmark("language_modeling", "small").hyperparameters)
    tails = hyper.tails(VOCABULARY)
    usual, most = shared.rooms(hyper, VOCABULARY, 2048)
    assert most == [2048] * 3
    assert all(size % 64 == 0 and size < 512 for size in usual)
    random = np.random.default_rng(0)
    for words, room in ((random.integers(0, 5000, (64, 32)), most), ((VOCABULARY ** random.random(2048)), usual)):
        words = words.astype(np.int32).reshape(64, 32)
        row, *found = shared.rare_words(words, tails, [usual, most])
        assert [len(each) for each in found] == room
        rows = np.concatenate([words.reshape(-1), *(words.reshape(-1)[each] for each in found)])
        assert np.array_equal(rows[row], words.reshape(-1))
        for (first, end), start, size in zip(tails, 2048 + np.cumsum([0, *room]), room, strict=False):
            inside = (row >= start) & (row < start + size)
            assert np.array_equal(inside, ((words >= first) & (words < end)).reshape(-1))


@pytest.mark.data("language_modeling/small")
@pytest.mark.parametrize("size", [2048, 4096, 16_384])
def test_no_batch_of_wikitext_has_more_rare_words_than_there_is_room_for(size):
    """A GPU compiles for more only when a batch has more, on the clock."""
    benchmark, data = config.benchmark("language_modeling", "small"), real("language_modeling", "small")
    hyper = Hyperparameters.of({**benchmark.hyperparameters, "global_batch_size": size})
    vocabulary, text = len(data["vocabulary"]), data["train_tokens"]
    batches = itertools.islice(Batches(text, hyper, 1).iterate(0), len(text) // size)
    trained = [words for batch in batches for words in (batch.words, batch.targets)]
    parts = shared.segments(data["test_tokens"], data["vocabulary"], data["audit_positions"])
    for blocks in (trained, [words for part in parts for words in (part.words, part.targets)]):
        usual, _ = shared.rooms(hyper, vocabulary, blocks[0].size)
        for words in blocks:
            _, *found = shared.rare_words(words, hyper.tails(vocabulary))
            assert all(len(each) <= room for each, room in zip(found, usual, strict=True))


@pytest.mark.parametrize("framework", ["torch", pytest.param("tensorflow", marks=pytest.mark.slow)])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_audited_word_has_one_log_probability(framework, precision):
    data = short_text()
    made = build(BY_ID["language_modeling-mini"], framework, precision)
    made.train_until(10_000)
    predicted = made.predict(evaluation_data(data))
    of_text = values(predicted[:10])
    positions = data["audit_positions"]
    for position, row in zip(positions, predicted[10:], strict=True):
        assert row[data["test_tokens"][position]] == of_text[position]
        assert np.exp(row).sum() == pytest.approx(1, abs=1e-3)
    other = {**data, "audit_positions": positions + 1}  # where it has none, it is as near as the precision is
    there = build(BY_ID["language_modeling-mini"], framework, precision, data=other)
    there.load_state_dict(made.state_dict())
    elsewhere = values(there.predict(evaluation_data(other))[:10])
    assert elsewhere[positions] == pytest.approx(of_text[positions], abs=0.05 if precision == "bf16" else 2e-4)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_dropout_is_one_mask_for_all_words_of_a_stream(framework):
    module = importlib.import_module(f"reference_impls.language_modeling.{framework}_network")
    library = importlib.import_module(framework)
    ones = np.ones((5, 40, 100), np.float32)
    if framework == "torch":
        library.manual_seed(1)
        dropped = module.StreamDropout(0.1)(library.as_tensor(ones)).numpy()
    else:
        dropped = module.dropout(library.constant(ones), 0.1, library.constant([1, 2]), 0).numpy()
    assert (dropped == dropped[:1]).all()
    assert np.unique(dropped).tolist() == pytest.approx([0, 1 / 0.9])
    assert np.mean(dropped == 0) == pytest.approx(0.1, abs=0.015)


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_dropout_is_a_function_of_seed_and_step(framework):
    few = {"width": 32, "tail_widths": [8, 8, 8], "global_batch_size": 256, "dropout": 0.5}
    made = build(BY_ID["language_modeling-small"], framework, **few)
    made.train_until(512)
    state = made.state_dict()
    losses = [made.train_until(768).loss]
    for step in (2, 2, 3):
        made.load_state_dict(state | {"step": np.array(step)})
        batch = next(Batches(random_words()["train_tokens"], made.hyper, 3).iterate(2))
        losses.append(float(made.train_step(batch)))
    assert losses[0] == losses[1] == losses[2]
    assert losses[3] != losses[2]


@pytest.mark.slow
@pytest.mark.parametrize("training", [True, False])
def test_torch_compiles_a_step_and_an_evaluation_without_a_break(training):
    """As for a GPU, where compiled functions take CUDA graphs."""
    torch = pytest.importorskip("torch")
    few = {"width": 16, "tail_widths": [8, 8, 8], "global_batch_size": 128, "dropout": 0.1}
    made = build(BY_ID["language_modeling-small"], "torch", **few)
    whole = {"backend": "aot_eager", "fullgraph": True, "dynamic": False}
    if training:
        expected = build(BY_ID["language_modeling-small"], "torch", **few).train_until(128).loss
        made.loss = torch.compile(made._loss, **whole)
        assert made.train_until(128).loss == pytest.approx(expected, abs=1e-4)
    else:
        made.evaluate = torch.compile(made._evaluate, **whole)
        made.distribution = torch.compile(made._distribution, **whole)
        data = evaluation_data(random_words())
        expected = build(BY_ID["language_modeling-small"], "torch", **few).predict(data)
        assert np.abs(values(made.predict(data)) - values(expected)).max() < 1e-3


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_pointer_chooses_among_the_last_words(framework):
    window, width, length = 4, 6, 16
    hyper = Hyperparameters.of(
        config.benchmark("language_modeling", "mini").hyperparameters
        | {"segment_length": window, "width": width, "layers": 1, "global_batch_size": 2 * window}
    )
    random = np.random.default_rng(0)
    p = {"query.weight": (width, width), "sentinel.weight": (1, width), "sentinel.bias": (1,)}
    p = {name: random.standard_normal(shape).astype(np.float32) for name, shape in p.items()}
    x = random.standard_normal((length, 2, width)).astype(np.float32)
    words, targets = random.integers(0, 5, (2, length, 2))

    point, tensor = pointers(framework, hyper, p)
    carry = {name: tensor(value) for name, value in shared.initial_carry(hyper, 2).items()}
    again, left = [], []
    for part in (slice(0, 8), slice(8, 16)):
        here = [tensor(a[part]) for a in (x, words)]
        places, chosen, rest = (np.asarray(each) for each in point(*here, carry))
        carry = {"outputs": here[0][-window:], "words": here[1][-window:]}
        again.append((chosen * (places == targets[part][..., None])).sum(-1))
        left.append(rest)

    for t in range(length):
        for b in range(2):
            seen = range(max(0, t - window + 1), t + 1)
            scores = [x[t, b] @ p["query.weight"].T @ x[place, b] / width for place in seen]
            shares = np.exp([*scores, x[t, b] @ p["sentinel.weight"][0] + p["sentinel.bias"][0]])
            shares /= shares.sum()
            expected = sum(
                share for share, place in zip(shares, seen, strict=False) if words[place, b] == targets[t, b]
            )
            assert np.concatenate(again)[t, b] == pytest.approx(expected, abs=1e-5)
            assert np.concatenate(left)[t, b] == pytest.approx(shares[-1], abs=1e-5)


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_the_learning_rate_rises_and_falls_to_zero(scale):
    hyper = Hyperparameters.of(config.benchmark("language_modeling", scale).hyperparameters)
    steps = hyper.schedule_samples // hyper.global_batch_size
    rates = np.array([hyper.learning_rate(step) for step in range(steps + 1)])
    top = rates.argmax()
    assert 0 < rates[0] < 0.1
    assert rates[top] > 0.99
    assert rates[-1] < 0.01
    assert (np.diff(rates[: top + 1]) > 0).all()
    assert (np.diff(rates[top:]) < 0).all()
