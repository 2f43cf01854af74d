"""The console script `suite`: every command by its name, wherever the project is installed.

Unlike `python -m`, it does not take modules from the current folder, which may be a stranger's package.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import suite
from suite.errors import command, headline, one_of

_PREFIX = "`python -m suite."  # begins the docstring of each command


def main(argv: list[str]) -> int:
    """Run the command that `argv` begins with and return its exit code. Raises UserError for an unknown one."""
    found = commands()
    if not argv or argv[0] in ("-h", "--help"):
        width = max(map(len, found))
        print("suite COMMAND [...]\n")
        print(*(f"  {name:<{width}}  {text}" for name, (_, text) in sorted(found.items())), sep="\n")
        print("\nsuite COMMAND --help explains one.")
        return 0
    one_of("command", argv[0], found)
    module, _ = found[argv[0]]
    return int(importlib.import_module(module).main(argv[1:]))


def commands() -> dict[str, tuple[str, str]]:
    """Each command's module and what it is for, by its name: read from the first line of the module's docstring."""
    folder = Path(suite.__file__).parent
    found = {}
    for path in (*folder.glob("*.py"), *folder.glob("*/__main__.py")):
        name = path.parent.name if path.parent != folder else path.stem
        said = headline(path)
        if said.startswith(f"{_PREFIX}{name}"):
            module = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
            found[name] = (module, said.partition("`: ")[2])
    return found


def script() -> None:
    """The entry point of `suite`."""
    os.environ["PYTHONSAFEPATH"] = "1"  # processes that it starts do not take modules from the current folder either
    command(main)


if __name__ == "__main__":
    script()
