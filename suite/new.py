"""`python -m suite.new`: begin an implementation of your own from the reference, or a task from the example."""

from __future__ import annotations

import importlib
import keyword
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

import yaml

from suite import config
from suite.config import folder
from suite.config.folder import ROOT
from suite.errors import UserError, command, one_of, shown, split_options
from suite.harness import contestant, loading
from suite.harness.implementation import frameworks
from suite.record.git import CHECKOUT
from suite.store import packages
from suite.store.arrays import array_sha256
from suite.store.disk import write_text
from suite.store.task import load_task

HELP = """\
usage: python -m suite.new implementation=PATH task=TASK [framework=FRAMEWORK]
       python -m suite.new task=NAME

The first writes an implementation of TASK of your own into the new folder PATH: the reference's files in FRAMEWORK
(torch, if none is named), which run as they are. What the frameworks share stays the reference's and is imported.
The second writes a task NAME that passes suite.check into this copy of the suite: the example of docs/adding-a-task.md.

Nothing that exists is overwritten. Exit code: 0 written, 2 a mistake in the command.
"""
OPTIONS = ("implementation", "task", "framework")
EXAMPLE = ROOT / "docs" / "adding-a-task.md"
_WORDS = ("true", "false", "null", "nan", "inf")  # values that Hydra takes for no text
_EXAMPLES = "sides"  # what the example calls its task
_BLOCK = re.compile(r"`([\w./]+)`:\n\n```\w+\n(.*?)```", re.DOTALL)


def main(argv: list[str]) -> int:
    """Write what the command line `argv` asks for. Raises UserError for a mistake in it, or if the target exists."""
    if {"-h", "--help"} & set(argv) or not argv:
        print(HELP, end="")
        return 0
    options, others = split_options(argv, OPTIONS)
    if others:
        raise UserError(f"{shown(others[0])} is not of the form option=value; for example task=translation")
    if "task" not in options:
        raise config.which_task()
    if "implementation" in options:
        _implementation(Path(options["implementation"]), options["task"], options.get("framework", "torch"))
    elif "framework" in options:
        raise UserError("framework= is of an implementation: give implementation=PATH with it; a task begins in torch")
    else:
        _task(options["task"])
    return 0


def _implementation(path: Path, task: str, framework: str) -> None:
    """Write the reference of `task` in `framework` to a new folder `path`."""
    config.load("task", task)
    one_of(f"framework for {task}", framework, frameworks(task))
    name = contestant.check_place(path)
    if path.suffix == ".py":
        raise UserError(f"implementation={path} is to be a folder: leave .py away")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"implementation={path} is there already: nothing is overwritten, name a new folder")
    if _is_imported(name, path.resolve()):
        raise UserError(
            f"implementation={path} would hide the module {name} from all that is started in {path.resolve().parent}: "
            "take a name that Python imports nothing by"
        )
    spec = find_spec(f"reference_impls.{task}.{framework}")
    assert spec
    assert spec.origin
    files = {
        _renamed(each.name, framework): _relative(each.read_text(), task, framework)
        for each in sorted(Path(spec.origin).parent.glob(f"{framework}*.py"))
    }
    with _whole(path, files):
        _write(path, files)
    own = contestant.read(path, framework)
    print(f"{path}: {', '.join(own.files)}: {task} in {own.framework.title}, as the reference has it")
    named = f"task={task} implementation={shlex.quote(str(path))}"
    print(f"check     python -m suite.check {named}")
    print(f"run       python -m suite.run {named}")


def _is_imported(name: str, path: Path) -> bool:
    """Whether `name` is a module of Python, of a package, of the suite, or of the folder that `path` is to lie in.

    Folders in the working folder do not count, since several may have such a `name`, and neither does `path` itself.
    """
    if not name.isidentifier():
        return False
    loading.forget()  # code that ran before may have had this name
    elsewhere = [each for each in sys.path if Path(each).resolve() not in (ROOT, Path.cwd())]
    found = (each.find_spec(name, elsewhere if each is PathFinder else None) for each in sys.meta_path)
    others = (each for each in found if each and str(path) not in (each.submodule_search_locations or ()))
    return name in (*sys.stdlib_module_names, *CHECKOUT) or path.with_suffix(".py").exists() or any(others)


def _renamed(name: str, framework: str) -> str:
    """`torch.py`, which holds `build`, makes the folder a package; `torch_network.py` is its `network.py`."""
    return loading.INIT if name == f"{framework}.py" else name.removeprefix(f"{framework}_")


def _relative(text: str, task: str, framework: str) -> str:
    """The text of a file, importing from the new folder what it imported from the reference's own files."""
    return text.replace(f"from reference_impls.{task}.{framework}_", "from .")


def _task(name: str) -> None:
    """Write the document's example as a task `name`, with the sums and sizes of its data."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name):
        raise UserError(f"task={shown(name)} is no name of small letters, digits and underscores")
    if name in _WORDS or keyword.iskeyword(name):
        raise UserError(f"task={name} is a word that Python or the command line reads otherwise: give another name")
    root = folder.CONF.parent
    values = f"conf/task/{name}.yaml"
    places = (values, f"tasks/{name}", f"reference_impls/{name}")
    for place in places:
        if (root / place).exists():
            raise UserError(
                f"task={name} is there already, {place}: nothing is overwritten; implementation=PATH begins code for it"
            )
    for module in (f"tasks/{name}.py", f"reference_impls/{name}.py"):
        if (root / module).exists():
            raise UserError(f"task={name} would hide the suite's own {module}: give another name")
    packages.require(name)  # an extra of this name may be there before the task
    try:
        blocks = dict(_BLOCK.findall(EXAMPLE.read_text()))
    except OSError as error:
        raise UserError(
            f"{EXAMPLE}, which holds the example, cannot be read: {error.strerror}; a checkout of the suite has it"
        ) from error
    files = {
        place.replace(_EXAMPLES, name): text.replace(f"tasks/{_EXAMPLES}", f"tasks/{name}")
        for place, text in blocks.items()
    }
    files[f"reference_impls/{name}/{loading.INIT}"] = f'"""The reference implementations of {name}."""\n'
    with _whole(root, places):
        _write(root, {place: text for place, text in files.items() if place != values})
        write_text(root / values, _with_sums(files[values], name))
    print(*(f"{root / place}" for place in sorted(files)), sep="\n")
    print(f"check     python -m suite.check task={name}")
    print(f"run       python -m suite.run task={name} hw=cpu")


def _with_sums(text: str, name: str) -> str:
    """The values of the task `name`, `text`, with the sizes of its splits and the sums of its arrays added."""
    importlib.invalidate_caches()
    task = load_task(name)
    (scale,) = yaml.safe_load(text)["scales"]
    arrays = task.prepare(scale, None)
    told = {**task.split_sizes(arrays), "arrays": {each: array_sha256(array) for each, array in arrays.items()}}
    lines = textwrap.indent(yaml.safe_dump(told, sort_keys=False), " " * 6)
    source = f"      source: tasks/{name}\n"
    return text.replace(source, source + lines)


@contextmanager
def _whole(root: Path, places: Iterable[str]) -> Iterator[None]:
    """Remove the files and folders `places` below `root`, which are new, if the block fails, as on a full disk."""
    try:
        yield
    except BaseException:
        for place in places:
            shutil.rmtree(root / place, ignore_errors=True)
            with suppress(OSError):
                (root / place).unlink()
        raise


def _write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        write_text(root / name, text)


if __name__ == "__main__":
    command(main)
