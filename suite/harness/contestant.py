"""The user's own implementation, which a run can train with: `implementation=PATH`, a folder or a file."""

from __future__ import annotations

import ast
import re
import subprocess
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.config.contestant import Contestant
from suite.config.folder import ROOT
from suite.config.models import Framework
from suite.errors import BrokenContract, UserError, shown
from suite.harness import lean, loading
from suite.harness.declared import Declared, declared
from suite.harness.implementation import ImplementationModule, held_to_contract
from suite.harness.imported import framework_of, imports, refuse_strays
from suite.harness.loading import INIT
from suite.record import git
from suite.record.names import REFERENCE, is_implementation
from suite.store import code, packages

_LACKED = re.compile(f"cannot import name '(.+?)' from .*module '{loading.PACKAGE}")  # Python calls it circular


@dataclass(frozen=True)
class OwnImplementation:
    """The files of an implementation as they were read, what evidence says of them, and how they are loaded.

    `path` is the folder, or the file, that holds them.
    """

    path: Path
    files: Mapping[str, bytes]
    told: Contestant
    framework: Framework
    declared: Declared

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return self.path if self.path.is_dir() else self.path.parent

    def load(self, task: str) -> ImplementationModule:
        """Import the module that holds `build` from the bytes that were read.

        Raises UserError for packages of the task that are missing, and for whatever else stops the import;
        BrokenContract if the module lacks a required part.
        """
        packages.require(task)
        lean.prepare(self.framework)
        try:
            module: Any = loading.load(self.told.name, self.folder, self.files, self.told.entry)
        except (Exception, SystemExit) as error:  # the author's code may raise anything
            raise UserError(f"implementation={self.path} cannot be loaded: {self._said(error)}") from error
        return held_to_contract(module)

    def changed(self) -> list[str]:
        """The files that have changed, appeared or gone since they were read; all of them if they cannot be read."""
        try:
            return code.differing(self.told.files, code.sums_now(self.path))
        except UserError:
            return sorted(self.told.files)

    def _said(self, error: BaseException) -> str:
        """Describe `error`, with the place in the author's own file if it passed through one."""
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).is_relative_to(self.folder)]
        place = f"{Path(own[-1].filename).relative_to(self.folder)}:{own[-1].lineno}: " if own else ""
        mend, names = "", {part for name in self.files for part in re.split("[/.]", name)}
        if isinstance(error, ModuleNotFoundError):
            put = "put the module into the folder" if self.path.is_dir() else "name its folder, as a file is read alone"
            mend = f"; install it, or {put}: what an implementation needs is its own affair"
        elif (lacked := _LACKED.search(str(error))) and lacked[1] not in names:
            mend = f"; it has no file {lacked[1]}.py: what is compiled is installed as a package, or built by build()"
        return f"{place}{type(error).__name__}: {shown(str(error))}{mend}"


def trainer(own: OwnImplementation | None, framework: str) -> str:
    """A name, for use in a sentence, for the code that trains: `own`, or the reference in a framework."""
    return own.told.name if own else f"the reference in {framework}"


def read(path: Path, framework: str | None = None) -> OwnImplementation:
    """Read the implementation at `path` without importing it. Its framework is `framework`, else the one it imports.

    Raises UserError for a path that does not exist, is the suite's own or holds something other than code; for a syntax
    error, an import from elsewhere, or a framework that cannot be determined. BrokenContract if no file holds `build`.
    """
    where = f"implementation={path}"
    if not path.exists():
        raise UserError(f"{where}: no such folder or file; python -m suite.new {where} task=TASK makes one")
    at, name = path.resolve(), check_place(path)
    files = code.read(at)
    trees = dict(_parsed(where, files))
    entry = _entry(where, trees)
    found = imports(trees)
    refuse_strays(found, name, where)
    revision, dirty = _revision(at if at.is_dir() else at.parent, files)
    told = Contestant(name=name, entry=entry, files=code.sums(files), imports=found, revision=revision, dirty=dirty)
    said = declared(trees[entry], f"{where}: {entry}")
    return OwnImplementation(at, files, told, framework_of(found, framework, where), said)


def check_place(path: Path) -> str:
    """The name of an implementation at `path`, existing or not. Raises UserError if its place or name is refused."""
    where, at = f"implementation={path}", path.resolve()
    if any(at == own or own in at.parents or at in own.parents for own in (ROOT / each for each in git.CHECKOUT)):
        raise UserError(
            f"{where} is the suite's own: framework= chooses a reference, suite.new copies one to change it"
        )
    name = at.stem if at.suffix == ".py" and not at.is_dir() else at.name
    if not is_implementation(name):
        raise UserError(
            f"{where}: {shown(name)!r} is no name for an implementation: letters, digits, dots, dashes and "
            f"underscores, not {REFERENCE}; rename it"
        )
    return name


def _parsed(where: str, files: Mapping[str, bytes]) -> Iterator[tuple[str, ast.Module]]:
    for name, content in files.items():
        if name.endswith(".py"):
            try:
                yield name, ast.parse(content)
            except SyntaxError as error:
                raise UserError(f"{where}: {name}, line {error.lineno}: {error.msg}") from None
            except (ValueError, RecursionError, MemoryError) as error:
                raise UserError(f"{where}: {name} is no Python: {error}") from None


def _entry(where: str, trees: Mapping[str, ast.Module]) -> str:
    """The file that holds `build`: `__init__.py`, else the only top-level one. Raises UserError if it is ambiguous."""
    holding = [name for name, tree in trees.items() if "/" not in name and _binds(tree.body, "build")]
    if INIT in holding:
        return INIT
    if not holding:
        raise BrokenContract(f"{where}: no file of it holds a function build", ImplementationModule.build)
    if len(holding) > 1:
        raise UserError(f"{where}: {' and '.join(holding)} hold a build: import the one that trains in {INIT}")
    return holding[0]


def _binds(body: Sequence[ast.stmt], name: str) -> bool:
    """Whether the statements of a module bind `name`, by a definition, an assignment or an import."""
    pending = [*body]
    while pending:
        names: list[str] = []
        match pending.pop():
            case ast.FunctionDef(name=bound) | ast.ClassDef(name=bound) | ast.AnnAssign(target=ast.Name(bound)):
                names = [bound]
            case ast.Assign(targets=targets):
                names = [each.id for each in targets if isinstance(each, ast.Name)]
            case ast.ImportFrom(names=aliases):
                names = [each.asname or each.name for each in aliases]
            case ast.If(body=inner, orelse=others) | ast.Try(body=inner, orelse=others):
                pending += [*inner, *others]
        if name in names:
            return True
    return False


def _revision(folder: Path, files: Mapping[str, bytes]) -> tuple[str | None, bool | None]:
    """The git revision of the folder, and whether any of the files differs from it; both None without git."""
    try:
        revision = git.output("rev-parse", "HEAD", at=folder).decode().strip()
        known = git.blobs("HEAD", ".", at=folder)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None, None
    return revision, any(known.get(name) != git.blob_name(content, revision) for name, content in files.items())
