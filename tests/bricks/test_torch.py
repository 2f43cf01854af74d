"""PyTorch's models as bricks: how many there are, what they do, and the whole way from a model to its time."""

from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import nn

from suite import config
from suite.bricks import frameworks, record
from suite.bricks.__main__ import main
from suite.bricks.brick import Brick, Tensor
from suite.bricks.chaining import Bricks, used_by
from suite.bricks.frameworks.torch_recording import Recorder
from suite.bricks.frameworks.torch_running import BACKWARD, Runner
from suite.bricks.record import Made
from suite.bricks.recorded import BATCHES
from suite.errors import UserError
from suite.harness.implementation import Device
from suite.probe.subject import Subject
from tests.bricks import made
from tests.command import refuses

CPU = Device("cpu", "fp32")
runs = partial(frameworks.runs, frameworks.load("torch"))


def test_calls_are_counted_as_by_hand(tmp_path):
    """AlexNet: 5 convolutions, 7 ReLU of 5 shapes, 3 pools and 1, 1 flatten, 2 dropouts, 3 products.

    ResNet-18: 20 convolutions of 11 kinds, 20 normalisations and 17 ReLU of 5 shapes each, 8 sums of 4, 4 others.
    """
    counts = {}
    for name in ("alexnet", "resnet18"):
        assert main(["make", f"models={name}", f"out={tmp_path / name}.json"]) == 0
        file = record.read(Made, tmp_path / f"{name}.json")
        counts[name] = (file.models[0].calls, len(file.bricks), file.models[0].left_out)
    assert counts == {"alexnet": (22, 20, {}), "resnet18": (69, 29, {})}


@pytest.mark.parametrize("granularity", [1, 3, 10])
def test_bricks_do_what_the_layers_do(granularity):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2)).eval()
    pictures = torch.randn(2, 3, 9, 9)
    with torch.no_grad(), Recorder() as recorder:
        expected = network(pictures)
    recorded, bricks = recorder.recorded, Bricks(granularity)
    steps = bricks.add(made.CONDITIONS, [recorded]).bricks
    assert len(steps) == {1: 4, 3: 2, 10: 4}[granularity]
    held = {
        recorder.numbers[each]: each
        for each in (pictures, *network.parameters(), *network.buffers())
        if each in recorder.numbers
    }
    value, at = pictures, 0
    for brick in (bricks.made[step] for step in steps):
        runner = Runner(brick, CPU, "infer")
        given = dict.fromkeys(
            each for called in recorded.calls[at : at + len(brick.calls)] for each in used_by(called.call)
        )
        inner = {each for called in recorded.calls[at : at + len(brick.calls)] for each in called.made}
        runner.give(
            [
                value if described.fresh or number not in held or held[number] is pictures else held[number]
                for number, described in zip([each for each in given if each not in inner], brick.tensors, strict=True)
            ]
        )
        with torch.no_grad():
            (value,) = runner.forward()
        at += len(brick.calls)
    torch.testing.assert_close(value, expected)


def test_a_brick_whose_tensors_only_autocast_brings_to_one_type_can_be_run():
    layer, pictures = nn.Conv2d(3, 4, 3), torch.randn(2, 3, 9, 9, dtype=torch.bfloat16)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), Recorder() as recorder:
        layer(pictures)
    bricks = Bricks(1)
    bricks.add(made.CONDITIONS, [recorder.recorded])
    (brick,) = bricks.made
    assert runs(brick, Device("cpu", "bf16"), "infer", 1 << 20)
    assert not runs(brick, CPU, "infer", 1 << 20)


def test_a_gradient_is_that_of_the_layer():
    layer = nn.Linear(5, 3)
    values = torch.randn(4, 5, requires_grad=True)
    with Recorder() as recorder:
        layer(values)
    bricks = Bricks(1)
    bricks.add(made.CONDITIONS, [recorder.recorded])
    (brick,) = bricks.made
    assert brick.gradient
    runner = Runner(brick, CPU, "train")
    runner.prepare()
    taken = []
    grad = torch.autograd.grad

    def noted(*args, **keywords):
        taken.append(grad(*args, **keywords))
        return taken[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.autograd, "grad", noted)
        given, weight, bias = runner.given
        assert runner.run() > 0
    to_given, to_weight, to_bias = taken[-1]
    (of,) = runner.gradients
    torch.testing.assert_close(to_given, of @ weight)
    torch.testing.assert_close(to_weight, of.T @ given)
    torch.testing.assert_close(to_bias, of.sum(0))
    assert bias.shape == to_bias.shape


@pytest.mark.parametrize("mode", ["infer", "train"])
def test_from_a_model_to_its_time(mode, tmp_path, capsys):
    file, timings, found = made.composed(capsys, tmp_path, made.TORCH, "size=16", f"mode={mode}")
    assert found["steps"] == len(file.models[0].bricks)
    assert found["unique"] == len(file.bricks) < found["steps"]
    assert found["calls left out"] == {}
    assert 0 < found["low"] <= found["ms"] <= found["high"]
    assert all(each.hot for each in timings.times)
    assert any(each.gradient for each in file.bricks) == (mode == "train")


def test_a_model_that_cannot_be_run_costs_the_others_nothing(tmp_path, monkeypatch):
    recording = frameworks.load("torch")
    record_of = recording.record

    def recorded(subject, network):
        if subject.conditions.model == "alexnet":
            raise ValueError("more than one value a channel")
        return record_of(subject, network)

    monkeypatch.setattr(recording, "record", recorded)
    words = ["size=64", "batch=1", f"out={tmp_path / 'bricks.json'}"]
    with pytest.raises(UserError, match=r"alexnet.*: ValueError: more than one value a channel"):
        main(["make", "models=alexnet", *words])
    assert main(["make", "models=alexnet,squeezenet1_1", *words]) == 0
    assert [each.conditions.model for each in record.read(Made, tmp_path / "bricks.json").models] == ["squeezenet1_1"]


def test_a_model_that_trains_on_no_single_picture_has_bricks(tmp_path):
    """Its last normalisation has one value of each channel a picture."""
    pool = "nn.AdaptiveAvgPool2d(1)"
    own = made.own(tmp_path, made.TORCH.replace(pool, f"{pool}, nn.BatchNorm2d(8)"))
    assert main(["make", f"models={own}", "size=16", "batch=4", "mode=train", f"out={tmp_path / 'bricks.json'}"]) == 0
    (model,) = record.read(Made, tmp_path / "bricks.json").models
    assert model.between is not None


@pytest.mark.parametrize("asked", ["x if x.mean() > 0 else -x", "x * len(x.nonzero())"])
def test_a_model_whose_code_asks_for_numbers_is_computed(asked, tmp_path):
    asks = f"\n\nclass Asks(nn.Module):\n    def forward(self, x):\n        return {asked}\n"
    own = made.own(tmp_path, made.TORCH.replace("nn.Flatten()", "nn.Flatten(), Asks()") + asks)
    assert main(["make", f"models={own}", "size=16", f"out={tmp_path / 'bricks.json'}"]) == 0


@pytest.mark.parametrize("then", [".to(memory_format=torch.channels_last)", ".to('cpu')", ".bfloat16().float()"])
def test_a_model_may_be_moved_where_it_is_built(then, tmp_path):
    own = made.own(tmp_path, f"import torch{made.TORCH.rstrip()}{then}\n")
    assert main(["make", f"models={own}", "size=16", f"out={tmp_path / 'bricks.json'}"]) == 0


def test_a_model_may_give_several_logits_by_name(tmp_path):
    named = "\n\n\nclass Named(nn.Module):\n    def forward(self, x):\n        return {'a': x, 'b': x[:, :4]}\n"
    own = made.own(tmp_path, made.TORCH.replace("nn.Linear(8, 10)", "nn.Linear(8, 10), Named()") + named)
    words = [f"models={own}", "size=16", "batch=2", "mode=train", f"out={tmp_path / 'bricks.json'}"]
    assert main(["make", *words]) == 0
    made.own(tmp_path, made.TORCH.replace("nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)", "nn.Identity()"))
    with pytest.raises(UserError, match=r"gives logits \[batch, classes\], and this one \[2, 8, 16, 16\]"):
        main(["make", *words])


def test_a_model_without_parameters_infers(tmp_path):
    own = made.own(tmp_path, "from torch import nn\n\n\ndef build():\n    return nn.Flatten()\n")
    assert main(["make", f"models={own}", "mode=infer", "size=16", f"out={tmp_path / 'bricks.json'}"]) == 0


def test_torchscript_whose_calls_cannot_be_seen_is_refused(tmp_path):
    text = made.TORCH.replace("return nn", "return torch.jit.script(nn")
    own = made.own(tmp_path, f"import torch{text.rstrip()})\n")
    with pytest.raises(UserError, match="net is TorchScript, whose calls cannot be seen: return the module itself"):
        main(["make", f"models={own}", "size=16", f"out={tmp_path / 'bricks.json'}"])


@pytest.mark.slow
def test_a_task_has_bricks_of_batches_in_the_precision_of_its_runs(tmp_path, monkeypatch):
    out = tmp_path / "bricks.json"
    task = ["task=recommendation", "scale=mini", "mode=train"]
    for hw, precision, batches in (("h100", "bf16", 1), ("t4", "fp16", BATCHES)):
        monkeypatch.setattr("suite.bricks.frameworks.torch_recording.BATCHES", batches)
        assert main(["make", *task, f"hw={hw}", f"out={out}"]) == 0
        assert record.read(Made, out).precision == precision
    step, evaluation = record.read(Made, out).models
    assert len(step.starts) == BATCHES
    assert len({end - start for start, end in pairwise((*step.starts, len(step.bricks)))}) == 1
    assert (evaluation.conditions.mode, evaluation.starts) == ("infer", (0,))
    assert evaluation.scoring > 0
    assert step.scoring is None
    assert step.between is not None


@pytest.mark.slow
def test_of_a_task_whose_steps_differ_the_batches_lie_along_a_run(tmp_path, monkeypatch):
    own = Subject.benchmark
    monkeypatch.setattr(Subject, "benchmark", lambda self: own(self).model_copy(update={"uneven_steps": "they grow"}))
    assert main(["make", "task=image_classification", "scale=mini", "mode=train", f"out={tmp_path / 'made.json'}"]) == 0
    step, evaluation = record.read(Made, tmp_path / "made.json").models
    budget = config.benchmark("image_classification", "mini").budget_samples
    assert [int(BATCHES * at / budget) for at in sorted(step.at)] == list(range(BATCHES))
    assert evaluation.at == ()


def test_chains_are_longer_where_there_are_any(tmp_path):
    own = made.own(tmp_path, made.TORCH)
    for granularity in (1, 3):
        out = tmp_path / f"{granularity}.json"
        assert main(["make", f"models={own}", "size=16", f"granularity={granularity}", f"out={out}"]) == 0
    single, chained = (record.read(Made, tmp_path / f"{each}.json") for each in (1, 3))
    assert [len(brick.calls) for brick in single.bricks] == [1] * len(single.bricks)
    assert sorted({len(brick.calls) for brick in chained.bricks}) == [1, 3]
    assert sum(len(chained.bricks[at].calls) for at in chained.models[0].bricks) == len(single.models[0].bricks)


def test_a_brick_multiplies_in_its_own_precision():
    """On a GPU, where PyTorch convolves fp32 as tf32 if it is not told otherwise."""
    for precision in ("tf32", "fp32"):
        Runner(made.relu(), Device("cpu", precision), "infer")
        allowed = {torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32}
        assert allowed == {precision == "tf32"}


def test_a_brick_whose_shapes_do_not_fit_does_not_run():
    wrong = made.relu().model_copy(
        update={"calls": (made.relu().calls[0].model_copy(update={"keywords": {"strange": 1}}),)}
    )
    assert runs(made.relu(), CPU, "infer", 1 << 20)
    assert not runs(wrong, CPU, "infer", 1 << 20)
    assert not runs(made.relu(1 << 20), CPU, "infer", 1 << 20)


def test_what_is_tried_with_shapes_alone_times_no_backward_pass():
    given = Tensor(shape=(1, 16), dtype="float32", fresh=True, gradient=True)
    BACKWARD.clear()
    assert runs(Brick(tensors=(given,), calls=made.relu().calls, gradient=True), CPU, "train", 1 << 20)
    assert not BACKWARD


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Give one of: make, measure, compose"),
        (("mesure",), "did you mean 'measure'"),
        (("make", "out=x.json"), "bricks of what"),
        (("make", "models=resnet18"), "where to"),
        (("make", "models=resnet19", "out=x.json"), "did you mean 'resnet1"),
        (("make", "models=resnet18,,alexnet", "out=x.json"), "models=resnet18,,alexnet has an empty name"),
        (("make", "models=nowhere.txt", "out=x.json"), "models=nowhere.txt is no list of models: No such file"),
        (("make", "models=/dev/null", "out=x.json"), "models=/dev/null "),
        (("make", "models=resnet18", "task=speech", "out=x.json"), "one of the two"),
        (("make", "models=resnet18", "granularity=11", "out=x.json"), "from 1 to 10"),
        (("make", "models=resnet18", "decoys=3", "out=x.json"), "for private=true"),
        (
            ("make", "models=own.py", "precision=tf32", "out=x.json"),
            "precision=tf32: model= is looked at in fp32, bf16",
        ),
        (("make", "models=resnet18", "mode=training", "out=x.json"), "did you mean 'train'"),
        (("measure", "nowhere.json", "out=x.json"), "nowhere.json is no suite.bricks"),
        (("compose",), "takes 1 FILE"),
        (("compose", "a.json", "modle=x"), "did you mean 'model'"),
    ],
)
def test_a_mistake_gets_one_line(words, said):
    refuses(main, words, said)
