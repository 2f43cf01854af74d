"""Imports code under a name of its own from the bytes that were read, whatever is cached or edited later."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from suite.harness.imported import OURS, modules

PACKAGE = "implementation_"  # prefix of the code's package name, whatever its folder is called
INIT = "__init__.py"


def load(name: str, folder: Path, files: Mapping[str, bytes], entry: str) -> ModuleType:
    """Import the module `entry` of the code `files` in `folder`, as `implementation_<name>` or a submodule of it.

    A file may import others of the folder relatively (`from .model import`), or as a script does (`import model`). In
    the latter form names of the standard library, the frameworks and the suite take precedence. Code loaded before is
    forgotten. Raises whatever the code raises.
    """
    forget()
    finder = _Finder(PACKAGE + "".join(c if c.isalnum() else "_" for c in name), folder, files)
    sys.meta_path.insert(0, finder)
    inner = entry.removesuffix(".py").replace("/", ".")
    return importlib.import_module(finder.package if entry == INIT else f"{finder.package}.{inner}")


def forget() -> None:
    """Remove the code that was loaded last from Python's modules and finders."""
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _Finder)]
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if name.startswith(PACKAGE) or isinstance(getattr(spec, "loader", None), _Source):
            del sys.modules[name]


class _Finder(MetaPathFinder):
    """Finds the modules of one folder of code, as parts of `package` and by their own names."""

    def __init__(self, package: str, folder: Path, files: Mapping[str, bytes]) -> None:
        self.package, self.folder, self.files = package, folder, files
        tops = {name.partition("/")[0].removesuffix(".py") for name in files if name.endswith(".py")}
        self.siblings = tops - sys.stdlib_module_names - modules() - set(OURS)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of the folder, None for one that is none of its.

        Raises ModuleNotFoundError for one that was not read: else Python would look for it on the disk.
        """
        top, *inner = name.split(".")
        if top not in (self.package, *self.siblings):
            return None
        at = "/".join(inner if top == self.package else (top, *inner))
        init = f"{at}/{INIT}" if at else INIT
        if f"{at}.py" in self.files and init not in self.files:
            return self._spec(name, f"{at}.py", None)
        if any(file.startswith(f"{at}/" if at else "") and file.endswith(".py") for file in self.files):
            return self._spec(name, init, [str(self.folder / at)])
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    def _spec(self, name: str, file: str, within: list[str] | None) -> ModuleSpec | None:
        """The spec of a module or a package; a package without __init__.py is given an empty one.

        That gives it a file name: `inspect` fails on a module that has none and had one when it was loaded before.
        """
        loader = _Source(str(self.folder / file), self.files.get(file, b""))
        return spec_from_file_location(name, self.folder / file, loader=loader, submodule_search_locations=within)


class _Source(SourceLoader):
    """Loads one module from bytes; it has no modification time, so no bytecode is read or written for it."""

    def __init__(self, path: str, content: bytes) -> None:
        self.path, self.content = path, content

    def get_filename(self, fullname: str) -> str:
        """Where the file lies."""
        return self.path

    def get_data(self, path: str | bytes) -> bytes:
        """The bytes of the module as read; for another file, such as a kernel's source, its current content."""
        return self.content if str(path) == self.path else Path(str(path)).read_bytes()
