"""Beam search on the device: it finds what the search in numpy finds, ends, and keeps the sentences' order."""

import os
import shutil
from importlib import import_module
from unittest import mock

import numpy as np
import pytest
import sentencepiece

from reference_impls.translation import transformer
from reference_impls.translation.search import longest, questions, together, translate, translations
from reference_impls.translation.shared import POSITIONS, TOGETHER, Hyperparameters, lengths, padded
from suite import config
from suite.harness.contract import evaluation_data
from suite.harness.implementation import Device
from suite.store.modules import load_shaping
from tasks.translation.subwords import BEGIN, END
from tests.reference_impls import translation_oracle
from tests.reference_impls.cases import BY_ID, FRAMEWORKS, build
from tests.reference_impls.material import few_phrases, real


def hyperparameters(**changed):
    return Hyperparameters.of(config.benchmark("translation", "mini").hyperparameters | changed)


class Table:
    """A model whose next subword depends on the last one and the position: `table` [T, V, V] of probabilities."""

    def __init__(self, framework, table):
        self.framework, self.logs = framework, np.log(table, dtype=np.float32)

    def following(self, subwords, memory, cache, position, width=None):
        """What the search asks of a Transformer."""
        logits = self.logs[int(position), subwords.numpy()]
        return import_module("torch").from_numpy(logits) if self.framework == "torch" else (logits, cache)

    def search(self, batch, hyper):
        """The best translations, of at most T subwords."""
        module = import_module(f"reference_impls.translation.{self.framework}_search")
        library, most = import_module(self.framework), len(self.logs)
        keys = library.zeros((batch, 1, 2, 1))
        memory = [(keys, keys)], library.zeros((batch, 1, 1, 2))
        if self.framework == "torch":
            beams = module.Beams.begin(memory, hyper.beam_size, most)
            for length in range(1, most + 1):
                module.step(self, beams, hyper, length)
            rows, counts = beams.results()
        else:
            beams = module.begin(memory, hyper.beam_size, most, 0)
            for _ in range(most):
                beams = module.step(self, memory, beams, hyper)
            rows, counts = module.results(beams)
        return [row[:count].tolist() for row, count in zip(rows.numpy(), counts.numpy(), strict=True)]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_beam_finds_what_greed_misses(framework):
    table = np.full((8, 8, 8), 1e-6)
    table[:, BEGIN, [4, 5]] = 0.6, 0.4
    table[:, 4, [END, 6, 7, 5]] = 0.3, 0.4, 0.2, 0.1
    table[:, 6, [END, 7]] = 0.5, 0.5
    table[:, 5, END] = 1
    model = Table(framework, table)
    found = {beam: model.search(2, hyperparameters(length_penalty=0.0, beam_size=beam)) for beam in (1, 2)}
    assert found == {1: [[4], [4]], 2: [[5], [5]]}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_sentence_without_an_end_is_cut(framework):
    table = np.full((16, 8, 8), 1e-9)
    table[:, :, 4] = 1
    assert Table(framework, table).search(1, hyperparameters(beam_size=1)) == [[4] * 16]


def test_no_translation_is_longer_than_the_positions_that_are_embedded():
    """One more would be an error on a CPU, and on a GPU the end of all answers."""
    assert [longest(length) for length in (64, 192, 256, POSITIONS)] == [144, 400, POSITIONS, POSITIONS]


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_finds_in_random_tables_what_numpy_finds(framework, penalty):
    hyper = hyperparameters(beam_size=4, length_penalty=penalty)
    sentences = []
    for table in np.random.default_rng(0).dirichlet(np.full(12, 0.3), (10, 24, 12)) + 1e-4:
        model = Table(framework, table)
        following = iter(model.logs)
        expected = translation_oracle.search(lambda last, _: next(following)[last], 1, 24, hyper)  # noqa: B023
        assert model.search(1, hyper) == expected
        sentences += expected
    assert len({len(sentence) for sentence in sentences}) > 2


@pytest.fixture(scope="module")
def trained():
    """A small model in each framework, of the same weights, that has learned a little."""
    made = {framework: build(BY_ID["translation-tiny"], framework, beam_size=3) for framework in FRAMEWORKS}
    made["torch"].train_until(2000)
    made["tensorflow"].load_state_dict(made["torch"].state_dict())
    return made


def numpy_translations(made, source):
    """What the search in numpy finds, which asks for the logits of whole sentences."""
    beam = made.hyper.beam_size
    told = np.zeros((len(source) * beam, 0), np.int32)

    def step(last, parents):
        nonlocal told
        told = np.concatenate([told[parents], last[:, None].astype(np.int32)], 1)
        logits = made.logits(np.repeat(source, beam, 0), told)[:, -1]
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))

    return translation_oracle.search(step, len(source), longest(source.shape[1]), made.hyper)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_finds_what_numpy_finds_with_the_same_weights(framework, kind, trained):
    """Also in the ways of a GPU: with a cache of fixed length, in TensorFlow compiled by XLA."""
    made = trained[framework]
    with mock.patch.multiple(made, together={"cpu": 10, "gpu": 16}[kind], kind=kind):
        if (framework, kind) == ("tensorflow", "gpu"):
            made.graph_advance = import_module("tensorflow").function(made._graph_advance, jit_compile=True)
        asked = made.made_questions(evaluation_data(few_phrases()))
        if kind == "gpu":  # whose shorter searches lie in the memory of a longer one
            made.warm_up_search([2 * asked[-1][1].shape[1]])
        found = {}
        for chosen, source in asked:
            batch = translations(made.begin(source), *source.shape, kind)
            assert batch == numpy_translations(made, source.numpy())
            found |= dict(zip(chosen.tolist(), map(tuple, batch), strict=False))
        assert len(set(found.values())) > 10
        assert sorted(found) == list(range(20))


class Remembering:
    """A model in PyTorch whose next subword depends on all before it: `drawn` [V, V], which it keeps in its cache."""

    def __init__(self, drawn):
        self.drawn = drawn

    def following(self, subwords, memory, cache, position, width):
        """What the search asks of a Transformer."""
        for whole in cache[0]:
            whole.index_copy_(2, position, self.drawn[subwords][:, None, None])
        return cache[0][0].sum((1, 2)) - cache[0][1].square().sum((1, 2))


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which(os.environ.get("CXX", "g++")), reason="no C++ compiler")
def test_a_compiled_search_finds_what_the_search_finds():
    """The compiler for GPUs, whose kernels are those of a CPU here."""
    torch = pytest.importorskip("torch")
    search = import_module("reference_impls.translation.torch_search")
    hyper, most = hyperparameters(beam_size=4), 16
    model = Remembering(torch.from_numpy(np.random.default_rng(0).normal(size=(32, 32)).astype(np.float32)))
    keys, padding = torch.zeros(8, 1, 2, 32), torch.zeros(8, 1, 1, 2)
    found = []
    for step in (search.step, torch.compile(search.step, dynamic=False)):
        beams = search.Beams.begin(([(keys, keys)], padding), hyper.beam_size, most)
        for _ in range(most):
            step(model, beams, hyper, most)
        found.append(beams.history.tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("memory_gb", "precision", "sentences"),
    [(16, "fp16", 66), (16, "fp32", 33), (None, "fp32", 33), (40, "bf16", 167), (80, "fp16", 250), (0.1, "fp16", 1)],
)
def test_as_many_sentences_go_together_as_a_gpu_has_room_for(memory_gb, precision, sentences):
    full = transformer.Hyperparameters.of(config.benchmark("translation", "full").hyperparameters)
    assert together(full, Device("gpu", precision, memory_gb=memory_gb)) == sentences
    assert together(full, Device("cpu", precision, memory_gb=memory_gb)) == TOGETHER["cpu"]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_searches_of_all_lengths_keep_an_eighth_of_a_gpu_s_memory(precision):
    torch = pytest.importorskip("torch")
    trained = import_module("reference_impls.translation.torch_transformer").TorchTransformer
    pilot = transformer.Hyperparameters.of(config.benchmark("translation", "pilot").hyperparameters)
    device = Device("gpu", precision, memory_gb=0.5, imagined=True)
    autocast = import_module("suite.probe.instruments.torch_needed").Autocast
    with mock.patch.object(torch, "autocast", autocast):
        made = trained(pilot, load_shaping("translation").shaped("pilot"), 1, device)
        for _ in range(2):
            made.warm_up_search(transformer.SEARCHED["gpu"])
    tensors = [tensor for beams in made.beams.values() for tensor in beams.tensors()]
    kept = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in tensors}
    assert sorted(made.beams) == list(transformer.SEARCHED["gpu"])
    assert 0.9 * 0.5e9 / 8 < sum(kept.values()) < 1.02 * 0.5e9 / 8


class Repeating:
    """A search that finds the source."""

    def __init__(self, source):
        self.source, self.length = source, 0

    def advance(self):
        """Four more subwords of each."""
        self.length += 4

    def done(self):
        """Those that are not longer."""
        return lengths(self.source) <= self.length

    def results(self):
        """All of what is there."""
        return self.source, lengths(self.source) - 1

    def keep(self, sentences):
        """Without the others."""
        self.source = self.source[sentences]


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_translations_come_in_the_order_of_the_sentences(kind):
    """Whatever the order in which sentences of like length are taken, and whichever are done first."""
    arrays = real("translation")
    rows = padded(arrays["test_source"])[:200]
    asked = list(questions(rows, TOGETHER[kind], kind))
    model = sentencepiece.SentencePieceProcessor(model_proto=arrays["subword_model"].tobytes())
    expected = [model.decode(row[: length - 1].tolist()) for row, length in zip(rows, lengths(rows), strict=True)]
    assert translate(Repeating, asked, arrays["subword_model"], kind) == expected
    assert len({len(batch) for _, batch in asked}) == (2 if kind == "cpu" else 1)
