"""The code of a task's or an implementation's author: where an error arose in it, and what its calls may not do."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from suite.errors import USER_ERROR, BrokenContract, complain

_NOBODYS = (Path(__file__).parent.parent, Path(sysconfig.get_path("stdlib")))  # no author's code lies there


def place(error: BaseException) -> str:
    """The last file and line that `error` passed in the author's code: not the suite's, a package's or Python's.

    Of a SyntaxError, the place of the mistake.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "site-packages" not in f.filename and not _is_nobodys(Path(f.filename))]
    frame = (own or list(frames))[-1]
    file, line = frame.filename, frame.lineno
    if isinstance(error, SyntaxError) and error.filename:
        file, line = error.filename, error.lineno
    return f"{Path(file).parent.name}/{Path(file).name}:{line}"


def _is_nobodys(path: Path) -> bool:
    return any(folder in path.parents for folder in _NOBODYS)


@contextmanager
def guarded(function: Callable[..., Any], name: str) -> Iterator[None]:
    """Guard a call of the author's `function` of the task or module `name`: its exit does not end the command, and a
    process that it forked does not go on with it. Raises BrokenContract if it exits.
    """
    what, process = f"{function.__name__} of {name}", os.getpid()
    try:
        try:
            yield
        finally:
            if os.getpid() != process:
                complain(BrokenContract(f"{what} forked, and the new process came back from it", function))
                os._exit(USER_ERROR)
    except SystemExit as error:
        raise BrokenContract(f"{what} called sys.exit({error.code!r:.60}) at {place(error)}", function) from error
