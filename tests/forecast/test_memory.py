"""The memory that shapes alone tell of, held to what steps on a CPU are seen to hold; and what a dry run says of it."""

import importlib
import re

import pytest

from reference_impls.translation import torch_transformer
from suite import config
from suite.forecast import memory
from suite.forecast.memory import Footprint
from suite.harness.implementation import Device
from suite.probe.instruments.torch_memory import Tracker
from suite.probe.instruments.torch_needed import needed
from suite.run.__main__ import main
from suite.store.modules import load_shaping

SMALLER = {
    "language_modeling": {"global_batch_size": 512, "muon_steps": 1},
    "image_classification": {"global_batch_size": 64, "norm_batch_size": 32},
    "translation": {"global_batch_size": 2048, "part_size": 1024, "dropout": 0.0},  # its masks are a CPU's own
}
AT_FULL_SIZE = {
    "language_modeling": {"global_batch_size": 256, "sequence_length": 128, "muon_steps": 1},
    "image_classification": {"global_batch_size": 4, "norm_batch_size": 4},
    "translation": {"global_batch_size": 64, "part_size": 64, "dropout": 0.0},
}
T4 = config.system("t4")


def build(task, device, scale="pilot", **changed):
    """The implementation in PyTorch, of arrays that have shapes alone."""
    smaller = {"pilot": SMALLER, "full": AT_FULL_SIZE}[scale]
    hyper = {**config.benchmark(task, scale).hyperparameters, **smaller[task], **changed}
    data = load_shaping(task).shaped(scale)
    return importlib.import_module(f"reference_impls.{task}.torch").build(hyper, data, 1, device)


def imagined(task, precision, workers=1, **changed):
    addresses = ("",) * workers if workers > 1 else ()
    return needed(lambda: build(task, Device("gpu", precision, addresses=addresses, imagined=True), **changed))


@pytest.mark.parametrize("task", SMALLER)
def test_shapes_tell_what_steps_hold(task):
    with Tracker() as tracked:
        build(task, Device("cpu", "fp32"))
    assert imagined(task, "fp32") == pytest.approx(tracked.peak.total(), rel=0.03)


@pytest.mark.soak
@pytest.mark.parametrize("task", AT_FULL_SIZE)
def test_shapes_tell_what_a_step_at_full_size_holds(task, monkeypatch):
    monkeypatch.setattr(torch_transformer, "SEARCHED", {"cpu": (), "gpu": ()})  # a search is no step
    with Tracker() as tracked:
        build(task, Device("cpu", "fp32"), "full")
    told = imagined(task, "fp32", scale="full")
    print(f"{task}: {told / 1e9:.4g} GB told, {tracked.peak.total() / 1e9:.4g} held")
    assert told == pytest.approx(tracked.peak.total(), rel=0.03)


@pytest.mark.slow
def test_shapes_tell_what_autocast_holds():
    with Tracker() as tracked:
        build("language_modeling", Device("cpu", "bf16"), global_batch_size=256)
    told = imagined("language_modeling", "bf16", global_batch_size=256)
    assert told == pytest.approx(tracked.peak.total(), rel=0.03)


def test_two_workers_hold_half_a_batch_each():
    one, half = (imagined("language_modeling", "fp16", global_batch_size=size) for size in (4096, 2048))
    assert imagined("language_modeling", "fp16", workers=2, global_batch_size=4096) == half < one


def test_what_does_not_fit_is_told_beside_what_the_accelerator_has():
    assert Footprint(17 * 10**9).line(T4).startswith("17 GB of each worker's accelerator, which has 16 GB: ")
    assert Footprint(17 * 10**9).line(T4).endswith(", without evaluations")
    assert Footprint(17 * 10**9).problem(T4).startswith("17 GB may not fit into the 16 GB of an accelerator of hw=t4: ")
    assert Footprint(15 * 10**9).problem(T4) is Footprint(None, "why").problem(T4) is None
    unknown = T4.model_copy(update={"memory_gb": None})
    assert Footprint(17 * 10**9).problem(unknown) is None
    assert "which has" not in Footprint(17 * 10**9).line(unknown)


@pytest.mark.parametrize(
    ("hw", "framework", "why"),
    [
        ("cpu", "torch", "processors share the machine's"),
        ("t4", "tensorflow", "nothing tells it of TensorFlow away from the accelerator; framework=torch tells what"),
        ("t4", "torch", "it takes the data: python -m suite.data fetch image_classification/small"),
    ],
)
def test_what_cannot_be_told_is_not_known(tmp_path, hw, framework, why):
    small = config.benchmark("image_classification", "small")
    told = memory.needed(small, config.system(hw), config.framework(framework), "fp16", str(tmp_path))
    assert told.bytes is None
    assert told.line(config.system(hw)).startswith(f"not known: {why}")


@pytest.mark.slow
def test_a_dry_run_tells_it_without_the_data(tmp_path, capsys):
    words = ("task=translation", "scale=pilot", "hw=t4", "hw.memory_gb=0.05", f"data_dir={tmp_path}", "dry_run=true")
    assert main([*words]) == 0
    shown = capsys.readouterr().out
    (told,) = re.findall(r"memory +(\S+) GB of each worker's accelerator, which has 0.05 GB: by shapes", shown)
    assert float(told) > 0.05
    assert f"{told} GB may not fit into the 0.05 GB of an accelerator of hw=t4: take a precision" in shown
