"""`implementation=PATH`: code that is not the suite's trains, is kept with the evidence, and is known afterwards."""

import json
import py_compile
import shutil
from pathlib import Path

import pytest
import yaml

from suite.config.contestant import Contestant
from suite.harness import contestant
from suite.record import git
from suite.record.view import View
from suite.store import code
from tests.command import eighth
from tests.eighth_task import NUMPY
from tests.parity_runs import cut_off, keys, lines, refused, rules_broken

OF_ANY_SEED = ("task=parity", "hw=cpu", "mlflow=false")
RUN = (*OF_ANY_SEED, "seed=1")


def trained(folder, *words):
    done = eighth(folder, "run", *RUN, *words)
    assert done.returncode == 0, done.stderr
    return done


def tagged(folder):
    view = View(folder)
    view.read()
    return view.tags["implementation"]


def test_what_ran_stands_in_configuration_log_and_system_description(ours, tmp_path):
    done = trained(tmp_path, "implementation=ours", "out=evidence")
    assert "ours: 1 file of no git revision" in done.stdout
    assert "verdict   pass" in done.stdout
    folder = tmp_path / "evidence"
    config = yaml.safe_load((folder / "config.yaml").read_text())
    told = Contestant.model_validate(config["implementation"])
    assert (told.name, told.entry, config["framework"]) == ("ours", "__init__.py", "numpy")
    assert told.files == code.sums({"__init__.py": NUMPY.read_bytes()})
    assert told.imports.keys() == {"numpy"}
    assert json.loads((folder / "system.json").read_text())["implementation"] == told.model_dump()
    assert json.loads((folder / "system.json").read_text())["description"]["framework"].startswith("NumPy ")
    logged = {line.key: line for line in lines(folder)}
    assert logged["suite_implementation"].value == "ours"
    assert logged["suite_implementation"].metadata["files"] == told.files
    assert logged["suite_implementation_after"].metadata["changed"] == []
    assert tagged(folder) == "ours"
    assert (folder / "implementation/__init__.py").read_bytes() == NUMPY.read_bytes()
    assert rules_broken(tmp_path, "evidence") == set()


def test_the_reference_says_nothing_of_it(tmp_path):
    done = trained(tmp_path, "framework=numpy", "out=evidence")
    assert "implementation" not in done.stdout
    assert not (tmp_path / "evidence/implementation").exists()
    assert not {"suite_implementation", "suite_implementation_after"} & {*keys(tmp_path / "evidence")}
    assert tagged(tmp_path / "evidence") == "reference"


def test_runs_of_one_result_keep_their_code_each(ours, tmp_path):
    trained(tmp_path, "implementation=ours", "runs=3", "out=evidence")
    assert len({path.read_bytes() for path in (tmp_path / "evidence").glob("run_*/implementation/__init__.py")}) == 1
    assert rules_broken(tmp_path, "evidence") == set()


def test_files_import_each_other_in_either_way(ours, tmp_path):
    """Relatively, and as a script does; also below folders, and by a name that the current folder has as well."""
    text = (ours / "__init__.py").read_text()
    (ours / "helper.py").write_text("from .parts.step import VALUE\n")
    (ours / "parts").mkdir()
    (ours / "parts/step.py").write_text("VALUE = 3\n")
    (ours / "json.py").write_text("raise AssertionError('the standard library has this name')\n")
    (tmp_path / "sibling.py").write_text("raise AssertionError('not of the folder')\n")
    (ours / "sibling.py").write_text("from parts import step\nfrom parts.step import VALUE\n")
    (ours / "__init__.py").write_text(
        "import json\nimport sibling\nfrom .helper import VALUE\nassert sibling.VALUE == VALUE == 3 and json.dumps\n"
        + text
    )
    trained(tmp_path, "implementation=ours", "out=evidence")


def test_a_sweep_keeps_the_code_of_each_apart(ours, tmp_path):
    (tmp_path / "theirs").mkdir()
    for name, answer in (("ours", 1), ("theirs", 2)):
        (tmp_path / name / "helper.py").write_text(f"ANSWER = {answer}\n")
        (tmp_path / name / "__init__.py").write_text(
            f"import helper\nfrom . import helper as again\nassert helper.ANSWER == again.ANSWER == {answer}\n"
            + NUMPY.read_text()
        )
    done = eighth(tmp_path, "run", *OF_ANY_SEED, "-m", "implementation=ours,theirs", "seed=1,2")
    assert done.returncode == 0, done.stderr
    found = sorted(
        (config["implementation"]["name"], config["seed"])
        for path in tmp_path.glob("runs/*/config.yaml")
        for config in [yaml.safe_load(path.read_text())]
    )
    assert found == [("ours", 1), ("ours", 2), ("theirs", 1), ("theirs", 2)]


def test_a_file_alone_is_an_implementation(tmp_path):
    shutil.copy(NUMPY, tmp_path / "fast.py")
    trained(tmp_path, f"implementation={tmp_path / 'fast.py'}", "out=evidence", "division=open")
    assert yaml.safe_load((tmp_path / "evidence/config.yaml").read_text())["implementation"]["name"] == "fast"


def test_no_bytecode_that_lies_about_the_source_is_taken(ours, tmp_path):
    """A cached module for which Python would not even look at the source."""
    (ours / "helper.py").write_text("ANSWER = 2\n")
    cached = py_compile.compile(ours / "helper.py", invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    (ours / "helper.py").write_text("ANSWER = 1\n")
    assert Path(cached).exists()
    (ours / "__init__.py").write_text("from .helper import ANSWER\nassert ANSWER == 1\n" + NUMPY.read_text())
    trained(tmp_path, "implementation=ours", "out=evidence")


def test_code_that_changes_while_it_runs_breaks_a_rule(ours, tmp_path):
    """Also by its own hand."""
    text = NUMPY.read_text().replace(
        "    def train_until(self, samples):\n",
        "    def train_until(self, samples):\n"
        "        from pathlib import Path\n"
        "        Path(__file__).with_name('notes.txt').write_text('x')\n",
    )
    (ours / "__init__.py").write_text(text)
    done = trained(tmp_path, "implementation=ours", "out=evidence")
    assert "verdict   fail" in done.stdout
    assert rules_broken(tmp_path, "evidence") == {"implementation.3"}
    after = next(line for line in lines(tmp_path / "evidence") if line.key == "suite_implementation_after")
    assert after.metadata["changed"] == ["notes.txt"]


def test_a_run_goes_on_with_the_bytes_that_it_began_with(ours, tmp_path):
    trained(tmp_path, "implementation=ours", "out=cut")
    cut_off(tmp_path / "cut", "eval_start")
    assert "is a run of 'ours': name its code again, implementation=PATH" in refused(tmp_path, *RUN, "resume=cut")
    (ours / "__init__.py").write_text(NUMPY.read_text() + "# another\n")
    assert "resume=cut began with another __init__.py than" in refused(
        tmp_path, *RUN, "resume=cut", "implementation=ours"
    )
    shutil.copy(NUMPY, ours / "__init__.py")
    trained(tmp_path, "resume=cut", "implementation=ours")
    assert keys(tmp_path / "cut").count("suite_implementation") == 1
    assert rules_broken(tmp_path, "cut") == set()


def test_a_run_of_the_reference_does_not_go_on_with_other_code(ours, tmp_path):
    trained(tmp_path, "framework=numpy", "out=evidence")
    said = refused(tmp_path, *RUN, "framework=numpy", "resume=evidence", "implementation=ours")
    assert "contradicts resume=evidence, which is a run of the reference" in said


@pytest.mark.parametrize("first", [b"\xef\xbb\xbf", b"# coding: latin-1\n", "# coding: utf-8 \u00fc\r\n".encode()])
def test_code_of_which_python_and_people_read_the_same_is_taken(first, ours):
    (ours / "__init__.py").write_bytes(first + NUMPY.read_bytes())
    assert code.read(ours)["__init__.py"].startswith(first)


def test_of_a_package_in_several_distributions_the_one_that_is_imported_is_told(ours, tmp_path, monkeypatch):
    (tmp_path / "shared").mkdir()
    for name, version in (("one", "1"), ("two", "2")):
        (tmp_path / f"shared/{name}.py").touch()
        info = tmp_path / f"shared_{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: shared-{name}\nVersion: {version}\n")
        (info / "RECORD").write_text(f"shared/{name}.py,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    (ours / "__init__.py").write_text("import shared.two\n" + NUMPY.read_text())
    assert contestant.read(ours, "numpy").told.imports["shared"] == "2"


def test_what_is_hidden_or_cached_is_no_code(ours):
    for name in (".git/config", "__pycache__/x.pyc", ".notes"):
        (ours / name).parent.mkdir(exist_ok=True)
        (ours / name).write_bytes(b"\0")
    assert code.read(ours).keys() == {"__init__.py"}


def test_the_framework_is_what_is_imported_also_by_way_of_the_reference(tmp_path):
    (tmp_path / "ours.py").write_text(
        "from reference_impls.image_classification.torch import TorchImageClassifier\nACCELERATORS = 1\nbuild = None\n"
    )
    found = contestant.read(tmp_path / "ours.py")
    assert found.framework.name == "torch"
    assert found.told.imports.keys() >= {"numpy", "torch"}


def test_what_is_imported_late_or_beside_a_file_of_that_name_is_told_too(ours):
    """A file of a framework's name is not what `import` finds."""
    for name in ("torch.py", "yaml.py"):
        (ours / name).touch()
    late = "\n\ndef late():\n    import rich.table\n    import torch\n    import yaml\n    from .keras import layers\n"
    (ours / "__init__.py").write_text(NUMPY.read_text() + late)
    assert contestant.read(ours, "numpy").told.imports.keys() == {"numpy", "rich", "torch"}


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    from .fast import build\nexcept ImportError:\n    from .slow import build\n",
        "if True:\n    from .fast import make as build\n",
        "from . import fast\nbuild: object = fast.make\n",
    ],
)
def test_build_may_be_bound_in_any_way(ours, text):
    (ours / "parts").mkdir()
    for name in ("parts/__init__.py", "fast.py"):
        shutil.copy(ours / "__init__.py", ours / name)
    (ours / "__init__.py").write_text("import numpy\nACCELERATORS = 1\n" + text)
    assert contestant.read(ours).told.entry == "__init__.py"
    shutil.copy(ours / "__init__.py", ours / "train.py")
    (ours / "__init__.py").write_text("")
    (ours / "fast.py").unlink()
    assert contestant.read(ours).told.entry == "train.py"


def test_the_revision_of_its_own_repository_is_told(ours, tmp_path):
    def told_git(*words):
        mine = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")
        git.output(*mine, *words, at=tmp_path)

    told_git("init", "-q")
    told_git("add", "ours")
    told_git("commit", "-qm", "begin")
    told = contestant.read(ours).told
    assert (len(told.revision or ""), told.dirty) == (40, False)
    (ours / "more.txt").write_text("1\n")
    assert contestant.read(ours).told.dirty
