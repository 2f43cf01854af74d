"""Levels that train: precision and preprocessing; and steps on noise."""

import numpy as np
import pytest
import sentencepiece

from suite import config
from suite.errors import UserError
from suite.measure import systems
from suite.probe import altering, record, rounding, training
from suite.probe.__main__ import main
from suite.probe.subject import Subject
from suite.probe.synthetic import synthetic
from suite.record import states
from suite.store.modules import load_alterations
from tasks.translation.subwords import END, subword_model
from tests.command import refuses
from tests.eighth_task import lend
from tests.probe import made

TASK = ("task=image_classification", "scale=mini")
PICTURES = np.random.default_rng(5).integers(0, 256, (3, 16, 12, 3), np.uint8)


def probe(capsys, *words: str) -> list[record.Cell]:
    return made.look(capsys, "hw=cpu", *words)


def test_each_precision_has_its_speed_error_and_quality(capsys):
    cells = probe(capsys, "level=precision", *TASK, "samples=500", "precision=fp32,tf32,bf16,int8,fp8_delayed")
    found = {each.conditions.precision: each for each in cells}
    assert "is arithmetic of GPUs" in found["tf32"].error
    assert "the reference in torch trains in" in found["fp8_delayed"].error
    whole = found["fp32"].figures["accuracy"].value
    assert found["int8"].figures["accuracy before"].value == whole
    assert found["int8"].figures["accuracy"].value == pytest.approx(whole, abs=0.02)
    assert found["int8"].figures["samples/s"].value is None
    errors = {name: found[name].figures["error, step 1"].value for name in ("fp32", "bf16")}
    assert 0 < errors["fp32"] < 1e-3 < errors["bf16"] < 1
    for name in errors:
        assert found[name].figures["samples/s"].value > 0
        assert 0.3 < found[name].figures["accuracy"].value <= 1
        assert found[name].figures["samples"].value == 500


def test_a_shadow_that_does_not_fit_leaves_speed_and_quality(capsys, monkeypatch):
    def shadowed(build, device):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr("suite.probe.instruments.torch.shadowed", shadowed)
    (cell,) = probe(capsys, "level=precision", *TASK, "samples=500", "precision=fp32")
    assert cell.error is None
    assert cell.notes == ["not held to float64: out of memory: DefaultCPUAllocator: can't allocate memory"]
    assert cell.figures["error, step 1"].value is None
    assert cell.figures["samples/s"].value > 0


def test_weights_in_few_bits_lie_on_a_grid_of_their_row_and_nothing_else_changes():
    random = np.random.default_rng(4)
    state = {
        "layer.weight": random.normal(size=(5, 4, 3)).astype(np.float32),
        "layer.bias": random.normal(size=5).astype(np.float32),
        "momentum/layer.weight": random.normal(size=(5, 4, 3)).astype(np.float32),
        "average/layer.weight": random.normal(size=(5, 4, 3)).astype(np.float32),
        "carry/layers": random.normal(size=(2, 3)).astype(np.float32),
        "table": np.zeros((2, 3), np.float32),
        "step": np.array(7),
    }
    found = rounding.rounded(state, 4)
    changed = {name for name in state if not np.array_equal(found[name], state[name])}
    assert changed == {"layer.weight", "average/layer.weight"}
    assert [len(np.unique(row)) <= 15 for row in found["layer.weight"]] == [True] * 5
    scale = np.abs(state["layer.weight"]).max(axis=(1, 2), keepdims=True) / 7
    assert (np.abs(found["layer.weight"] - state["layer.weight"]) <= scale / 2 * 1.0001).all()
    assert found["layer.weight"].dtype == np.float32


@pytest.mark.soak
def test_a_precision_of_tensorflow(capsys):
    (cell,) = probe(capsys, "level=precision", *TASK, "samples=500", "framework=tensorflow", "precision=bf16")
    assert 1e-3 < cell.figures["error, step 1"].value < 1
    assert any("but for FusedBatchNorm" in note for note in cell.notes)
    assert 0.3 < cell.figures["accuracy"].value <= 1


def test_a_model_is_trained_to_the_target(capsys):
    (cell,) = probe(capsys, "level=precision", *TASK, "precision=fp32")
    (row,) = cell.rows
    assert row.values["reached"] == "yes"
    assert row.values["quality"] >= 0.98
    assert row.values["samples"] <= 24000


def test_noise_stands_for_pictures_alone(capsys):
    data = {"train_images": PICTURES // 2, "train_labels": PICTURES[0, 0, :, 0], "test_images": PICTURES}
    noise = synthetic(data, "a")
    assert [name for name in data if not np.array_equal(noise[name], data[name])] == ["train_images"]
    assert noise["train_images"].max() <= 127
    with pytest.raises(UserError, match="a has no pictures or recordings"):
        synthetic({"train_labels": data["train_labels"]}, "a")
    (cell,) = probe(capsys, "level=throughput", *TASK, "data=synthetic", "precision=fp32")
    assert cell.figures["samples/s"].value > 0


def test_input_tells_both_kinds_of_data_and_the_loader(capsys):
    (cell,) = probe(capsys, "level=input", *TASK, "precision=fp32")
    figures = {name: each.value for name, each in cell.figures.items()}
    assert [row.name for row in cell.rows] == ["real", "synthetic"]
    loading = figures["data phase"] / 100 * figures["overhead"]  # of a step without instruments
    assert figures["loader alone"] == pytest.approx(figures["samples/s"] / loading)
    assert 0 < figures["data phase"] < 100
    assert figures["input-bound"] == pytest.approx(
        100 * (1 - cell.rows[1].values["step"] / cell.rows[0].values["step"])
    )


def test_a_kept_state_loses_what_alterations_take_from_it(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(systems, "precision_of", lambda *_: "bf16")
    conditions = record.Conditions(
        task="image_classification", scale="mini", framework="torch", mode="train", precision="fp32", samples=2000
    )
    trained = training.train(Subject(conditions, config.system("cpu"), 0.02), 1)
    path = states.path_of(tmp_path / "run_1", trained.samples)
    path.parent.mkdir(parents=True)
    states.write(path, trained.state, trained.samples)
    (tmp_path / "run_1" / "config.yaml").write_text("precision: fp32\n")
    (cell,) = probe(capsys, "level=preprocessing", *TASK, f"from={tmp_path}")
    assert cell.conditions.precision == "fp32"
    assert cell.figures["accuracy"].value == trained.quality
    lost = {row.name: row.values["lost"] for row in cell.rows}
    assert lost["JPEG decoded by Pillow"] < lost["crop one pixel off"] < lost["resized, Pillow bilinear"]
    path.write_bytes(b"no state")
    with pytest.raises(UserError, match="is no state"):
        main(["level=preprocessing", *TASK, f"from={tmp_path}"])


def test_pictures_are_altered_and_keep_their_shape():
    images = (PICTURES // 16).astype(np.uint8)  # of 16 levels, as digits have
    for name, alter in altering.alterations({"test_images": images, "train_images": images}).items():
        (altered,) = alter().values()
        assert altered.shape == images.shape, name
        assert altered.dtype == np.uint8
        assert altered.max() <= images.max()
    turned = altering.alterations({"test_images": images})["colours in the order BGR"]()["test_images"]
    assert np.array_equal(turned, images[..., ::-1])
    assert altering.alterations({"test_words": images[0, 0, 0]}) == {}
    assert "colours in the order BGR" not in altering.alterations({"test_images": images[..., :1]})


def test_sentences_are_written_otherwise():
    text = ["A dog runs.", "Two cats, one dog."]
    model = np.frombuffer(subword_model(text * 10, 40), np.uint8)
    encode = sentencepiece.SentencePieceProcessor(model_proto=model.tobytes()).encode
    source = np.concatenate([np.array([*encode(each), END], np.uint16) for each in text])
    ways = load_alterations("translation").alterations("mini", None, {"subword_model": model, "test_source": source})
    for name, alter in ways.items():
        altered = alter()["test_source"]
        assert (altered == END).sum() == 2, name
    assert not np.array_equal(ways["lower case"]()["test_source"], source)


def test_features_are_made_otherwise():
    features, frames = np.arange(40, dtype=np.uint8).reshape(10, 4), np.array([4, 6], np.int32)
    data = {"test_features": features, "test_frames": frames}
    ways = load_alterations("speech").alterations("mini", None, data)
    halved = ways["amplitudes in place of energies"]()["test_features"]
    assert np.array_equal(halved, np.rint(features / 2))
    centred = ways["each recording's mean taken away"]()["test_features"].astype(float)
    assert np.allclose(centred[:4].mean(0), centred[4:].mean(0), atol=1)


def test_words_are_written_otherwise():
    data = {"vocabulary": np.array(["The", "the", "<unk>", "<eos>", "7"]), "test_tokens": np.array([0, 1, 4, 3])}
    ways = load_alterations("language_modeling").alterations("small", None, data)
    assert ways["lower case"]()["test_tokens"].tolist() == [1, 1, 4, 3]
    assert ways["numbers not known"]()["test_tokens"].tolist() == [0, 1, 2, 3]
    assert load_alterations("language_modeling").alterations("mini", None, {"vocabulary": np.array(["a"])}) == {}


def test_a_task_that_nothing_fits_is_told_so(monkeypatch):
    lend(monkeypatch)
    with pytest.raises(UserError, match=r"parity/mini has no pictures, and no tasks/parity/preprocessing\.py"):
        main(["level=preprocessing", "task=parity", "framework=numpy", "scale=mini", "hw=cpu"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["level=throughput", *TASK, "samples=3"], "level=throughput has no use for it"),
        (["level=precision", *TASK, "precision=fp32", "samples=30000"], "more than the budget"),
        (["level=precision", *TASK, "precision=fp32", "from=here"], "preprocessing has"),
        (["level=precision", *TASK, "precision=fp32", "mode=infer"], "trains models"),
        (["level=precision", "model=resnet18", "precision=fp32"], "no quality of its own"),
        (["level=preprocessing", *TASK, "from=a", "samples=3"], "exclude each other"),
        (["level=throughput", *TASK, "data=synthetic", "mode=infer"], "stands for training data"),
        (["level=preprocessing", *TASK, "from=nowhere"], "holds no kept states"),
        (["level=input", *TASK, "data=real"], "leave out model=, mode=, data="),
        (["level=throughput", "task=recommendation", "scale=mini", "data=synthetic"], "no pictures or recordings"),
        (["level=throughput", *TASK, "data=false"], "unknown data 'false'"),
        (["level=throughput", "model=resnet18", "precision=int8"], "model= is looked at in fp32, bf16, fp16"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(words, said):
    refuses(main, ["hw=cpu", *words], said)
