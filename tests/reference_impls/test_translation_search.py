"""Beam search, with models made of tables: it finds the best sentence, ends, and keeps the sentences' order."""

import numpy as np
import sentencepiece

from reference_impls.translation.search import questions, search, translate
from reference_impls.translation.shared import Hyperparameters, sentences
from suite import config
from suite.store.arrays import prepared
from suite.store.task import load_task
from tasks.translation import BEGIN, END


def hyperparameters(**changed):
    return Hyperparameters.of(config.benchmark("translation", "mini").hyperparameters | changed)


def table_step(table, beam):
    """A model whose next subword depends on the last one only: `table` [V, V] of probabilities."""

    def step(subwords, parents):
        logs = np.log(table[subwords])
        order = np.argsort(-logs, 1, kind="stable")[:, : beam + 1]
        return np.take_along_axis(logs, order, 1), order

    return step


def test_a_beam_finds_what_greed_misses():
    table = np.full((8, 8), 1e-6)
    table[BEGIN, [4, 5]] = 0.6, 0.4
    table[4, [END, 6]] = 0.3, 0.4
    table[6, [END]] = 0.5
    table[5, END] = 1
    found = {}
    for beam in (1, 2):
        hyper = hyperparameters(length_penalty=0.0, beam_size=beam)
        found[beam] = search(table_step(table, beam), 2, 3, hyper)
    assert found == {1: [[4], [4]], 2: [[5], [5]]}


def test_a_sentence_without_an_end_is_cut():
    table = np.full((8, 8), 1e-9)
    table[:, 4] = 1
    found = search(table_step(table, 1), 1, 3, hyperparameters(beam_size=1))
    assert found == [[4] * 16]


def test_translations_come_in_the_order_of_the_sentences():
    """A model that repeats its source, whatever the order in which sentences of like length are taken."""

    def begin(source):
        rows = np.repeat(source, 2, 0)
        position = -1

        def step(subwords, parents):
            nonlocal position
            position += 1
            following = rows[:, position]
            return np.tile([0.0, -50.0, -60.0], (len(rows), 1)), np.stack(
                [following, following * 0 + 5, following * 0 + 6], 1
            )

        return step

    arrays = prepared(config.benchmark("translation", "mini"), load_task("translation"))
    source = sentences(arrays["test_source"])[:20]
    asked = list(questions(np.concatenate(source)))
    model = sentencepiece.SentencePieceProcessor(model_proto=arrays["subword_model"].tobytes())
    expected = [model.decode(row.tolist()) for row in source]
    assert translate(begin, asked, arrays["subword_model"], hyperparameters(beam_size=2)) == expected
