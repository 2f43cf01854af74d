"""Put the staged submission in its place. What is there already stays as it is; only gaps are filled."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

from suite.errors import UserError
from suite.rules.seals import SEAL, SIGNATURE, Seal
from suite.store.processes import blocked

BESIDE = ".new"  # suffix of a file that is written beside its place


def install(staged: Path, target: Path) -> list[str]:
    """Write what `target` lacks, the seal and its signature last, and return the paths that were written.

    All files are first written beside their places, so that a full disk changes nothing, then moved there at once, with
    SIGINT and SIGTERM blocked. The same again writes nothing. The seal, and a system description whose empty fields
    were filled in, are replaced.
    Raises UserError, before anything is written, if another file would change or go, or a signed submission would
    change; also if writing fails.
    """
    paths = sorted(path.relative_to(staged).as_posix() for path in staged.rglob("*") if path.is_file())
    sealed = Seal.read(target).files if (target / SEAL).exists() else {}
    for path in sorted(sealed.keys() - {*paths}):
        raise UserError(
            f"{target / path} is there already, and the runs no longer have it: nothing is removed; {mending(target)}"
        )
    changed = [path for path in paths if _content(target / path) != (staged / path).read_bytes()]
    for path in changed:
        if (target / path).exists() and path != SEAL and not path.startswith("systems/"):
            raise UserError(
                f"{target / path} is there already, with another content: nothing is overwritten; {mending(target)}"
            )
    if changed and (target / SIGNATURE).exists():
        raise UserError(f"{target} is signed: remove {SIGNATURE} to change it, and sign it again with sign=KEY")
    written: dict[Path, Path] = {}
    try:
        for path in sorted(changed, key=(SEAL, SIGNATURE).__contains__):
            place = target / path
            place.parent.mkdir(parents=True, exist_ok=True)
            beside = written[place] = place.with_name(f".{place.name}{BESIDE}")
            shutil.copyfile(staged / path, beside)
        with blocked(signal.SIGINT, signal.SIGTERM):
            for place, beside in written.items():
                beside.replace(place)
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror}; mend that, and give the same command") from error
    finally:
        for beside in written.values():
            beside.unlink(missing_ok=True)
    return changed


def mending(target: Path) -> str:
    """Advice on how to correct what was written, which no command does."""
    return f"to mend what was written move {target} away and give the command again with all its runs="


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
