"""The process in which a stranger's code runs: what it cannot do, and what is said of one that fails."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import sysconfig
from contextlib import suppress

import numpy as np
import psutil
import pytest

from suite.audit import process, replaying
from suite.audit.process import Failed, Process
from suite.harness.implementation import TrainStats
from suite.record.environment import STARTED
from tests.audit.conftest import needs_isolation
from tests.waiting import FOREVER_S

BUILD = {
    "task": "image_classification",
    "framework": "numpy",
    "scale": "mini",
    "hyperparameters": {},
    "seed": 1,
    "kind": "cpu",
    "precision": "fp32",
}
MODULE = """
import json, os, socket, subprocess, sys, time
from pathlib import Path
import numpy as np
from suite.harness.implementation import TrainStats

ACCELERATORS = 1

class Made:
    def train_until(self, samples):
        {train}
        return TrainStats(samples, 0.5)
    def predict(self, data):
        return [0]
    def state_dict(self):
        return {{"a": np.zeros(2)}}
    def load_state_dict(self, state):
        pass

def build(hyperparameters, data, seed, device):
    return Made()
"""


@pytest.fixture
def worker(tmp_path):
    """A worker whose implementation does `train` where it is to train."""
    made = []

    def start(train="pass", limit_s=120.0, hidden=()):
        code = tmp_path / "code"
        (code / "reference_impls/image_classification").mkdir(parents=True)
        for folder in ("reference_impls", "reference_impls/image_classification"):
            (code / folder / "__init__.py").touch()
        (code / "reference_impls/image_classification/numpy.py").write_text(MODULE.format(train=train))
        made.append(Process(code, tmp_path, limit_s, hidden))
        training = made[0].given / "training"
        training.mkdir()
        np.save(training / "train_images.npy", np.zeros(3))
        made[0].ask("build", **BUILD, training=str(training))
        return made[0]

    yield start
    for each in made:
        with suppress(ProcessLookupError):
            os.killpg(each._process.pid, signal.SIGKILL)  # one that sleeps would be waited for
        each.__exit__(None, None, None)


@needs_isolation
def test_a_worker_trains_and_saves(worker):
    started = worker("print('noise')")
    assert started.ask("train", to=7)["samples"] == 7
    assert replaying.saved(started)["a"].tolist() == [0, 0]
    replaying.load(started, {"a": np.ones(2)})


KILLED = """
import os, signal, sys
from pathlib import Path
from suite.audit.process import Process
code, place, training = map(Path, sys.argv[1:])
process = Process(code, place, 60.0, ())
process.ask("build", **{build}, training=str(training))
print(process._process.pid, flush=True)
process.ask("train", to=7)
"""


@needs_isolation
def test_a_stranger_s_code_ends_with_its_auditor(worker, tmp_path):
    made = worker("time.sleep(3600)")
    made.__exit__(None, None, None)
    program = KILLED.format(build=BUILD)
    (tmp_path / "place").mkdir()
    words = [sys.executable, "-c", program, *(str(tmp_path / name) for name in ("code", "place", "given/training"))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as auditor:
        started = psutil.Process(int(auditor.stdout.readline()))
        family = [started, *started.children(recursive=True)]
        auditor.kill()
    _, alive = psutil.wait_procs(family, timeout=FOREVER_S)
    assert alive == []


@needs_isolation
def test_it_has_no_network_and_no_environment_and_writes_to_its_folder_only(worker, tmp_path, monkeypatch):
    monkeypatch.setenv("A_SECRET", "of the auditor")
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence/answers").write_text("1")
    unix = socket.AF_UNIX
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(unix) as service,
        socket.socket(unix) as hidden,
    ):
        port = server.getsockname()[1]
        hidden.bind(str(tmp_path / "evidence/socket"))
        service.bind(str(tmp_path / "socket"))
        service.listen()
        train = f"""
        found = {{"secret": "A_SECRET" in os.environ, "hidden": os.listdir({str(tmp_path / "evidence")!r})}}
        found["others"] = len([each for each in os.listdir("/proc") if each.isdigit()])
        try:
            socket.create_connection(("127.0.0.1", {port}), 5); found["network"] = True
        except OSError:
            found["network"] = False
        try:
            socket.socket(socket.AF_UNIX).connect({str(tmp_path / "socket")!r}); found["service"] = True
        except OSError:
            found["service"] = False
        found["wrote"] = []
        for place in {[str(tmp_path / "outside"), str(tmp_path / "given/state.npz.part")]!r}:
            try:
                Path(place).symlink_to("/dev/zero"); found["wrote"].append(place)
            except OSError:
                pass
        found["mounts"] = subprocess.run(["mount", "-o", "remount,rw", "/"], capture_output=True).returncode
        Path("found.json").write_text(json.dumps(found))
        """
        worker(train, hidden=(tmp_path / "evidence",)).ask("train", to=1)
    found = json.loads((tmp_path / "scratch/found.json").read_text())
    assert found.pop("others") < 5
    assert found.pop("mounts") != 0
    assert found == {"secret": False, "hidden": [], "network": False, "service": False, "wrote": []}
    assert not (tmp_path / "outside").exists()


def test_it_finds_the_tools_of_the_environment_and_the_compiler_that_is_named(worker, tmp_path, monkeypatch):
    monkeypatch.setitem(STARTED, "CC", "a-compiler")
    told = "os.environ['PATH'].split(os.pathsep)[0], os.environ['CC']"
    worker(f"Path('found.json').write_text(json.dumps([{told}]))", hidden=None).ask("train", to=1)
    found = json.loads((tmp_path / "scratch/found.json").read_text())
    assert found == [sysconfig.get_path("scripts"), "a-compiler"]


def test_it_is_not_told_the_auditor_s_folders_for_compiled_code_which_it_cannot_write(worker, tmp_path, monkeypatch):
    for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setitem(STARTED, name, str(tmp_path))
    kept = "[name for name in os.environ if name.startswith(('TRITON_', 'TORCH', 'CUDA_'))]"
    worker(f"Path('found.json').write_text(json.dumps({kept}))", hidden=None).ask("train", to=1)
    assert json.loads((tmp_path / "scratch/found.json").read_text()) == ["CUDA_VISIBLE_DEVICES"]


def test_it_finds_packages_that_are_installed_elsewhere_and_no_other_modules(worker, tmp_path, monkeypatch):
    for folder, module in (("module/site-packages", "installed"), ("working", "lying_about")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / f"{module}.py").touch()
        monkeypatch.syspath_prepend(tmp_path / folder)
    with pytest.raises(Failed, match="train: ModuleNotFoundError: No module named 'lying_about'"):
        worker("import installed, lying_about", hidden=None).ask("train", to=1)


@needs_isolation
@pytest.mark.parametrize("made", [os.mkfifo, lambda path: os.symlink("/dev/zero", path), os.mkdir])
def test_what_is_no_plain_file_is_no_state_and_is_not_waited_for(worker, monkeypatch, made):
    started = worker()
    made(started.scratch / "state.npz")
    monkeypatch.setattr(started, "ask", lambda *job, **values: {})  # as if it had just been written
    with pytest.raises(Failed, match="save: is "):
        replaying.saved(started)


@needs_isolation
def test_what_it_said_is_read_within_bounds_whatever_it_made_of_the_file(worker):
    train = """
        print("a long story", "x" * 100_000, "its end", file=sys.stderr, flush=True)
        os.replace("stderr.txt", "elsewhere"); os.symlink("/dev/zero", "stderr.txt"); os._exit(3)
        """
    with pytest.raises(Failed, match=r"train: it ended .*xxx"):
        worker(train).ask("train", to=1)


@needs_isolation
@pytest.mark.parametrize(
    ("train", "said"),
    [
        ("raise ValueError('no such data')", "train: ValueError: no such data"),
        ("os._exit(3)", "train: it ended"),
        ("time.sleep(600)", "train: no answer within 3 s"),
        ("samples = 'x'", "train: BrokenContract"),
        ("raise ValueError('\\x1b[31m' + 'x' * 10000)", "train: ValueError: \\\\x1b"),
    ],
)
def test_what_does_not_train_is_told(worker, train, said):
    started = worker(train)
    if "sleep" in train:
        started.limit_s = 3.0
    with pytest.raises(Failed, match=said) as raised:
        started.ask("train", to=1)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(("most", "raised"), [(1 << 60, OSError), (0, Failed)])
def test_a_state_without_room_is_no_fault_of_the_code_but_on_a_disk_that_has_room(worker, monkeypatch, most, raised):
    started = worker("os.symlink('/dev/full', 'state.npz.part')", hidden=None)
    started.ask("train", to=1)
    monkeypatch.setattr(process, "MAX_FILE", most)
    with pytest.raises(raised, match="No space left on device"):
        replaying.saved(started)


def test_an_answer_that_comes_too_late_is_none_to_the_next_job(worker):
    started = worker("time.sleep(2)", hidden=None)
    started.limit_s = 0.1
    with pytest.raises(Failed, match="train: no answer"):
        started.ask("train", to=1)
    started.limit_s = 20
    with pytest.raises(Failed, match="state: it ended"):
        started.ask("state")


def test_one_that_lives_on_without_its_output_is_not_waited_for(worker, monkeypatch):
    monkeypatch.setattr(process, "GRACE_S", 0.5)
    started = worker("os.closerange(3, 64); time.sleep(600)", hidden=None)
    with pytest.raises(Failed, match="train: it closed its output"):
        started.ask("train", to=1)


def test_an_answer_of_its_own_is_no_count(worker):
    train = """
        for descriptor in range(3, 64):
            try:
                os.write(descriptor, b'{"seconds": 0}\\n')
            except OSError:
                pass
        time.sleep(600)
        """
    with pytest.raises(Failed, match="train: an answer without a count of samples"):
        replaying.train(worker(train, hidden=None), 1)


def test_the_time_is_by_the_auditor_s_clock(worker):
    started = worker("time.sleep(1); time.monotonic = lambda: 0.0", hidden=None)
    before = started.asked_s
    replaying.train(started, 1)
    assert started.asked_s > before + 1


def test_a_loss_that_is_not_finite_is_none_as_in_the_log(worker):
    stats = replaying.train(worker("return TrainStats(samples, float('inf'))", hidden=None), 1)
    assert stats == TrainStats(1, None)


@pytest.mark.parametrize(("already", "most"), [(1 << 20, 1 << 20), (resource.RLIM_INFINITY, process.MAX_FILE)])
def test_a_bound_that_is_lower_already_stays(monkeypatch, already, most):
    found = {}
    monkeypatch.setattr(resource, "getrlimit", lambda what: (already, already))
    monkeypatch.setattr(resource, "setrlimit", found.__setitem__)
    process._bounds()
    assert found == {resource.RLIMIT_FSIZE: (most, most), resource.RLIMIT_CORE: (0, 0)}


@needs_isolation
def test_memory_is_bounded(worker, monkeypatch):
    started = worker("time.sleep(600)")
    monkeypatch.setattr(process, "MEMORY_SHARE", 1e-9)
    with pytest.raises(Failed, match="of the memory"):
        started.ask("train", to=1)


@needs_isolation
def test_memory_that_processes_share_counts_once(worker):
    train = """
        import mmap
        shared = mmap.mmap(-1, 64 << 20)
        for _ in range(3):
            ready, said = os.pipe()
            if not os.fork():
                shared[::4096] = bytes(len(shared) // 4096); os.write(said, b"."); time.sleep(600)
            os.read(ready, 1)
        """
    started = worker(train)
    before = started._memory()
    started.ask("train", to=1)
    assert 64 << 20 <= started._memory() - before < 100 << 20


def test_no_process_is_left(worker):
    started = worker("time.sleep(600)", hidden=None)
    pid = started._process.pid
    started.__exit__(None, None, None)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
