from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import pynvml
import pytest

import reference_impls
import tasks
from suite import config, doctor
from suite.config import folder
from suite.errors import UserError
from suite.forecast.workers import ring
from suite.harness.implementation import frameworks
from suite.harness.workers import starting
from suite.harness.workers.channel import free_port
from suite.harness.workers.place import Place
from suite.measure import machine
from suite.measure.accelerators import amd, nvidia
from suite.probe.instruments import torch_all_reduce
from suite.probe.instruments.torch_all_reduce import AllReduce
from suite.store import files
from tests import distributions
from tests.command import run
from tests.eighth_task import HERE
from tests.measure import fakes

UNUSABLE = doctor._unusable


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_unusable", lambda _: iter(()))  # it imports every framework, for seconds
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("SUITE_DATA", raising=False)
    fakes.install(monkeypatch)


def test_names_the_machine_every_benchmark_and_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    distributions.install(tmp_path, "time-to-accuracy", torch=["a-torch"], translation=["a-bleu"])
    assert doctor.main([f"data_dir={tmp_path / 'none'}"]) == 0
    shown = capsys.readouterr().out
    assert "hw=cpu" in shown
    assert "accelerators        none" in shown
    assert re.search(
        r"^translation in TensorFlow: a-bleu +pip install .* '\.\[tensorflow,translation\]' *$", shown, re.M
    )
    assert re.search(
        r"^translation in PyTorch: a-torch and a-bleu +pip install .* '\.\[torch,translation\]' *$", shown, re.M
    )
    assert re.search(r"^translation/mini .* embedded +missing +missing$", shown, re.M)
    for task in config.names("task"):
        for scale in config.scales(task):
            assert f"{task}/{scale}" in shown
            fetch = f"python -m suite.data fetch {task}/{scale}"
            assert (fetch in shown) == bool(config.benchmark(task, scale).dataset.members)
            if task != "translation":
                tensorflow = "installed" if "tensorflow" in frameworks(task) else "not written"
                assert re.search(rf"^{task}/{scale} .* {tensorflow} +missing$", shown, re.M)
    assert "\x1b" not in shown


def test_a_disk_too_small_for_data_and_what_it_is_made_from_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = config.benchmark("translation", "full").dataset
    assert dataset.bytes < 1_000_000_000 < dataset.source_files.bytes
    monkeypatch.setattr(files, "free_bytes", lambda _: 1_000_000_000)
    assert doctor.main([f"data_dir={tmp_path}"]) == 0
    assert re.search(r" translation/full data_dir=\S+, with \d\.\d GB free on its disk", capsys.readouterr().out)


def test_a_task_is_not_installed_in_a_framework_in_which_it_is_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in which none is written, as JAX, has no column."""
    for conf in (folder.CONF, HERE / "conf"):
        shutil.copytree(conf, tmp_path / "conf", dirs_exist_ok=True)
    monkeypatch.setattr(folder, "CONF", tmp_path / "conf")
    for package in (tasks, reference_impls):
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(HERE / package.__name__)])
    assert doctor.main([]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^benchmark +what +data +ghost +numpy +tensorflow +torch *$", shown, re.M)
    assert re.search(r"^speech/mini .* embedded +not written +not written +installed +installed *$", shown, re.M)
    assert "JSON" not in shown


def test_names_accelerators_and_their_counters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.install(monkeypatch, fakes.Device("NVIDIA H200", "GPU-a"), fakes.Device("NVIDIA H200", "GPU-b"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert doctor.main([]) == 0
    shown = capsys.readouterr().out
    assert "1 x NVIDIA H200, 80 GB; 1 hidden by CUDA_VISIBLE_DEVICES or its like" in shown
    assert "hw=h200:" in shown
    assert "accelerators (nvml)" in shown
    assert "NVIDIA driver 570.1, CUDA 12.8" in shown


def test_a_driver_whose_nvml_does_not_answer_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia, "DRIVER", (tmp_path / "none", tmp_path))
    assert doctor.main([]) == 0
    assert "NVML" not in capsys.readouterr().out
    monkeypatch.setattr(pynvml, "nvmlInit", fakes.failing(pynvml.NVML_ERROR_DRIVER_NOT_LOADED))
    assert doctor.main([]) == 0
    assert re.search(
        r"^NVML, .*: Driver Not Loaded +after .* reboot; in a container .*$", capsys.readouterr().out, re.M
    )


def test_counters_and_accelerators_that_cannot_be_read_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for zone in ("intel-rapl:0", "intel-rapl:0:0"):
        (tmp_path / zone).mkdir()
        counter = tmp_path / zone / "energy_uj"
        counter.touch()
    monkeypatch.setattr(doctor, "RAPL", tmp_path)
    monkeypatch.setattr(amd, "KFD", counter)
    monkeypatch.setattr(amd, "answers", lambda: False)
    monkeypatch.setattr(doctor.Counters, "joules", lambda _: (None, None, None))
    monkeypatch.setattr(doctor.os, "access", lambda path, _: path != counter)
    monkeypatch.setattr(doctor, "_forecasts", lambda _: iter(()))  # for seconds
    assert doctor.main([]) == 0
    shown = capsys.readouterr().out
    for what in ("none: energy is estimated", "AMD SMI, which finds", "leave to read the CPU's energy counters"):
        assert what in shown


def test_a_missing_compiler_is_named_where_there_is_an_accelerator(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert doctor.main([]) == 0
    assert "compiler" not in capsys.readouterr().out
    fakes.install(monkeypatch, fakes.Device("NVIDIA H200", "GPU-a"))
    assert doctor.main([]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^PyTorch's compiler .* CC=no-such-compiler is none: apt-get install gcc *$", shown, re.M)
    assert "TensorFlow's compiler" not in shown


def test_two_frameworks_whose_libraries_lie_in_the_same_files_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.install(monkeypatch, fakes.Device("NVIDIA H200", "GPU-a"))
    for names in ({"nvidia-cudnn-cu13"}, {"nvidia-cudnn-cu12", "nvidia-cudnn-cu13"}):
        monkeypatch.setattr(doctor, "versions", lambda names=names: dict.fromkeys(names, "9.1"))
        assert doctor.main([]) == 0
        assert ("an environment each" in capsys.readouterr().out) == (len(names) == 2)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("data=x", r"unknown option 'data'.*data_dir"),
        ("data_dir=", r"^data_dir= has no value: give one, or leave it out$"),
        ("", r"^an empty word names nothing"),
    ],
)
def test_a_mistake_is_one_line(word: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        doctor.main([word])


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["--help"]) == 0
    assert "data_dir=FOLDER" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ImportError('libtorch.so: cannot open')", "ImportError: libtorch.so: cannot open"),
        ("import os\nos.kill(os.getpid(), 4)", "ended by signal 4"),  # SIGILL, of an older processor
    ],
)
def test_a_framework_that_cannot_be_imported_is_named(tmp_path, monkeypatch, capsys, code, said):
    monkeypatch.setattr(doctor, "_unusable", UNUSABLE)
    (tmp_path / "torch.py").write_text(code)
    (tmp_path / "tensorflow.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert doctor.main([]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "cannot be imported" in line]
    assert f"PyTorch, which is installed and cannot be imported: {said} " in line
    assert line.rstrip().endswith("pip install -c constraints.txt -e '.[torch]' --force-reinstall")


def test_a_framework_is_not_taken_from_the_current_folder(tmp_path, monkeypatch):
    for folder_of, code in (("installed", ""), ("here", "raise ImportError('a stranger')")):
        (tmp_path / folder_of).mkdir()
        for name in ("torch", "tensorflow"):
            (tmp_path / folder_of / f"{name}.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "installed"))
    monkeypatch.chdir(tmp_path / "here")
    assert list(UNUSABLE(machine.detect())) == []


def test_a_framework_that_sees_no_accelerator_is_named_where_there_is_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(doctor, "_unusable", UNUSABLE)
    fakes.install(monkeypatch, fakes.Device("NVIDIA H200", "GPU-a"))
    (tmp_path / "torch.py").write_text("class accelerator:\n    device_count = staticmethod(lambda: 1)")
    (tmp_path / "tensorflow.py").write_text("class config:\n    list_physical_devices = staticmethod(lambda _: [])")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert doctor.main([]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^TensorFlow that sees this machine's accelerators +docs/adding-a-machine.md *$", shown, re.M)
    assert "PyTorch that sees" not in shown


@pytest.mark.slow
def test_measures_how_fast_workers_sum(tmp_path):
    done = run(tmp_path, "suite.doctor", "workers=2")
    assert done.returncode == 0, done.stderr
    _, _, table = done.stdout.partition("All-reduce, 2 workers")
    rows = [line.split() for line in table.splitlines()[2:8]]
    assert [row[0] for row in rows] == ["64", "1,024", "16,384", "262,144", "4,194,304", "67,108,864"]
    assert all(float(row[1].replace(",", "")) > 0 and float(row[2]) > 0 for row in rows)


def test_names_the_link_as_forecasts_take_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(*_: object) -> Iterator[AllReduce]:
        for nbytes in torch_all_reduce.SIZES:
            seconds = ring(3, nbytes, 20e-6, 2e9)
            yield AllReduce(nbytes, seconds, 2 * 2 / 3 * nbytes / seconds)

    monkeypatch.setattr(torch_all_reduce, "measured", measured)
    monkeypatch.setattr(starting, "started", lambda *_: nullcontext((Place(world_size=3), [])))
    assert doctor.main(["workers=3"]) == 0
    assert "hw.link_gb_per_s=2 hw.link_latency_us=20.0\n" in capsys.readouterr().out


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="there is no IPv6")
def test_workers_that_sum_meet_at_an_address_of_ipv6() -> None:
    found = [each.nbytes for each in torch_all_reduce.measured(Place(host="::1"), free_port(), "cpu")]
    assert found == list(torch_all_reduce.SIZES)


@pytest.mark.parametrize("workers", ["0", "two", "-1", "1.5"])
def test_a_number_of_workers_that_is_none_is_one_line(tmp_path, workers):
    done = run(tmp_path, "suite.doctor", f"workers={workers}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: workers={workers} is not a whole number from 1 to 1,024\n"


def test_workers_need_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "torch" else find_spec(name))
    with pytest.raises(UserError, match="workers= sums with PyTorch, which is not installed: pip install"):
        doctor.main(["workers=2"])


def test_workers_are_no_more_than_accelerators(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch, fakes.Device("NVIDIA L4", "GPU-a"))
    with pytest.raises(UserError, match="workers=2: each takes an accelerator, of which this machine has 1"):
        doctor.main(["workers=2"])


def test_what_is_missing_is_brought_to_where_it_was_looked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "the data"
    assert doctor.main([f"data_dir={place}"]) == 0
    assert f"python -m suite.data fetch speech/small data_dir='{place}'" in capsys.readouterr().out
