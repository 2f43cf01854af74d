"""Single operations: DeepBench's list, what each takes by formula, and the level by the command."""

import importlib
import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from suite import config
from suite.compare import main as compare
from suite.errors import UserError
from suite.harness.implementation import Device
from suite.harness.workers.place import LOCALHOST, Place
from suite.probe import instruments, pictures, record, showing
from suite.probe.__main__ import main
from suite.probe.instruments import torch_all_reduce, torch_workers
from suite.probe.instruments.torch_kernels import short
from suite.probe.kernels import deepbench, tags
from suite.probe.kernels.problems import (
    BY_INPUT,
    BY_WEIGHT,
    FORWARD,
    Convolution,
    MatrixProduct,
    Recurrent,
    SparseProduct,
)
from suite.probe.levels.kernels import Kernels
from suite.probe.subject import Subject
from tests.probe import made

FRAMEWORKS = ["torch", pytest.param("tensorflow", marks=pytest.mark.slow)]
DEVICE = Device("cpu", "fp32")
CONVOLUTION = Convolution(2, 4, (9, 8), 6, (3, 2), (2, 1), ((1, 1), (2, 2)))


def look(capsys, *words: str) -> list[record.Cell]:
    """The cells of a probe."""
    return made.look(capsys, "level=kernels", *words, "precision=fp32", "repeats=3", "seconds=0.01")


def multiplies_as_tf32(framework: str) -> set[bool]:
    """Whether a framework lets a GPU do so: PyTorch products and convolutions, each by itself."""
    if framework == "torch":
        return {torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32}
    return {importlib.import_module(framework).config.experimental.tensor_float_32_execution_enabled()}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_fp32_is_multiplied_as_tf32_in_that_precision_alone(framework):
    """On a GPU, where both frameworks convolve fp32 as tf32 if they are not told otherwise."""
    library, name = instruments.load(framework), {"torch": "resnet18", "tensorflow": "mobilenetv2"}[framework]
    library.kernel(MatrixProduct(8, 8, 8), replace(DEVICE, precision="tf32"))
    assert multiplies_as_tf32(framework) == {True}
    conditions = record.Conditions(framework=framework, model=name, mode="infer", precision="fp32", batch=1, size=32)
    library.model(conditions, DEVICE, 1)
    assert multiplies_as_tf32(framework) == {False}


def test_the_roof_is_looked_at_in_its_precision_whatever_was_built_last(monkeypatch):
    looks = []
    monkeypatch.setattr("suite.probe.roof.Roof.look", lambda _: looks.append(multiplies_as_tf32("torch")))
    conditions = record.Conditions(framework="torch", mode="infer", precision="tf32", kernels="matmul+device+quick")
    level = Kernels(Subject(conditions, config.system("cpu"), 0.01))
    instruments.load("torch").kernel(MatrixProduct(8, 8, 8), DEVICE)
    level.repeat()
    assert looks == [{True}]


def test_a_worker_that_sums_takes_its_own_accelerator(monkeypatch):
    """Else all would wait for the first one of their node, and each have memory on it."""
    chosen = []
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "set_device_index", chosen.append)
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda *_, **__: None)
    monkeypatch.setattr(torch.distributed, "new_group", lambda *_, **__: None)
    monkeypatch.setattr(torch.distributed, "barrier", lambda: None)
    monkeypatch.setattr(torch, "ones", lambda *_, **__: torch.empty(1))
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda _: None)
    monkeypatch.setattr(torch_workers.Member, "told", lambda *_: [1])
    place = Place(1, 2, 1, 2, 0, LOCALHOST, 1, "", "")
    next(torch_all_reduce.measured(place, 1, "gpu"))
    torch_workers.Member(place)
    assert chosen == [1, 1]


@pytest.mark.parametrize(
    ("whole", "name"),
    [
        ("nvjet_sm90_tst_96x64_64x8_1x2_h_bz_NNN", "nvjet_sm90_tst_96x64_64x8_1x2_h_bz_NNN"),
        (
            "void at::native::vectorized_elementwise_kernel<8, at::native::FillFunctor<c10::BFloat16>, "
            "std::array<char*, 1ul> >(int, at::native::FillFunctor<c10::BFloat16>, std::array<char*, 1ul>)",
            "vectorized_elementwise_kernel",
        ),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_64x3_nn_align2>"
            "(cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_64x3_nn_align2::Params)",
            "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_64x3_nn_align2",
        ),
        (
            "void cusparse::(anonymous namespace)::csr_partition_kernel<int, int>(int const*, int, int, int, int*)",
            "csr_partition_kernel",
        ),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD"),
        ("_ZN17cutlass__5x_cudnn6Kernel" + 200 * "I", "_ZN17cutlass__5x_cudnn6Kernel" + 71 * "I"),
    ],
)
def test_kernels_of_gpus_have_names_that_fit_a_table(whole, name):
    """As the profiler gave them on an NVIDIA H200, some cut."""
    assert short(whole) == name


def test_kernels_are_timed_on_an_accelerator_that_is_not_cuda():
    """As on XPU: PyTorch's profiler knows no CUDA there, and here none of an accelerator's kernels at all."""
    workload = instruments.load("torch").kernel(MatrixProduct(8, 8, 8), DEVICE)
    assert instruments.load("torch").algorithm(workload, replace(DEVICE, kind="gpu")) is None


def test_deepbench_has_the_problems_that_it_has():
    """As its files hold them, with the one convolution that is commented out there."""
    counts = {kind: sum(map(len, sets.values())) for kind, sets in deepbench.sizes().items()}
    assert counts == {"matmul": 248, "convolution": 218, "recurrent": 125, "sparse": 32, "all_reduce": 7}
    assert sum(row[0] == 7860 for rows in deepbench.sizes()["sparse"].values() for row in rows) == 8


def test_gradients_are_of_training_problems():
    found = {mode: deepbench.problems(mode) for mode in ("train", "infer")}
    both = [each for each in found["train"] if each.problem.kind == "convolution"]
    forward = [each for each in both if each.problem.direction == FORWARD]
    assert len(forward) == len({(*each.problem.size, each.problem) for each in forward})
    assert all(each.sets == {"train"} for each in both if each.problem.direction != FORWARD)
    assert len(both) - len(forward) == 2 * sum("train" in each.sets for each in forward)
    assert forward == [each for each in found["infer"] if each.problem.kind == "convolution"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    "problem",
    [
        MatrixProduct(3, 5, 7),
        MatrixProduct(3, 5, 7, (True, False), batch=2),
        *(replace(CONVOLUTION, direction=each) for each in (FORWARD, BY_INPUT, BY_WEIGHT)),
    ],
    ids=lambda problem: problem.name,
)
def test_operations_are_those_that_the_framework_counts(framework, problem):
    library = instruments.load(framework)
    workload = library.kernel(problem, DEVICE)
    assert sum(library.flops(lambda: workload.run(1)).values()) == problem.flops


@pytest.mark.filterwarnings("ignore:TF32")  # of PyTorch's, at any flag of mkldnn
@pytest.mark.parametrize(
    "problem",
    [
        Convolution(2, 4, (9, 8), 6, (3, 3), groups=2),
        Convolution(2, 4, (9, 8), 6, (3, 3), groups=2, direction=BY_WEIGHT),
        Recurrent("vanilla", 8, 3, 5),
        Recurrent("gru", 8, 3, 5),
        Recurrent("lstm", 8, 3, 5),
        Recurrent("gru", 8, 3, 5, BY_WEIGHT),
        Recurrent("lstm", 8, 3, 5, BY_WEIGHT),
    ],
    ids=lambda problem: problem.name,
)
def test_operations_are_those_that_pytorch_counts(problem):
    library = instruments.load("torch")
    with torch.backends.mkldnn.flags(enabled=False):  # whose recurrent layers are one operation
        workload = library.kernel(problem, DEVICE)
        assert sum(library.flops(lambda: workload.run(1)).values()) == problem.flops


def test_bytes_are_those_of_the_arrays():
    assert MatrixProduct(3, 5, 7, batch=2).bytes(2) == 2 * 2 * (3 * 7 + 7 * 5 + 3 * 5)
    assert CONVOLUTION.out == (5, 11)
    assert CONVOLUTION.bytes(4) == 4 * (2 * 4 * 9 * 8 + 6 * 4 * 3 * 2 + 2 * 6 * 5 * 11)
    sparse = SparseProduct(10, 3, 20, 0.9)
    assert (sparse.kept, sparse.flops) == (20, 2 * 20 * 3)
    assert sparse.bytes(4) == 20 * (4 + 4) + 11 * 4 + 4 * 3 * (20 + 10)


def test_tags_choose_and_quick_takes_a_few_of_each_kind():
    listed = deepbench.problems("train")
    assert len(tags.chosen(listed, "matmul+device")) == 13
    quick = tags.chosen(listed, "quick")
    assert {each.problem.kind for each in quick} == {"matmul", "convolution", "recurrent", "sparse", "all_reduce"}
    assert len(quick) < 60
    assert set(quick) < set(tags.chosen(listed, "all"))
    with pytest.raises(UserError, match="no problem is all of that"):
        tags.chosen(listed, "sparse+train")
    with pytest.raises(UserError, match="did you mean 'convolution'"):
        main(["level=kernels", "kernels=convolutions"])
    with pytest.raises(UserError, match="batch=3 is for task= or model=; DeepBench has its sizes"):
        main(["level=kernels", "batch=3"])
    with pytest.raises(UserError, match="has no use for it; level=kernels has"):
        main(["level=throughput", "model=vgg11", "kernels=matmul"])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_problems_are_timed_and_told(capsys, framework):
    (cell,) = look(capsys, "kernels=convolution+device+quick", f"framework={framework}")
    asked = tags.chosen(deepbench.problems("train"), "convolution+device+quick")
    assert {row.name: row.values["precision"] for row in cell.rows} == {each.problem.name: "fp32" for each in asked}
    for row in cell.rows:
        values = row.values
        assert values["from"] <= values["us"] <= values["to"]
        assert values["TFLOP/s"] == pytest.approx(values["GFLOP"] / values["us"] * 1e3)
        assert values["GB/s"] == pytest.approx(values["MB"] / values["us"] * 1e3)
        assert values["of peak"] == pytest.approx(100e3 * values["TFLOP/s"] / cell.figures["product"].value)
    best = max(cell.rows, key=lambda row: row.values["TFLOP/s"])
    assert f"the most operations a second: {1e3 * best.values['TFLOP/s']:.4g} GFLOP/s in {best.name}" in cell.notes
    assert sum(row.values["share"] for row in cell.rows) == pytest.approx(100)
    if framework == "torch":
        assert all(row.values["algorithm"].startswith(("oneDNN convolution", "MKL SGEMM")) for row in cell.rows)


def test_what_does_not_fit_is_one_marked_row(capsys, monkeypatch):
    monkeypatch.setattr("suite.probe.levels.kernels.room_of", lambda kind: 8e6)
    (cell,) = look(capsys, "kernels=convolution+device")
    why = {row.name: row.values["why"] for row in cell.rows if "why" in row.values}
    assert 0 < len(why) < len(cell.rows)
    assert all(each.startswith("out of memory: it may take 0.0") for each in why.values())
    assert cell.figures["not measured"].value == len(why)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_recurrent_layers_are_made_in_bf16(framework):
    for cell in ("vanilla", "gru", "lstm"):
        instruments.load(framework).kernel(Recurrent(cell, 8, 3, 5), replace(DEVICE, precision="bf16")).run(1)


@pytest.mark.slow
def test_what_tensorflow_has_for_processors_alone_is_not_timed_as_a_gpu_s(monkeypatch):
    """TensorFlow would take the processor for it and say nothing."""
    library = instruments.load("tensorflow")
    monkeypatch.setattr("suite.probe.instruments.tensorflow_kernels.device_name", lambda _: "/GPU:0")
    made = library.kernel(SparseProduct(8, 4, 8, 0.5), Device("gpu", "bf16"))
    with pytest.raises(UserError, match=r"^TensorFlow has no kernel of it in bfloat16 for GPU:0$"):
        made.run(1)


@pytest.mark.slow  # starts a worker
def test_workers_sum_over_each_other():
    command = ["-m", "suite.probe", "level=kernels", "kernels=all_reduce+quick", "precision=fp32", "hw=cpu", "--json"]
    done = subprocess.run([sys.executable, *command, "repeats=3", "seconds=0.05"], capture_output=True, check=True)
    (cell,) = record.Probe.model_validate_json(done.stdout).cells
    for row in cell.rows:
        assert (row.values["algorithm"], row.values["precision"]) == ("gloo", "fp32")
        numbers = int(row.name.split()[1])
        assert row.values["GB/s"] == pytest.approx(4 * numbers / row.values["us"] / 1e3)  # of two workers
    assert len(cell.rows) == 3


def test_shapes_are_those_of_the_call():
    images, filters = torch.ones(2, 4, 9, 8), torch.ones(6, 4, 3, 2, requires_grad=True)
    left = torch.ones(3, 5)

    def call() -> None:
        torch.conv2d(images, filters, stride=(2, 1), padding=(1, 2)).sum().backward()
        left @ torch.ones(4, 5).bfloat16().float().T

    found = instruments.load("torch").called(call, DEVICE)
    gradient = replace(CONVOLUTION, direction=BY_WEIGHT)
    assert found == {(each, "fp32"): 1 for each in (CONVOLUTION, gradient, MatrixProduct(3, 4, 5, (False, True)))}


@pytest.mark.slow  # imports TensorFlow
def test_channels_may_come_before_height():
    tf = importlib.import_module("tensorflow")
    images, filters = tf.ones((2, 3, 8, 9)), tf.ones((3, 2, 3, 5))
    padding = [[0, 0], [0, 0], [1, 1], [2, 0]]
    found = instruments.load("tensorflow").called(
        lambda: tf.nn.conv2d(images, filters, (1, 1, 2, 1), padding, "NCHW"), DEVICE
    )
    assert [*found] == [(Convolution(2, 3, (8, 9), 5, (3, 2), (2, 1), ((1, 1), (2, 0))), "fp32")]


def test_shapes_of_inference_are_seen_too():
    images, filters, left, right = (torch.ones(each) for each in ((2, 4, 9, 8), (6, 4, 3, 2), (3, 5), (4, 5)))

    @torch.inference_mode()
    def call() -> None:
        torch.conv2d(images, filters, stride=(2, 1), padding=(1, 2))
        torch.nn.functional.linear(left, right)

    found = instruments.load("torch").called(call, DEVICE)
    assert found == {(each, "fp32"): 1 for each in (CONVOLUTION, MatrixProduct(3, 4, 5, (False, True)))}


@pytest.mark.slow  # imports TensorFlow, and the other trains
@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_a_task_brings_the_shapes_of_its_step(capsys, framework):
    words = ("task=image_classification", "scale=mini", "kernels=all", f"framework={framework}")
    (cell,) = look(capsys, *words)
    rows = {row.name: row.values for row in cell.rows}
    lies = {"torch": "nt", "tensorflow": "nn"}[framework]  # its weights, as a layer keeps them
    assert rows[f"matmul 100x10x128 {lies}"]["calls"] == 1  # the last layer: 128 features, 10 classes
    last = "convolution 100x128x1x1 128x3x3 pad 1"
    assert [rows[f"{last}{way}"]["calls"] for way in ("", " by input", " by weight")] == [1, 1, 1]
    assert "these are 100 % of a step's operations, if all are looked at" in cell.notes
    assert cell.figures["sum"].value == pytest.approx(sum(each["us"] * each["calls"] for each in rows.values()) / 1e3)


def test_what_is_kept_is_drawn_and_compared(capsys, tmp_path):
    out, html = tmp_path / "kept", tmp_path / "page.html"
    words = ["level=kernels", "kernels=matmul+device+quick", "precision=fp32", "repeats=3", "seconds=0.01"]
    assert main([*words, "mlflow=false", f"out={out}", "--html", str(html)]) == 0
    (cell,) = record.read(out).cells
    assert 'aria-label="Roofline' in html.read_text()
    drawn = pictures.roofline(cell)
    assert len(drawn.dots) == len(cell.rows)
    assert drawn.product == cell.figures["product"].value
    assert f"{showing.number(1e3 * cell.rows[0].values['TFLOP/s'])} GFLOP/s" in drawn.dots[0].text
    capsys.readouterr()
    assert compare([str(out), str(out), "--json"]) == 0
    found = {each["figure"]: each for each in json.loads(capsys.readouterr().out)["figures"]}
    for row in cell.rows:
        assert found[f"{row.name}, us"]["a"]["low"] == row.values["from"]
        assert found[f"{row.name}, us"]["says"] == "noise"
