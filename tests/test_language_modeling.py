"""Language modelling from end to end, through the commands; its data, its score and its grammar."""

import math
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite import config
from suite.errors import BadPrediction, UserError
from suite.store.arrays import prepared
from suite.store.task import load_task
from tasks.language_modeling import AUDITED, CHUNK, grammar, shards
from tests.command import PROJECT

TASK = load_task("language_modeling")


@pytest.fixture(scope="module")
def text():
    return TASK.prepare("mini", None)


def test_every_state_of_the_grammar_has_a_distribution():
    for state in grammar.states():
        assert math.isclose(sum(p for _, p, _ in grammar.choices(state)), 1)
        words = [word for word, _, _ in grammar.choices(state)]
        assert len(words) == len(set(words)), "a word that leads to two states would not be unifilar"


def test_verbs_agree_with_their_subjects_in_reverse_order(text):
    words = text["vocabulary"][text["test_tokens"]]
    waiting, in_object, deepest = [], False, 0
    for word in words:
        if word == ".":
            in_object = False
        elif word.startswith("noun") and not in_object:
            waiting.append(word.split(".")[1])
            deepest = max(deepest, len(waiting))
        elif word.startswith("verb"):
            assert waiting.pop() == word.split(".")[1]
            in_object = not waiting
    assert deepest == grammar.DEPTH


def test_the_entropy_rate_is_that_of_a_long_text():
    _, log_probabilities = grammar.sample(200_000, seed=3)
    error = log_probabilities.std() / len(log_probabilities) ** 0.5
    assert abs(-log_probabilities.mean() - grammar.entropy_rate()) < 4 * error
    assert grammar.entropy_rate() == pytest.approx(2.52267, abs=1e-5)


@pytest.mark.parametrize(("order", "least"), [(1, 1.3), (2, 0.5), (3, 0.5), (4, 1.0)])
def test_counting_neighbours_is_far_from_the_target(text, order, least):
    assert excess_of_ngrams(text, order) > least > 10 * config.benchmark("language_modeling", "mini").target


def excess_of_ngrams(text, order):
    """Of the n-gram model with 0.1 added to each count, in nats per word above the grammar."""
    counts = defaultdict(Counter)
    train, test = text["train_tokens"].tolist(), text["test_tokens"].tolist()
    for i in range(order - 1, len(train)):
        counts[tuple(train[i - order + 1 : i])][train[i]] += 1
    words = len(text["vocabulary"])
    logs = []
    for i in range(order - 1, len(test)):
        seen = counts[tuple(test[i - order + 1 : i])]
        logs.append(math.log((seen[test[i]] + 0.1) / (seen.total() + 0.1 * words)))
    return float(text["answer_log_probabilities"][order - 1 :].mean() - np.mean(logs))


@pytest.mark.data("language_modeling/small")
def test_wikitext2_is_the_published_text():
    data = prepared(config.benchmark("language_modeling", "small"), TASK)
    assert len(data["train_tokens"]) == 2_088_628
    assert len(data["test_tokens"]) == 245_569
    assert len(data["vocabulary"]) == 33_278
    assert data["vocabulary"][:4].tolist() == ["the", ",", ".", "of"]
    assert data["vocabulary"][data["test_tokens"][:6]].tolist() == ["<eos>", "=", "Robert", "<unk>", "=", "<eos>"]
    assert np.array_equal(np.unique(data["train_tokens"]), np.arange(33_278))


@pytest.fixture
def folder(tmp_path):
    files = tmp_path / "wikitext-2"
    files.mkdir()
    (files / "wiki.train.tokens").write_text("a b c\n" * 10)
    (files / "wiki.test.tokens").write_text("c b\n" * 10)
    return tmp_path


def test_lines_end_in_eos_and_frequent_words_come_first(folder):
    data = TASK.prepare("small", folder)
    assert data["vocabulary"].tolist() == ["<eos>", "a", "b", "c"]
    assert data["test_tokens"].tolist() == [3, 2, 0] * 10


def test_a_pilot_is_made_where_the_locale_is_not_of_utf_8(folder, monkeypatch):
    text = "\n".join(f"é {number}" for number in range(9000))
    (folder / "wikitext-2/wiki.train.tokens").write_text(text, "utf-8")
    for name, value in (("LC_ALL", "C"), ("PYTHONUTF8", "0"), ("PYTHONCOERCECLOCALE", "0")):
        monkeypatch.setenv(name, value)
    made = "from pathlib import Path; from tasks.language_modeling import shards; here = Path()\n"
    made += "shards.make('pilot', here, f'{shards.PILOT}/tokenizer.model', here / 'made')"
    subprocess.run([sys.executable, "-c", made], cwd=folder, env={**os.environ, "PYTHONPATH": str(PROJECT)}, check=True)
    assert "é".encode() in (folder / "made").read_bytes()


def test_the_shards_of_a_pilot_hold_every_article_once_in_turn(folder, monkeypatch):
    import sentencepiece

    monkeypatch.setattr(shards, "PILOT_VOCABULARY", 300)
    articles = [f"= Title {i} =\n\nThe text of {i} .\n= = A section = =\nand more of {i} ." for i in range(8)]
    text = "".join("\n".join(f" {line} " for line in f"\n{article}\n".splitlines()) for article in articles)
    (folder / "wikitext-2/wiki.train.tokens").write_text(text)
    (folder / "wikitext-2/wiki.test.tokens").write_text(text)
    model = folder / shards.PILOT / "tokenizer.model"
    model.parent.mkdir()
    shards.make("pilot", folder, f"{shards.PILOT}/tokenizer.model", model)
    subwords = sentencepiece.SentencePieceProcessor(model_file=str(model))
    assert subwords.vocab_size() == 300
    for name, held in (("train_000001", articles[1::6]), ("train_000005", articles[5::6]), ("val_000000", articles)):
        shards.make("pilot", folder, f"{shards.PILOT}/{name}.bin", folder / "made")
        tokens = shards.read_shard(folder / "made")
        begins = np.flatnonzero(tokens == shards.SHARDED["pilot"].begin)
        assert begins[0] == 0
        assert [subwords.decode(part[1:].tolist()) for part in np.split(tokens, begins[1:])] == held


def test_a_shard_that_was_cut_off_is_refused(tmp_path):
    path = tmp_path / "text.bin"
    shards.write_shard(path, np.arange(10))
    assert shards.read_shard(path).tolist() == list(range(10))
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match="is no shard of 8 tokens"):
        shards.read_shard(path)


def test_files_of_zeros_are_no_shards_of_either_split(tmp_path):
    """Nobody declares the sums of the published shards."""
    part = config.benchmark("language_modeling", "full").of_subset(0.01)
    for file in part.dataset.members:
        path = tmp_path / file.path
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.truncate(path, file.bytes)
    again = re.escape(f"; delete it and run python -m suite.data fetch language_modeling/full data_dir={tmp_path}")
    with pytest.raises(UserError, match=rf"val_000000\.bin is no shard of .*{again}$"):
        prepared(part, TASK, str(tmp_path))
    header = np.zeros(shards.HEADER, "<i4")
    header[:3] = shards.MAGIC, 1, 100_000_000
    with (tmp_path / shards.SHARDED["full"].test).open("r+b") as file:
        file.write(header.tobytes() + np.array([50_256], "<u2").tobytes())
    for _ in range(2):  # also where the other arrays come from the cache
        with pytest.raises(UserError, match=rf"train_000001\.bin is no shard: it does not begin with .*{again}$"):
            prepared(part, TASK, str(tmp_path))


def test_what_is_scored_of_a_sharded_text_are_the_tokens_after_its_first(tmp_path):
    pilot = shards.SHARDED["pilot"]
    tokens = np.arange(pilot.begin, pilot.begin + 70_000) % pilot.vocabulary
    (tmp_path / pilot.test).parent.mkdir()
    shards.write_shard(tmp_path / pilot.test, tokens)
    made = TASK.prepare("pilot", tmp_path)
    assert np.array_equal(made["test_tokens"], tokens[1 : pilot.test_tokens + 1])
    assert (made["begin_token"].tolist(), len(made["vocabulary"])) == ([pilot.begin], pilot.vocabulary)
    shards.write_shard(tmp_path / pilot.test, tokens[1:])
    with pytest.raises(UserError, match=f"begins with token {tokens[1]}, not with a document's first, {pilot.begin}"):
        TASK.prepare("pilot", tmp_path)


SCORED = {
    "vocabulary": np.array(["<eos>", "a", "b", "c"]),
    "test_tokens": np.tile(np.uint16([1, 2, 3, 0, 1]), 120),
    "audit_positions": np.array([3, 520]),
}
UNIFORM = math.log(1 / 4)


def uniform():
    """The predictions of a model that finds all four words alike."""
    return [[UNIFORM] * CHUNK, [UNIFORM] * (600 - CHUNK), [UNIFORM] * 4, [UNIFORM] * 4]


def test_the_perplexity_of_a_uniform_model_is_the_number_of_words():
    assert TASK.score(uniform(), SCORED) == {"perplexity": pytest.approx(4)}


def test_excess_is_counted_from_the_grammar():
    truth = np.full(600, -1.0, np.float32)
    metrics = TASK.score(uniform(), {**SCORED, "answer_log_probabilities": truth})
    assert metrics["excess_nats"] == pytest.approx(math.log(4) - 1)


@pytest.mark.parametrize(
    ("line", "change", "said"),
    [
        (2, lambda p: p[1].pop(), "list of 88"),
        (1, lambda p: p[0].__setitem__(7, 0.1), "0.1 is not a log-probability"),
        (1, lambda p: p[0].__setitem__(7, math.nan), "nan"),
        (1, lambda p: p[0].__setitem__(7, -math.inf), "-inf"),
        (1, lambda p: p[0].__setitem__(7, -1000.1), "-1000.1 is not a log-probability from -1000 to 0"),
        (1, lambda p: p[0].__setitem__(7, -(10**400)), "-1000000.* is not a log-probability"),
        (1, lambda p: p[0].__setitem__(7, True), "True"),
        (2, lambda p: p[1].__setitem__(7, "-1.0"), "'-1.0'"),
        (3, lambda p: p[2].__setitem__(1, -1.0), "word 3 sum to 1.1179, not 1"),
        (
            4,
            lambda p: p.__setitem__(3, [-1.0, -1.5, -1.5, math.log(1 - math.exp(-1) - 2 * math.exp(-1.5))]),
            "word 520",
        ),
        (0, lambda p: p.pop(), "3 predictions for 2 chunks and 2 audited positions"),
        (0, lambda p: p.append(p[3]), "5 predictions for 2 chunks and 2 audited positions"),
    ],
)
def test_refuses_what_is_no_distribution(line, change, said):
    predictions = uniform()
    change(predictions)
    with pytest.raises(BadPrediction, match=said) as caught:
        TASK.score(predictions, SCORED)
    assert caught.value.line == line


def test_a_text_more_probable_than_by_its_own_grammar_is_refused(text):
    chunks = -(-len(text["test_tokens"]) // CHUNK)
    claimed = [
        [0.0] * len(part) for part in np.split(text["test_tokens"], range(CHUNK, len(text["test_tokens"]), CHUNK))
    ]
    for position in text["audit_positions"]:
        row = np.full(len(text["vocabulary"]), -100.0)
        row[text["test_tokens"][position]] = 0.0
        claimed.append(row.tolist())
    assert len(claimed) == chunks + AUDITED
    with pytest.raises(BadPrediction, match="more probable than by the grammar"):
        TASK.score(claimed, text)


def test_the_perplexity_of_the_worst_model_is_a_number_too():
    worst = [[-1000.0] * CHUNK, [-1000.0] * (600 - CHUNK), [UNIFORM] * 4, [UNIFORM] * 4]
    worst[0][3] = worst[1][520 - CHUNK] = UNIFORM
    assert TASK.score(worst, SCORED) == {"perplexity": pytest.approx(math.exp(700))}


@pytest.mark.parametrize(("nats", "refused"), [(19.0, False), (21.0, True)])
def test_a_model_may_have_twenty_nats_of_luck_in_the_whole_text(nats, refused):
    truth = {"answer_log_probabilities": np.full(600, UNIFORM - nats / 600)}
    if refused:
        with pytest.raises(BadPrediction, match="the text is 21 nats more probable than by the grammar"):
            TASK.score(uniform(), {**SCORED, **truth})
    else:
        assert TASK.score(uniform(), {**SCORED, **truth})["excess_nats"] == pytest.approx(-nats / 600)


@pytest.mark.parametrize(("off", "refused"), [(0.0009, False), (0.0011, True)])
def test_a_distribution_sums_to_one_and_agrees_with_the_text_to_a_thousandth(off, refused):
    for line, said in ((2, f"sum to {1 + off:.4f}, not 1"), (0, "but .* in the text")):
        predictions = uniform()
        if line:
            predictions[2][1] = math.log(1 / 4 + off)
        else:
            predictions[0][3] -= off
        if refused:
            with pytest.raises(BadPrediction, match=said):
                TASK.score(predictions, SCORED)
        else:
            assert TASK.score(predictions, SCORED)["perplexity"] == pytest.approx(4, rel=1e-5)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200)
@given(st.integers(0, 3), st.integers(-1, 600), JSON)
def test_any_json_value_is_scored_or_refused(line, place, value):
    predictions = uniform()
    if place < 0:
        predictions[line] = value
    else:
        predictions[line][place % len(predictions[line])] = value
    with suppress(BadPrediction):
        assert TASK.score(predictions, SCORED)["perplexity"] > 0
