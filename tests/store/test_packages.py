"""Which packages of a task and a framework are missing, and the line that says so."""

import sys
from importlib import metadata
from pathlib import Path

import pytest

from suite import config
from suite.errors import UserError
from suite.harness.implementation import compared, frameworks, load_implementation
from suite.probe.__main__ import main as probe
from suite.store import packages
from suite.store.task import load_task
from tests import distributions
from tests.command import ENVIRONMENT, PROJECT, run

TORCH = config.framework("torch")


def test_a_framework_that_compiles_says_which_compiler_it_lacks(tmp_path, monkeypatch):
    (tmp_path / "clang").touch(mode=0o755)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    said = packages.without_compiler(TORCH)
    assert said
    assert said.endswith("with a C compiler, and there is neither gcc nor clang: apt-get install gcc")
    assert packages.without_compiler(config.framework("tensorflow")) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(packages.sysconfig, "get_path", lambda _: str(tmp_path))
    assert f"{tmp_path} has no Python.h: apt-get install python3." in (packages.without_compiler(TORCH) or "")
    (tmp_path / "Python.h").touch()
    assert packages.without_compiler(TORCH) is None
    monkeypatch.setenv("CC", "gcc")
    assert "and CC=gcc is none" in (packages.without_compiler(TORCH) or "")


@pytest.mark.parametrize(
    ("path", "load"),
    [("tasks/__init__.py", load_task), ("tasks.py", load_task), ("reference_impls/__init__.py", frameworks)],
)
def test_what_hides_the_suite_s_own_is_told(tmp_path, monkeypatch, path, load):
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).touch()
    package = Path(path).parts[0].removesuffix(".py")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, package)
    with pytest.raises(UserError, match=rf"^{tmp_path}/{package}(\.py)? hides the suite's own {package}: start from"):
        load("nowhere")


@pytest.fixture
def site(tmp_path, monkeypatch) -> Path:
    """A folder of distributions that goes before all others."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def test_a_task_and_an_implementation_name_what_is_missing_and_the_command(site):
    distributions.install(site, "time-to-accuracy", torch=["torch"], translation=["a-bleu", "numpy", "a-piece"])
    line = r"translation%s needs a-bleu and a-piece: pip install -c constraints\.txt -e '\.\[%stranslation\]'"
    with pytest.raises(UserError, match=line % ("", "")):
        load_task("translation")
    with pytest.raises(UserError, match=line % (" in PyTorch", "torch,")):
        load_implementation("translation", TORCH)


def test_a_package_that_an_extra_names_only_since_the_suite_was_installed_is_one_line(site, monkeypatch):
    distributions.install(site, "time-to-accuracy", torch=["torch"])
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    for part in [name for name in sys.modules if name.startswith(("tasks.translation", "reference_impls.translation"))]:
        monkeypatch.delitem(sys.modules, part)
    line = r"translation needs sentencepiece, and .* changed .*: pip .* '\.\[%stranslation\]' once more"
    with pytest.raises(UserError, match=line % ""):
        load_task("translation")
    with pytest.raises(UserError, match=line % "torch,"):
        load_implementation("translation", TORCH)


def test_a_module_that_exits_when_it_is_imported_does_not_end_the_command(tmp_path, monkeypatch):
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"^leaving called sys.exit\(0\) at .*/leaving.py:2 when it was imported$"):
        packages.imported("leaving", "leaving")


@pytest.mark.parametrize("name", ["suite.nothing", "tasks.nothing", "reference_impls.nothing"])
def test_a_module_of_the_suite_s_own_that_is_missing_is_no_missing_package(site, name):
    (site / f"imports_{name.replace('.', '_')}.py").write_text(f"import {name}\n")
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'"):
        packages.imported(f"imports_{name.replace('.', '_')}", "speech")


def test_a_missing_framework_is_named_before_the_task_s_packages(site):
    distributions.install(site, "time-to-accuracy", torch=["a-torch", "a-vision"], translation=["a-bleu", "a-torch"])
    assert packages.missing("translation", TORCH) == ["a-torch", "a-vision", "a-bleu"]


def test_code_in_another_framework_is_held_to_the_reference_that_is_installed(site):
    assert [compared("speech", name) for name in ("torch", "jax")] == ["torch", "tensorflow"]
    distributions.install(site, "time-to-accuracy", tensorflow=["a-tensorflow"])
    assert [compared("speech", name) for name in ("tensorflow", "jax")] == ["tensorflow", "torch"]


def test_a_framework_that_cannot_be_found_is_missing_though_no_distribution_asks_for_it(site):
    distributions.install(site, "time-to-accuracy")
    ghost = TORCH.model_copy(update={"module": "ghost", "extra": "ghost"})
    with pytest.raises(UserError, match=r"speech in PyTorch needs ghost: pip install .* '\.\[ghost\]'"):
        packages.require("speech", ghost)


def test_a_probe_lacks_what_task_and_framework_lack_together(site):
    distributions.install(site, "time-to-accuracy", torch=["a-torch"], translation=["a-bleu"])
    with pytest.raises(UserError, match=r"needs a-torch and a-bleu: .*'\.\[torch,translation\]'"):
        probe(["level=throughput", "task=translation", "scale=mini", "hw=cpu", "precision=fp32", "mlflow=false"])


@pytest.mark.parametrize("spelling", ["reinforcement-learning", "reinforcement_learning"])
def test_extras_of_packages_are_looked_into_and_names_are_normalised(site, spelling):
    distributions.install(site, "time-to-accuracy", **{spelling: ["gym[box]"]})
    assert packages.missing("reinforcement_learning") == ["gym"]
    assert packages.install("reinforcement_learning").endswith("'.[reinforcement-learning]'")
    distributions.install(site, "gym", box=["a-box", 'another-box; python_version < "3"'], other=["an-other"])
    assert packages.missing("reinforcement_learning") == ["a-box"]


def test_a_module_from_a_distribution_of_another_name_will_do(site):
    distributions.install(site, "time-to-accuracy", tensorflow=["a-flow"])
    (site / "a_flow.py").touch()
    flow = TORCH.model_copy(update={"module": "a_flow", "extra": "tensorflow"})
    assert packages.missing("speech", flow) == []


def test_nothing_is_said_where_no_extra_is_declared(site, monkeypatch):
    distributions.install(site, "time-to-accuracy")
    assert packages.missing("translation", TORCH) == []
    monkeypatch.setattr(packages, "DISTRIBUTION", "no-such-distribution")
    with pytest.raises(metadata.PackageNotFoundError):
        metadata.distribution(packages.DISTRIBUTION)
    assert packages.missing("translation", TORCH) == []


def test_a_run_says_it_in_one_line_before_anything_is_done(site, tmp_path, monkeypatch):
    distributions.install(site, "time-to-accuracy", translation=["a-bleu", "a-piece", "a-babel"])
    monkeypatch.setitem(ENVIRONMENT, "PYTHONPATH", f"{site}:{PROJECT}")
    done = run(tmp_path, "suite.run", "task=translation", "scale=mini", "hw=cpu", "out=evidence")
    assert done.returncode == 2
    command = "pip install -c constraints.txt -e '.[torch,translation]'"
    assert done.stderr == f"error: translation in PyTorch needs a-bleu, a-piece and a-babel: {command}\n"
    assert not (tmp_path / "evidence").exists()
