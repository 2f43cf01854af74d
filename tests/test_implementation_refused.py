"""`implementation=PATH` of what the suite cannot train, know or keep: one line that says why, and no evidence."""

import shutil

import pytest

from tests.eighth_task import NUMPY
from tests.parity_runs import refused

RUN = ("task=parity", "hw=cpu", "mlflow=false", "seed=1")


def having(name, text):
    """A folder with one more file."""
    return lambda ours: (ours / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def entry(text):
    return having("__init__.py", text)


def renamed(to):
    return lambda ours: ours.rename(ours.with_name(to))


REFUSED = {
    "no build": (entry("ACCELERATORS = 1\n"), "no file of it holds a function build. The contract: build("),
    "two builds": (
        lambda ours: [(ours / "__init__.py").rename(ours / "a.py"), shutil.copy(ours / "a.py", ours / "b.py")],
        "a.py and b.py hold a build: import the one that trains in __init__.py",
    ),
    "build of other arguments": (
        entry("import numpy\nACCELERATORS = 1\ndef build(): pass\n"),
        "build of implementation_ours takes other arguments",
    ),
    "no ACCELERATORS": (entry("import numpy\ndef build(): pass\n"), "__init__.py has no ACCELERATORS, or none"),
    "a missing import": (
        entry("import numpy\nimport no_such_package\n" + NUMPY.read_text()),
        "__init__.py:2: ModuleNotFoundError: No module named 'no_such_package'; install it, or put the module into",
    ),
    "an extension that was not built": (
        entry("import numpy\nfrom . import _kernels\n" + NUMPY.read_text()),
        "; it has no file _kernels.py: what is compiled is installed as a package, or built by build()",
    ),
    "a syntax error": (having("model.py", "x = 1\ndef f(:\n"), "model.py, line 2: invalid syntax"),
    "an error of its own": (
        entry(NUMPY.read_text() + "\n1 / 0\n"),
        "ours cannot be loaded: __init__.py:51: ZeroDivisionError: division by zero",
    ),
    "an exit of its own": (entry(NUMPY.read_text() + "\nraise SystemExit(0)\n"), "cannot be loaded: __init__.py:"),
    "a link": (lambda ours: (ours / "data.txt").symlink_to("/etc/hostname"), "data.txt is a symbolic link: put the"),
    "a linked folder": (lambda ours: (ours / "more").symlink_to("/etc"), "more is a symbolic link"),
    "weights": (having("weights.npy", b"\x93NUMPY\x00\xff"), "weights.npy is not text (UTF-8): code is at most 200"),
    "code in a comment": (
        having("model.py", b"\r# coding: raw_unicode_escape\n# nothing \\u000aimport os\n"),
        "model.py names the encoding raw_unicode_escape, in which Python reads otherwise than in UTF-8",
    ),
    "code behind a comment": (
        having("model.py", b"x = 1\r\n# nothing\rimport os\n"),
        "model.py holds U+000D in line 2, which can hide code from who reads it: leave it out",
    ),
    "an encoding that there is none of": (
        having("model.py", "# coding: klingon\n"),
        "model.py names an encoding that Python cannot read it in: unknown encoding: klingon",
    ),
    "a large file": (having("table.txt", b"1 " * (1 << 20)), "table.txt is 2097152 bytes, more than 1048576: code is"),
    "many files": (
        lambda ours: [(ours / f"part_{at}.py").touch() for at in range(300)],
        "holds more than 200 files",
    ),
    "much in all": (
        lambda ours: [(ours / f"part_{at}.txt").write_text("1 " * (450 << 10)) for at in range(5)],
        "ours holds more than 4 MiB: code is at most 200 files of text, 1 MiB each, 4 MiB in all",
    ),
    "an odd name": (having("a\nb.txt", "x"), "name it in plain letters"),
    "the name of the reference": (renamed("reference"), "'reference' is no name for an implementation"),
    "a name with a space": (renamed("our code"), "'our code' is no name for an implementation"),
    "its own name": (
        entry("import ours.model\n" + NUMPY.read_text()),
        "implementation=ours imports ours, its own name: its files import each other relatively (from .model import x)",
    ),
    "no framework of the suite's": (
        entry("import rich, yaml\n" + NUMPY.read_text()),
        "imports rich, yaml, and none of ghost, jax, numpy, tensorflow, torch: framework=numpy says that it trains in",
    ),
    "two frameworks": (
        entry("import torch\nimport tensorflow\n" + NUMPY.read_text()),
        "imports tensorflow and torch: say in which it trains, framework=tensorflow",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_one_line(case, ours, tmp_path):
    spoil, said = REFUSED[case]
    spoil(ours)
    path = next(path.name for path in tmp_path.iterdir())
    assert said in refused(tmp_path, *RUN, f"implementation={path}", "out=evidence")
    assert not (tmp_path / "evidence").exists()


def test_code_from_elsewhere_is_refused(ours, tmp_path, monkeypatch):
    """What lies neither in the folder nor in a package: afterwards nobody would know what it was."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/kernels.py").write_text("FAST = 1\n")
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    entry("import kernels\n" + NUMPY.read_text())(ours)
    assert "implementation=ours imports kernels, of no installed package (" in refused(
        tmp_path, *RUN, "implementation=ours"
    )


@pytest.mark.parametrize("imported", ["from .model import X", "from model import X"])
def test_a_file_is_read_alone_and_what_lies_beside_it_is_not_imported(imported, ours, tmp_path):
    """Else code would train that the evidence does not hold."""
    (ours / "model.py").write_text("X = 1\n")
    (ours / "build.py").write_text(f"import numpy\n{imported}\n" + NUMPY.read_text())
    said = refused(tmp_path, *RUN, "implementation=ours/build.py")
    assert "model'; install it, or name its folder, as a file is read alone" in said


def test_a_path_that_is_none_names_what_makes_one(tmp_path):
    said = refused(tmp_path, *RUN, "implementation=ours")
    assert "implementation=ours: no such folder or file; python -m suite.new implementation=ours task=TASK" in said


def test_a_framework_that_the_code_does_not_import_is_refused(ours, tmp_path):
    said = refused(tmp_path, *RUN, "implementation=ours", "framework=torch")
    assert "implementation=ours does not import torch, as framework=torch says; it imports numpy" in said


def test_a_precision_that_nobody_typed_is_said_to_be_the_systems(ours, tmp_path):
    entry(NUMPY.read_text() + '\nPRECISIONS = ("fp32",)\n')(ours)
    said = refused(tmp_path, *RUN, "implementation=ours", "hw.precision=bf16")
    assert "precision=bf16: ours trains in fp32; bf16 is what hw=cpu takes here where precision= is left out" in said
    assert "left out" not in refused(tmp_path, *RUN, "implementation=ours", "precision=bf16")


@pytest.mark.parametrize("inside", ["suite", "reference_impls/translation", "tasks/speech/__init__.py", "."])
def test_the_suite_is_nobody_s_own(inside, tmp_path):
    assert "is the suite's own: framework= chooses a reference" in refused(
        tmp_path, *RUN, f"implementation={NUMPY.parents[4] / inside}"
    )
