"""What a run says and records where code of one's own does what the suite does not expect of it."""

import re
import signal

import pytest

from suite.harness import contract
from tests.command import eighth, run
from tests.eighth_task import NUMPY
from tests.parity_runs import lines, refused, rules_broken

RUN = ("task=parity", "hw=cpu", "mlflow=false", "seed=1", "implementation=ours", "out=out")


def ours(folder, function, *statements):
    """An implementation of parity in the folder `ours` whose `function` begins with these statements."""
    (folder / "ours").mkdir()
    before, name, after = re.split(rf"( *def {function}\(.*\):\n)", NUMPY.read_text())
    indent = " " * (len(name) - len(name.lstrip()) + 4)
    body = "".join(f"{indent}{statement}\n" for statement in statements)
    (folder / "ours/__init__.py").write_text(before + name + body + after)
    return folder / "ours"


def test_code_that_exits_is_told_and_needs_a_new_run(tmp_path):
    """Mended code is other code, with which a run does not go on."""
    ours(tmp_path, "train_until", "import sys; sys.exit()")
    said = refused(tmp_path, *RUN)
    assert "error: train_until of implementation_ours called sys.exit(None) at ours/__init__.py:22. The contra" in said
    assert said.endswith(" Mend that, and begin a new run\n")


@pytest.mark.parametrize("function", ["build", "train_until", "predict"])
def test_a_file_that_its_code_does_not_find_is_no_trouble_with_the_evidence(function, tmp_path):
    own = ours(tmp_path, function, "open('nope.bin')")
    line = 1 + [each.strip() for each in (own / "__init__.py").read_text().split("\n")].index("open('nope.bin')")
    assert refused(tmp_path, *RUN) == (
        f"error: {function} of implementation_ours raised FileNotFoundError at ours/__init__.py:{line}: [Errno 2] No "
        f"such file or directory: 'nope.bin'; mend that, then go on with resume=out implementation={own} mlflow=false, "
        "or with other code begin a new run\n"
    )
    (tmp_path / "nope.bin").touch()
    done = eighth(tmp_path, "run", "resume=out", f"implementation={own}", "mlflow=false")
    assert done.returncode == 0, done.stderr


def test_a_process_that_its_code_forks_does_not_go_on_with_the_run(tmp_path):
    ours(tmp_path, "predict", "import os; child = os.fork(); child and os.waitpid(child, 0)")
    done = run(tmp_path, "tests.eighth_task", "run", *RUN)
    assert done.returncode == 0, done.stderr
    assert "error: predict of implementation_ours forked, and the new process came back from it" in done.stderr
    assert rules_broken(tmp_path, "out") == set()


@pytest.mark.parametrize("function", ["build", "train_until", "predict", "state_dict"])
def test_what_its_code_raises_ends_with_its_line_and_how_to_go_on(function, tmp_path):
    own = ours(tmp_path, function, "raise ValueError('no such kernel')")
    done = run(tmp_path, "tests.eighth_task", "run", *RUN)
    assert done.returncode == 1
    raised = "    raise ValueError('no such kernel')\nValueError: no such kernel\n"
    mend = (
        f"mend that, then go on with resume=out implementation={own} mlflow=false, or with other code begin a new run\n"
    )
    assert done.stderr.endswith(f"{raised}{mend}")


def test_compiled_code_that_crashes_leaves_a_trace_and_its_evidence(tmp_path):
    own = ours(tmp_path, "train_until", "import ctypes", "ctypes.string_at(0)")
    done = run(tmp_path, "tests.eighth_task", "run", *RUN)
    assert done.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert f'File "{own}/__init__.py", line' in done.stderr
    assert "run_start" in (tmp_path / "out/log.txt").read_text()


def test_code_that_leaves_the_folder_takes_no_evidence_with_it(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    ours(tmp_path, "build", "os.chdir('elsewhere')")
    done = eighth(tmp_path, "run", *RUN, "runs=2")
    assert done.returncode == 0, done.stderr
    assert "verdict   pass" in done.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"run_1", "run_2"}
    assert not list((tmp_path / "elsewhere").iterdir())


def test_code_that_changes_its_hyperparameters_changes_no_record(tmp_path):
    ours(tmp_path, "build", "hyperparameters['opt_base_learning_rate'] = 0.1", "hyperparameters['extra'] = 1")
    done = eighth(tmp_path, "run", *RUN, "runs=2")
    assert done.returncode == 0, done.stderr
    logged = [{line.key: line.value for line in lines(tmp_path / f"out/run_{run}")} for run in (1, 2)]
    assert [(each["opt_base_learning_rate"], "extra" in each) for each in logged] == [(0.05, False)] * 2
    assert rules_broken(tmp_path, "out") == set()


@pytest.mark.parametrize(
    ("words", "uri", "told", "mend"),
    [
        (["mlflow=false", "out=out"], "", "out", "another out="),
        (["out=../out"], "", "{own}/mlflow.db", "mlflow=false"),
        (["out=../out"], "sqlite:///../a.db", "mlruns", "mlflow=false"),
        (["out=../out"], "postgresql://me@127.0.0.1:1/db", "mlruns", "mlflow=false"),
        (["out=../out"], "file:my%20store", "my store", "mlflow=false"),
    ],
)
def test_what_the_suite_would_write_beside_its_code_is_refused(tmp_path, monkeypatch, words, uri, told, mend):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    own = ours(tmp_path, "build")
    assert refused(own, "task=parity", "hw=cpu", "implementation=.", *words) == (
        f"error: {told.format(own=own)} would be written into implementation={own}, whose files may not change: start "
        f"it from another folder, or give {mend}\n"
    )
    assert {path.name for path in own.iterdir()} <= {"__init__.py", "__pycache__"}


def test_data_is_brought_to_no_folder_beside_its_code(tmp_path):
    (tmp_path / "__init__.py").write_text('import torch\n\nACCELERATORS = 1\nPRECISIONS = ("fp32",)\nbuild = print\n')
    words = ("task=translation", "scale=small", "hw=cpu", "precision=fp32", "mlflow=false", "out=../out")
    assert refused(tmp_path, *words, "implementation=.", "data_dir=data") == (
        f"error: {tmp_path}/data would be written into implementation={tmp_path}, whose files may not change: start it "
        "from another folder, or give another data_dir=\n"
    )


def test_what_its_code_writes_beside_itself_is_named_though_it_is_no_code(tmp_path):
    write = "here.with_name('weights.npy').write_bytes(b'\\xff'); here.with_name('more').symlink_to('/etc')"
    ours(tmp_path, "build", "from pathlib import Path; here = Path(__file__)", write)
    done = eighth(tmp_path, "run", *RUN)
    assert done.returncode == 0, done.stderr
    (after,) = [line for line in lines(tmp_path / "out") if line.key == "suite_implementation_after"]
    assert after.metadata["changed"] == ["more", "weights.npy"]
    assert rules_broken(tmp_path, "out") == {"implementation.3"}


@pytest.mark.parametrize(("more", "words"), [("", []), ("import torch\n", ["framework=numpy"])])
def test_what_is_to_be_typed_to_go_on_names_the_code(tmp_path, monkeypatch, more, words):
    own = ours(tmp_path, "build")
    (own / "unused.py").write_text(more)

    def build(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(contract, "build", build)
        ended = eighth(tmp_path, "run", *RUN, *words)
    command = " ".join([f"resume=out implementation={own} mlflow=false", *words])
    assert ended.stdout.endswith(f"go on     python -m suite.run {command}\n")
    done = eighth(tmp_path, "run", *command.split())
    assert done.returncode == 0, done.stderr
