"""`python -m suite.probe`, as a user calls it."""

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient

from suite.config.models import System
from suite.errors import UserError
from suite.harness.implementation import Device
from suite.measure import systems
from suite.probe import record, showing
from suite.probe.__main__ import main
from suite.probe.levels import names
from suite.probe.subject import Subject
from suite.sync import main as sync
from tests.command import ENVIRONMENT, refuses, run
from tests.eighth_task import NUMPY, lend
from tests.probe import made

ROOT = Path(__file__).resolve().parent.parent.parent
BRIEF = ("repeats=3", "seconds=0.02", "mlflow=false")
SMALL = ("model=squeezenet1_1", "size=32", "batch=2")


def look(capsys, *words: str) -> list[record.Cell]:
    """The cells of a probe."""
    return made.look(capsys, *words, *BRIEF, "precision=fp32")


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["torch", pytest.param("tensorflow", marks=pytest.mark.soak)])
def test_throughput_of_a_task(capsys, framework):
    (cell,) = look(capsys, "level=throughput", "task=reinforcement_learning", f"framework={framework}", "scale=mini")
    rate, median = cell.figures["samples/s"], cell.figures["p50"]
    assert rate.low <= rate.value <= rate.high
    assert 0.1 < rate.value / (cell.figures["samples/step"].value / median.value * 1000) < 10  # the same unit
    assert 0 <= cell.figures["MFU"].low <= cell.figures["MFU"].value <= cell.figures["MFU"].high


def test_utilisation_may_be_of_the_peak_that_was_attained(capsys, tmp_path):
    kernels = ("level=kernels", "kernels=matmul+quick", "seconds=0.1", f"out={tmp_path / 'kernels'}")
    assert main([*kernels, "repeats=1", "mlflow=false", "precision=fp32"]) == 0
    capsys.readouterr()
    kept = record.read(tmp_path / "kernels")
    record.write(kept.model_copy(update={"noisy": ["others"]}), tmp_path / "kernels")
    words = ("level=throughput", *SMALL, f"peak={tmp_path / 'kernels'}")
    (cell,) = look(capsys, *words)
    attained = kept.cells[0].figures["product"].value
    assert f"the peak of {tmp_path / 'kernels'} is NOISY: others" in cell.notes
    share = cell.figures["GFLOP/s"].value / attained
    assert cell.figures["MFU"].value == pytest.approx(100 * share)
    with pytest.raises(UserError, match="is no probe at level=kernels of hw="):
        main([*words, *BRIEF, "precision=bf16"])
    for part, name in (("machine", "cpu_model"), ("environment", "threads")):
        record.write(kept.model_copy(update={part: {**getattr(kept, part), name: "other"}}), tmp_path / "kernels")
        with pytest.raises(UserError, match=f"is not of this machine as it is now: {name} other, here "):
            main([*words, *BRIEF, "precision=fp32"])


def test_a_models_rate_on_a_gpu_tells_whether_it_is_compiled_and_a_few_steps_no_high_percentile(capsys, monkeypatch):
    """As if the processor were one."""
    monkeypatch.setattr(System, "device_kind", "gpu")
    monkeypatch.setattr(Subject, "device", Device("cpu", "fp32"))
    (cell,) = look(capsys, "level=throughput", *SMALL, "mode=infer")
    assert cell.notes[0].startswith("on a GPU model= runs as it is written in PyTorch")
    assert cell.figures["p99"].value is None
    assert "p99 needs 100 steps, and there were" in cell.notes[-1]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["train", pytest.param("infer", marks=pytest.mark.soak)])
def test_a_sweep_of_a_model(capsys, mode):
    cells = look(capsys, "level=throughput", "model=squeezenet1_1", "batch=1,2", "size=32,40", f"mode={mode}")
    assert [(each.conditions.batch, each.conditions.size) for each in cells] == [(1, 32), (1, 40), (2, 32), (2, 40)]
    assert all(each.error is None for each in cells)


def test_inference_of_a_task_is_its_evaluation(capsys):
    (cell,) = look(capsys, "level=throughput", "task=image_classification", "scale=mini", "mode=infer")
    assert cell.figures["samples/step"].value == 797


def test_a_batch_of_its_own(capsys):
    (cell,) = look(capsys, "level=throughput", "task=image_classification", "scale=mini", "batch=10")
    assert cell.figures["samples/step"].value == 10


def test_a_size_that_the_model_refuses_marks_its_cell_alone(capsys):
    cells = look(capsys, "level=throughput", "model=squeezenet1_1", "batch=2", "size=4,32")
    assert "squeezenet1_1 refuses size=4" in cells[0].error
    assert cells[1].error is None


def test_a_batch_beyond_the_memory_is_no_size_that_the_model_refuses(capsys):
    assert main(["level=throughput", "model=squeezenet1_1", "batch=999999999", "size=224", "precision=fp32"]) == 2
    out = capsys.readouterr().out
    assert "out of memory: " in out
    assert "refuses" not in out


def test_want_of_memory_marks_its_cell_alone(capsys, monkeypatch):
    build = Subject.build

    def greedy(subject):
        if subject.conditions.batch == 3:
            raise MemoryError("3 GiB")
        return build(subject)

    monkeypatch.setattr(Subject, "build", greedy)
    cells = look(capsys, "level=throughput", "model=squeezenet1_1", "batch=2,3", "size=32")
    assert cells[0].error is None
    assert cells[1].error == "out of memory: 3 GiB"
    assert main(["level=throughput", *SMALL[:2], "batch=3", *BRIEF]) == 2
    assert "no cell could be measured" in capsys.readouterr().err


def test_an_eighth_task_in_a_framework_without_instruments(capsys, monkeypatch):
    lend(monkeypatch)
    own = f"implementation={NUMPY}"
    for code in ("framework=numpy", own):
        (cell,) = look(capsys, "level=throughput", "task=parity", code, "scale=mini")
        assert cell.figures["samples/s"].value > 0
        assert cell.figures["MFU"].value is None
        assert "framework numpy has no instruments here" in cell.notes[0]


def test_nothing_is_measured_in_a_precision_that_the_code_does_not_train_in(capsys, monkeypatch, tmp_path):
    lend(monkeypatch)
    own = tmp_path / "ours.py"
    own.write_text(NUMPY.read_text() + 'PRECISIONS = ("fp32",)\n')
    words = ("level=throughput", "task=parity", "scale=mini", f"implementation={own}", *BRIEF)
    assert main([*words, "precision=fp32,bf16", "--json"]) == 0
    measured, refused = record.Probe.model_validate_json(capsys.readouterr().out).cells
    assert measured.error is None
    assert refused.error == "precision=bf16: ours trains in fp32"
    monkeypatch.setattr(systems, "precision_of", lambda *_: "bf16")
    said = "ours trains in fp32; bf16 is what hw=cpu takes here where precision= is left out"
    with pytest.raises(UserError, match=said):
        main([*words])


def test_code_of_ones_own_is_looked_at_by_the_instruments_of_what_it_imports(capsys, tmp_path):
    reference = ROOT / "reference_impls" / "image_classification" / "torch.py"
    text = reference.read_text().replace("Network(shape", "Mine(shape")
    (tmp_path / "ours.py").write_text(f"{text}\n\nclass Mine(Network):\n    pass\n")
    words = ["level=layers", "task=image_classification", "scale=mini", "precision=fp32", *BRIEF]
    assert main([*words, f"implementation={tmp_path / 'ours.py'}", f"out={tmp_path / 'kept'}"]) == 0
    kept = record.read(tmp_path / "kept")
    assert any(row.name == "Mine.blocks.1.conv2" for row in kept.cells[0].rows)
    assert kept.cells[0].conditions.described == "image_classification/mini by ours torch train fp32"
    assert kept.implementation.files.keys() == {"ours.py"}
    with pytest.raises(UserError, match="name its code again, implementation=PATH"):
        main([f"manifest={tmp_path / 'kept'}"])


def test_what_was_found_is_kept_and_read_back(capsys, tmp_path):
    out = tmp_path / "kept"
    assert main(["level=throughput", *SMALL, *BRIEF, f"out={out}"]) == 0
    shown = capsys.readouterr().out
    assert "samples/s" in shown
    kept = record.read(out)
    assert kept.cells[0].conditions.name == "squeezenet1_1"
    assert json.loads((out / record.FILE).read_text()) == kept.model_dump(mode="json")


def test_a_folder_with_something_in_it_is_refused_before_anything_is_measured(tmp_path):
    (tmp_path / record.FILE).touch()
    with pytest.raises(UserError, match="is not empty"):
        main(["level=throughput", *SMALL, *BRIEF, f"out={tmp_path}"])
    assert not (tmp_path / record.FILE).read_text()


def test_what_cannot_be_kept_after_all_is_shown_and_written_as_a_page(capsys, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise UserError("cannot write it: No space left on device")

    monkeypatch.setattr(record, "write", full)
    with pytest.raises(UserError, match="No space left"):
        main(["level=throughput", *SMALL, *BRIEF, f"out={tmp_path / 'kept'}", "--html", str(tmp_path / "page.html")])
    assert "samples/s" in capsys.readouterr().out
    assert "samples/s" in (tmp_path / "page.html").read_text()


def test_what_nobody_reads_to_its_end_is_kept(tmp_path, monkeypatch):
    def gone(*_: object) -> None:
        raise SystemExit(1)  # as rich does where the reader of a pipe has gone

    monkeypatch.setattr(showing, "show", gone)
    with pytest.raises(SystemExit):
        main(["level=throughput", *SMALL, *BRIEF, f"out={tmp_path / 'kept'}"])
    assert record.read(tmp_path / "kept").cells


def test_what_was_kept_is_in_mlflow_once(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "probes")
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "kept"
    assert main(["level=throughput", *SMALL[:2], "batch=2,3", *BRIEF[:2], f"out={out}"]) == 0
    assert sync([str(out)]) == 0
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("probes").experiment_id])
    kept = record.read(out)
    assert run.info.status == "FINISHED"
    assert run.data.tags["suite.probe"] == "throughput"
    assert run.data.params["batch"] == "2,3"
    for cell in kept.cells:
        name = f"samples_s/squeezenet1_1_torch_train_{cell.conditions.precision}_batch_{cell.conditions.batch}_size_32"
        assert run.data.metrics[name] == cell.figures["samples/s"].value
        assert run.data.metrics[f"{name}/low"] == cell.figures["samples/s"].low
    assert {each.path for each in client.list_artifacts(run.info.run_id, "probe")} == {
        "probe/probe.html", "probe/probe.json"
    }  # fmt: skip


def test_mlflow_that_cannot_be_reached_loses_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:secret@127.0.0.1:9")
    assert main(["level=throughput", *SMALL, *BRIEF[:2], f"out={tmp_path}"]) == 0
    said = capsys.readouterr().err
    assert "not in MLflow" in said
    assert f"python -m suite.sync {tmp_path}" in said
    assert "secret" not in said


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "suite.probe", "cells": 3}', "[" * 10**5])
def test_what_is_no_probe_is_refused(tmp_path, text):
    (tmp_path / record.FILE).write_text(text)
    with pytest.raises(UserError):
        record.read(tmp_path)


def test_a_manifest_that_cannot_be_made_again_is_refused(tmp_path):
    assert main(["level=flops", *SMALL, *BRIEF, f"out={tmp_path / 'kept'}"]) == 0
    path = tmp_path / "kept" / record.FILE
    kept = json.loads(path.read_text())
    for name, value in (("cells", []), ("repeats", 0), ("repeats", -5), ("seconds", 0), ("seconds", -1.0)):
        path.write_text(json.dumps(kept | {name: value}))
        with pytest.raises(UserError, match=f"{name} is") as raised:
            main([f"manifest={path}"])
        assert "\n" not in str(raised.value)


def test_the_published_schema_is_the_records(capsys):
    main(["--schema"])
    assert (ROOT / "docs" / "probe.schema.json").read_text() == capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["level=troughput", *SMALL], "did you mean 'throughput'"),
        (["level=throughput"], "Give task="),
        ([*SMALL], "which level?"),
        (["level=throughput", "task=translatoin"], "did you mean 'translation'"),
        (["level=throughput", "task=translation", "scale=large"], "unknown scale of translation 'large'"),
        (["level=throughput", "task=translation", "model=vgg11"], "one of the two"),
        (["level=throughput", "model=resnet5"], "did you mean 'resnet50'"),
        (["level=throughput", "model=resnet5", "framework=tensorflow"], "did you mean 'ResNet50'"),
        (["level=throughput", *SMALL, "framework=pytorch"], "unknown framework 'pytorch'"),
        (["level=throughput", *SMALL, "mode=test"], "unknown mode 'test'"),
        (["level=throughput", *SMALL, "precision=fp8"], "unknown precision 'fp8'"),
        (["level=throughput", "model=vgg11", "batch=0"], "batch=0 is not a whole number from 1"),
        (["level=throughput", "model=vgg11", "batch=1,,2"], "has an empty value"),
        (["level=throughput", *SMALL, "out="], "out= has no value: give one, or leave it out"),
        (["level=throughput", *SMALL, "--html", ""], "an empty word follows --html: give a value, or leave it out"),
        (["level=throughput", *SMALL, "seconds=-1"], "seconds=-1 is not a number above 0, in seconds"),
        (["level=throughput", *SMALL, "sise=3"], "did you mean 'size'"),
        (["level=throughput", *SMALL, "hw=h100"], "hw=h100 asks for"),
        (["throughput"], "is not of the form option=value"),
        (["level=throughput", "task=image_classification", "mode=infer", "batch=3"], "in batches of its own"),
        (["level=throughput", "task=image_classification", "size=3"], "size= is for model="),
        (["level=throughput", "task=translation", "scale=mini", "size=1"], "2 subwords at least"),
        (["level=precision", "task=recommendation", "scale=mini", "size=8", "precision=fp32"], "the size of its data"),
        (["level=throughput", "task=translation", "implementation=nowhere"], "no such folder or file"),
        (["level=throughput", "model=vgg11", "implementation=nowhere"], "give task= as well"),
        (["level=preprocessing", "task=speech", "from=\udcff"], "is not UTF-8: name it in plain letters"),
        (["level=throughput", *SMALL, "peak=\udcff"], "is not UTF-8: name it in plain letters"),
        (["level=trace", *SMALL, "trace=\udcff.json"], "is not UTF-8: name it in plain letters"),
        (["level=trace", *SMALL, "trace=trace.json.gz"], "the file is plain JSON: name it trace=trace.json"),
    ],
)
def test_a_mistake_is_one_line(words, said):
    refuses(main, words, said)


@pytest.mark.parametrize("optimize", ["", "2"])
def test_help_tells_what_each_level_shows(tmp_path, monkeypatch, optimize):
    """Optimized to the second degree, Python drops docstrings."""
    monkeypatch.setitem(ENVIRONMENT, "PYTHONOPTIMIZE", optimize)
    shown = run(tmp_path, "suite.probe", "--help").stdout
    assert len(names()) > 10
    for name, text in names().items():
        assert f"  {name:<21} {text}\n" in shown
