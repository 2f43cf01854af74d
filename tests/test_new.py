"""`python -m suite.new`: what it writes runs at once, and nothing that is there is overwritten."""

import sys
from importlib.machinery import ModuleSpec

import pytest

from suite import config
from suite.check.__main__ import main as check
from suite.config import folder
from suite.errors import UserError
from suite.harness import contestant
from suite.harness.declared import by_reference
from suite.harness.implementation import frameworks
from suite.new import main
from suite.store.disk import write_text
from tests import distributions
from tests.command import refuses

WRITTEN = [(task, framework) for task in config.names("task") for framework in frameworks(task)]


@pytest.mark.parametrize(("task", "framework"), WRITTEN)
def test_an_implementation_is_the_reference_s_files_by_names_of_their_own(task, framework, tmp_path, capsys):
    assert main([f"implementation={tmp_path / 'ours'}", f"task={task}", f"framework={framework}"]) == 0
    assert f"suite.run task={task} implementation={tmp_path / 'ours'}" in capsys.readouterr().out
    own = contestant.read(tmp_path / "ours")
    reference = by_reference(task, config.framework(framework))
    assert (own.framework.name, own.declared, own.told.entry) == (framework, reference, "__init__.py")
    text = b"".join(own.files.values()).decode()
    assert f"reference_impls.{task}.{framework}" not in text
    stems = {name.removesuffix(".py") for name in own.files if name != "__init__.py"}
    assert all(f"from .{stem} import" in text for stem in stems)
    assert reference.accelerators == own.load(task).ACCELERATORS


def test_a_home_folder_is_expanded_where_no_shell_does(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["implementation=~/ours", "task=speech"]) == 0
    assert (tmp_path / "ours/__init__.py").exists()


def test_code_that_was_loaded_before_hides_no_name(tmp_path):
    (tmp_path / "ours.py").write_text("import torch\n\nACCELERATORS = 1\n\n\ndef build(*words):\n    pass\n")
    contestant.read(tmp_path / "ours.py").load("speech")
    assert main([f"implementation={tmp_path / 'another' / 'ours'}", "task=speech"]) == 0


def test_a_folder_of_ones_own_in_the_working_folder_hides_no_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")  # as python -m has it
    for place in ("ours", "another/ours"):
        assert main([f"implementation={place}", "task=speech"]) == 0


def test_a_module_beside_it_or_of_an_editable_installation_would_be_hidden(tmp_path, monkeypatch):
    (tmp_path / "helpers.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Editable])
    for place in ("helpers", "installed"):
        with pytest.raises(UserError, match=f"would hide the module {place}"):
            main([f"implementation={place}", "task=speech"])
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "ours").mkdir()
    assert main(["implementation=ours", "task=speech"]) == 0


class Editable:
    """As setuptools has Python find a project that is installed where it lies."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return ModuleSpec(name, None) if name == "installed" else None


CHECKED = (
    ("image_classification", "torch"),
    pytest.param("language_modeling", "tensorflow", marks=pytest.mark.soak),
    pytest.param("reinforcement_learning", "torch", marks=pytest.mark.soak),
)


@pytest.mark.parametrize(("task", "framework"), CHECKED)
def test_it_keeps_the_promises_of_the_reference(task, framework, tmp_path, capsys):
    main([f"implementation={tmp_path / 'ours'}", f"task={task}", f"framework={framework}"])
    words = [f"task={task}", "scale=mini", f"implementation={tmp_path / 'ours'}"]
    assert check(words) == 0, capsys.readouterr().out


REFUSED = {
    "implementation=ours": "which task? Give task= one of: detection, ",
    "implementation=ours task=translaton": "unknown task 'translaton': did you mean 'translation'?",
    "implementation=ours task=translation framework=torhc": "did you mean 'torch'?",
    "implementation=ours task=translation framework=jax": "unknown framework for translation 'jax'",
    "implementation=there task=translation": "implementation=there is there already",
    "implementation=ours.py task=translation": "is to be a folder",
    "implementation=reference task=translation": "is no name for an implementation",
    "implementation=torch task=recommendation": "implementation=torch would hide the module torch from all that is st",
    "implementation=json task=recommendation": "implementation=json would hide the module json",
    "implementation=suite/ours task=translation": "suite/ours is the suite's own",
    "task=translation": "task=translation is there already, conf/task/translation.yaml: nothing is overwritten",
    "task=Chess": "task=Chess is no name of small letters",
    "task=../chess": "is no name of small letters",
    "task=true": "is a word that Python or the command line reads otherwise",
    "task=class": "is a word that Python or the command line reads otherwise",
    "task=evidence": "task=evidence would hide the suite's own tasks/evidence.py",
    "task=recipe": "task=recipe would hide the suite's own reference_impls/recipe.py",
    "task=chess framework=torch": "framework= is of an implementation",
    "implementation= task=translation": "implementation= has no value: give one, or leave it out",
    "implementation=ours tsk=translation": "unknown option 'tsk': did you mean 'task'?",
    "ours": "ours is not of the form option=value",
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_mistake_is_named_and_nothing_is_written(words, tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    (tmp_path / "there/mine.py").write_text("mine\n")
    if "suite/" in words:
        (tmp_path / "suite").symlink_to(folder.CONF.parent / "suite")
    monkeypatch.chdir(tmp_path)
    refuses(main, words.split(), REFUSED[words])
    assert {path.name for path in tmp_path.iterdir()} <= {"there", "suite"}
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["mine.py"]
    assert not (folder.CONF.parent / "suite/ours").exists()


@pytest.mark.parametrize("words", [[], ["-h"], ["task=speech", "--help"]])
def test_help_tells_both_forms(words, capsys):
    assert main(words) == 0
    assert "suite.new implementation=PATH task=TASK [framework=FRAMEWORK]\n" in capsys.readouterr().out


def test_a_task_whose_extra_lacks_a_package_is_not_written(without_tasks, monkeypatch):
    site = without_tasks / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    distributions.install(site, "time-to-accuracy", chess=["a-board"])
    with pytest.raises(UserError, match=r"chess needs a-board: pip install"):
        main(["task=chess"])
    assert not list(without_tasks.rglob("chess*"))


@pytest.mark.parametrize("written", [1, 2, 3])
def test_a_full_disk_is_left_without_half_a_task(written, without_tasks, monkeypatch):
    with monkeypatch.context() as disk:
        disk.setattr("suite.new.write_text", having_room_for(written))
        with pytest.raises(UserError, match="No space left"):
            main(["task=thirds"])
    assert not list(without_tasks.rglob("thirds*"))


def test_a_full_disk_is_left_without_half_an_implementation(tmp_path, monkeypatch):
    words = [f"implementation={tmp_path / 'ours'}", "task=language_modeling", "framework=tensorflow"]
    with monkeypatch.context() as disk:
        disk.setattr("suite.new.write_text", having_room_for(1))
        with pytest.raises(UserError, match="No space left"):
            main(words)
    assert main(words) == 0


def having_room_for(files):
    """`write_text` on a disk that has room for so many files."""
    left = iter(range(files))

    def write(path, text):
        if next(left, None) is None:
            raise UserError(f"cannot write {path}: No space left on device")
        write_text(path, text)

    return write


def test_a_task_passes_its_check(without_tasks, capsys):
    assert main(["task=halves"]) == 0
    files = (
        str(path.relative_to(without_tasks)) for path in without_tasks.rglob("*.*") if "__pycache__" not in str(path)
    )
    assert {name for name in files if "halves" in name} == {
        "conf/task/halves.yaml",
        "tasks/halves/__init__.py",
        "reference_impls/halves/__init__.py",
        "reference_impls/halves/torch.py",
    }
    assert check(["task=halves"]) == 0, capsys.readouterr().out
    with pytest.raises(UserError, match="task=halves is there already"):
        main(["task=halves"])
