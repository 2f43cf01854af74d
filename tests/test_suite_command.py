"""The console script `suite`, as pip writes it: every command, and nothing of the current folder."""

import getpass
import io
import os
import resource
import shlex
import subprocess
import sys
import tomllib

import pytest
from rich.console import Console

from suite.__main__ import commands, main
from suite.config import names
from suite.errors import OPEN_FILES, UserError, command
from tests.command import ENVIRONMENT, PROJECT, run

ENTRIES = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["scripts"]


@pytest.mark.parametrize("streams", ["2>/dev/full", "2>&-", "<&- >&- 2>&-"])
def test_a_mistake_that_cannot_be_printed_keeps_its_exit_code_and_every_stream_is_one(streams):
    code = """
import sys
from suite.errors import UserError, command

def mistaken(argv):
    print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty())
    raise UserError("ä")

command(mistaken)
"""
    call = shlex.join([sys.executable, "-c", code])
    done = subprocess.run(["sh", "-c", f"exec {call} {streams}"], env={**ENVIRONMENT, "LC_ALL": "C"}, timeout=60)
    assert done.returncode == 2


@pytest.fixture
def script(tmp_path):
    """Run the script, which lies in a folder of its own, in the given folder."""
    module, _, function = ENTRIES["suite"].partition(":")
    path = tmp_path / "bin" / "suite"
    path.parent.mkdir()
    path.write_text(f"from {module} import {function}\nif __name__ == '__main__':\n    {function}()\n")

    def run(folder, *words):
        call = [sys.executable, str(path), *words]
        return subprocess.run(call, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)

    return run


def test_a_module_of_the_current_folder_is_not_taken(script, tmp_path):
    stranger = tmp_path / "package"
    for name in ("suite", "tasks", "mlperf_logging"):
        (stranger / name).mkdir(parents=True)
        (stranger / name / "__init__.py").write_text("print('PASS'); raise SystemExit(0)")
    (stranger / "suite" / "review.py").write_text("print('PASS')")
    done = script(stranger, "review", ".")
    assert (done.returncode, done.stdout) == (2, "")
    assert "holds no evidence" in done.stderr


def test_nor_does_a_process_that_it_starts_take_one(script, tmp_path):
    (tmp_path / "pickle.py").write_text("raise SystemExit")  # multiprocessing imports it
    words = ("task=speech", "scale=small", "hw=h100", "data_dir=none", "dry_run=true")
    assert "memory     not known: it takes the data" in script(tmp_path, "run", *words).stdout


def test_code_of_ones_own_is_taken_from_there_all_the_same(script, tmp_path):
    code = "import numpy\nACCELERATORS = 2\ndef build(*given): ...\nraise ValueError('it is here')\n"
    (tmp_path / "ours.py").write_text(code)
    words = ("task=recommendation", "scale=mini", "hw=cpu", "implementation=ours.py")
    assert "ours.py:4: ValueError: it is here" in script(tmp_path, "run", *words).stderr


def test_ctrl_c_while_a_command_imports_ends_it_without_a_word(tmp_path):
    """And another error of an import shows where it was."""
    ended = {"os.kill(os.getpid(), 2)": (-2, ""), "raise ValueError('broken')": (1, "ValueError: broken")}
    for code, (number, last) in ended.items():
        (tmp_path / "numpy.py").write_text(f"import os\n{code}\n")
        done = run(tmp_path, "suite.data", "path", "image_classification/mini")
        assert (done.returncode, "".join(done.stderr.splitlines()[-1:])) == (number, last)


def test_lists_every_command_with_what_it_is_for(capsys):
    listed = {"run", "review", "results", "compare", "submit", "check", "data", "doctor", "rcp", "sync"}
    assert commands().keys() >= listed
    for words in ([], ["--help"]):
        assert main(words) == 0
        said = capsys.readouterr().out
        for name, (_, text) in commands().items():
            assert text
            assert f"  {name} " in said
            assert text in said


def test_no_command_or_task_begins_with_what_only_some_of_its_uses_need():
    """Frameworks, and what is for accelerators, witnesses and downloads, would take more time than all the others."""
    later = ["torch", "tensorflow", "scipy.signal", "scipy.stats", "mlflow", "zeus.device", "requests", "cryptography"]
    modules = [module for module, _ in commands().values()]
    program = f"""if True:
        import sys, {", ".join(modules)}
        from suite.store.task import load_task
        for task in {names("task")}:
            load_task(task)
        print([name for name in {later} if name in sys.modules])
        """
    done = subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.parametrize("name", ["review", "audit"])
def test_a_command_that_takes_one_folder_says_so(name, script, tmp_path):
    said = script(tmp_path, name, "--help").stdout
    assert "PATH [OPTION=VALUE ...]\n" in said
    assert "[PATH ...]" not in said
    two = script(tmp_path, name, "here", "data_dir=there", "elsewhere")
    assert (two.returncode, two.stderr) == (2, f"error: 2 folders given: name one. See suite {name} --help.\n")


def test_passes_words_and_exit_code_on(script, tmp_path):
    done = script(tmp_path, "data", "path", "image_classification/mini")
    assert (done.returncode, done.stdout) == (0, "")
    done = script(tmp_path, "submit", "verify=nowhere")
    assert (done.returncode, done.stderr) == (2, "error: verify=nowhere: no such folder\n")


def test_a_wrong_name_is_one_line():
    with pytest.raises(UserError, match="unknown command 'reviw': did you mean 'review'"):
        main(["reviw", "."])


def test_what_the_terminal_cannot_write_is_escaped(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", write_through=True))
    with pytest.raises(SystemExit, match="0"):
        command(lambda words: print("Müller AG") or 0)
    assert written.getvalue() == b"M\\xfcller AG\n"


def test_want_of_memory_is_one_line_except_in_an_author_s_code(capsys):
    """Python's own error says nothing; a run adds to an author's how to go on."""

    def lacking(*notes):
        error = MemoryError()
        for each in notes:
            error.add_note(each)
        raise error

    with pytest.raises(SystemExit, match="2"):
        command(lambda words: lacking())
    assert capsys.readouterr().err == "error: the memory is not enough\n"
    with pytest.raises(MemoryError):
        command(lambda words: lacking("go on with resume=run"))


def test_more_files_may_be_open_than_is_usual():
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, usual[1]))
        with pytest.raises(SystemExit, match="0"):
            command(lambda words: 0)
        assert 256 < resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= OPEN_FILES
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)


def test_a_user_without_a_name_has_one(monkeypatch):
    """As in a container that runs as a number; frameworks ask for it."""

    def nobody():
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(getpass, "getuser", nobody)
    monkeypatch.setenv("USER", "")  # so that what is set meanwhile is undone
    monkeypatch.delenv("USER")
    with pytest.raises(SystemExit, match="0"):
        command(lambda words: 0)
    assert os.environ["USER"] == f"uid{os.getuid()}"


def test_something_is_shown_on_a_terminal_of_no_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "0")
    with pytest.raises(SystemExit, match="0"):
        command(lambda words: Console().print("PASS") or 0)
    assert capsys.readouterr().out == "PASS\n"
