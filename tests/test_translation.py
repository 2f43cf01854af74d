"""The task through the commands: its data, its metric, what it refuses."""

import gzip
import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite import config
from suite.errors import BadPrediction
from suite.store.arrays import prepared
from suite.store.task import load_task
from tasks.translation import LONGEST, metric
from tasks.translation.texts import parallel
from tests.command import run
from tests.json_values import JSON

TASK = load_task("translation")
REFERENCES = ["Ein Mann schläft auf einer Bank.", "Zwei Hunde spielen im Schnee."]
DATA = {"answer_text": np.frombuffer("".join(f"{line}\n" for line in REFERENCES).encode(), np.uint8)}


@pytest.fixture(scope="module")
def mini():
    return prepared(config.benchmark("translation", "mini"), TASK)


def lines(array):
    return array.tobytes().decode().split("\n")[:-1]


def text(data, name):
    import sentencepiece

    subwords = sentencepiece.SentencePieceProcessor(model_proto=data["subword_model"].tobytes())
    ends = np.flatnonzero(data[name] == subwords.eos_id()) + 1
    return subwords.decode([row.tolist() for row in np.split(data[name], ends)[:-1]])


@pytest.mark.slow
def test_a_short_run_is_scored_and_scored_alike_at_review(tmp_path):
    short = ("evaluation.first=500", "budget_samples=500")
    arguments = ("task=translation", "scale=mini", "hw=cpu", "framework=torch", "seed=1", *short)
    done = run(tmp_path, "suite.run", *arguments, "out=evidence", "mlflow=false")
    assert done.returncode == 3, done.stdout + done.stderr  # the end of the budget
    assert len((tmp_path / "evidence" / "predictions.jsonl").read_text().splitlines()) == 500
    signature = config.benchmark("translation", "mini").metric_signature
    assert signature in (tmp_path / "evidence" / "log.txt").read_text()
    found = json.loads(run(tmp_path, "suite.review", "evidence", "--json").stdout)["findings"]
    failed = {finding["rule"] for finding in found if finding["severity"] == "fail"}
    assert failed
    assert not failed & {"quality.5", "quality.6"}


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_the_declared_signature_is_that_of_the_metric(scale):
    bleu = metric()
    bleu.corpus_score(REFERENCES, [REFERENCES])
    assert config.benchmark("translation", scale).metric_signature == str(bleu.get_signature())


def test_phrases_of_the_test_are_not_in_the_training_split(mini):
    train, test = text(mini, "train_source"), text(mini, "test_source")
    assert (len(train), len(test), len(lines(mini["answer_text"]))) == (10_000, 500, 500)
    assert len(set(train) | set(test)) == 10_500
    targets = text(mini, "train_target")
    assert len(set(targets) | set(lines(mini["answer_text"]))) == 10_500


def test_lists_of_the_test_have_other_members_than_those_of_the_training_split(mini):
    def members(sentence):
        return frozenset(sentence.replace(", and ", ", ").replace(", or ", ", ").split(", "))

    train = {members(sentence) for sentence in text(mini, "train_source")}
    assert not train & {members(sentence) for sentence in text(mini, "test_source")}


def test_phrases_mean_the_same_in_both_languages(mini):
    pairs = dict(zip(text(mini, "train_source"), text(mini, "train_target"), strict=True))
    assert pairs["219.66 grams"] == "219,66 Gramm"
    assert pairs["Chile or Macao SAR China"] == "Chile oder Sonderverwaltungsregion Macau"


def test_a_perfect_translation_scores_100_and_its_copied_source_far_less(mini):
    assert TASK.score(lines(mini["answer_text"]), mini)["bleu"] == pytest.approx(100)
    assert TASK.score(text(mini, "test_source"), mini)["bleu"] < 20


def test_scores_as_the_sacrebleu_command_does():
    import sacrebleu

    hypotheses = ["Ein Mann sitzt auf einer Bank .", "Zwei Hunde spielen im schnee."]
    expected = sacrebleu.corpus_bleu(hypotheses, [REFERENCES]).score
    assert 0 < expected < 100
    assert TASK.score(hypotheses, DATA) == {"bleu": pytest.approx(expected)}


@pytest.mark.parametrize(
    ("predictions", "line"),
    [
        (REFERENCES[:1], 0),
        ([REFERENCES[0], 7], 2),
        ([["Ein", "Mann"], REFERENCES[1]], 1),
        ([REFERENCES[0], "Zwei Hunde\nspielen im Schnee."], 2),
        ([REFERENCES[0], "Zwei Hunde\u2028spielen"], 2),
        (["\ud800", REFERENCES[1]], 1),
        (["a" * (LONGEST + 1), REFERENCES[1]], 1),
    ],
)
def test_refuses_what_is_not_one_line_of_text(predictions, line):
    with pytest.raises(BadPrediction) as caught:
        TASK.score(predictions, DATA)
    assert caught.value.line == line


@given(st.lists(JSON, max_size=3) | st.tuples(st.text(), st.text()))
def test_any_json_is_scored_or_refused(predictions):
    with suppress(BadPrediction):
        assert 0 <= TASK.score(predictions, DATA)["bleu"] < 100.001


ENGLISH = ["A man is asleep on a bench.", "Two dogs play in the snow.", "The end of the road."]
GERMAN = ["Ein Mann schläft auf einer Bank.", "Zwei Hunde spielen im Schnee.", "Das Ende der Straße und Wiese."]


def test_reads_parallel_sentences_with_single_spaces(tmp_path):
    for language, content in (("en", [" A  man\u00a0is asleep on a bench. ", *ENGLISH[1:]]), ("de", GERMAN)):
        (tmp_path / f"train.{language}.gz").write_bytes(gzip.compress("".join(f"{s}\n" for s in content).encode()))
    assert parallel(tmp_path, "train") == (ENGLISH, GERMAN)


def test_a_changed_file_of_multi30k_is_told_in_one_line(tmp_path):
    (tmp_path / "data" / "multi30k").mkdir(parents=True)
    for file in config.benchmark("translation", "small").dataset.members:
        (tmp_path / "data" / file.path).write_bytes(b"x" * file.bytes)
    done = run(tmp_path, "suite.data", "verify", "translation/small", "data_dir=data")
    assert done.returncode != 0
    assert "multi30k/train.en.gz" in done.stdout + done.stderr


@pytest.mark.data("translation/small")
def test_multi30k_is_the_shared_tasks_own():
    data = prepared(config.benchmark("translation", "small"), TASK)
    train, test = text(data, "train_source"), text(data, "test_source")
    assert (len(train), len(test), len(lines(data["answer_text"]))) == (29_000, 1_000, 1_000)
    assert test[0] == "A man in an orange hat starring at something."
    assert lines(data["answer_text"])[0] == "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt."
    assert TASK.score(lines(data["answer_text"]), data)["bleu"] == pytest.approx(100)
