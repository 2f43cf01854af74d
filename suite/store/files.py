"""A dataset's files in the data root: found, verified, or brought there."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from suite.config.dataset import Dataset, File, Remote
from suite.errors import UserError
from suite.store.disk import holding, partial
from suite.store.sums import RememberedSums, cache_dir, sha256
from suite.store.unpack import unpack

Check = Literal["size", "remembered", "sha256"]
State = Literal["present", "missing", "wrong size", "corrupt"]


@dataclass(frozen=True)
class FileStatus:
    """A file as it lies on the disk. `found_*` are None where there is no file or the sum was not asked for."""

    path: Path
    state: State
    expected: File
    found_bytes: int | None = None
    found_sha256: str | None = None

    @property
    def problem(self) -> str:
        """What is wrong, in words."""
        if self.state == "missing":
            return f"{self.path} is missing"
        found = f"{self.found_bytes} bytes" + (f", sha256 {self.found_sha256}" if self.found_sha256 else "")
        return (
            f"{self.path} is {'corrupt' if self.state == 'corrupt' else 'of the wrong size'}: found {found}; "
            f"expected {self.expected.bytes} bytes, sha256 {self.expected.sha256 or 'not known'}"
        )


def root(data_dir: str | None = None) -> Path:
    """The data root: `data_dir`, else the environment variable SUITE_DATA, else a folder in the user's cache folder.

    It need not exist. Raises UserError if something that is no folder lies there.
    """
    given = data_dir or os.environ.get("SUITE_DATA")
    folder = Path(os.path.abspath(os.path.expanduser(given))) if given else cache_dir() / "data"
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UserError(f"the data folder {folder} is not a folder: name one with data_dir= or SUITE_DATA.")
    return folder


def status(dataset: Dataset, root: Path, check: Check = "remembered") -> list[FileStatus]:
    """The state of each of the dataset's files.

    `check` says how closely to look: at the "size" only, at sha256 sums where a file that has not changed since it
    was last read need not be read again ("remembered"), or by reading every file ("sha256").
    Raises UserError for a file that cannot be read.
    """
    with RememberedSums() as sums:
        return [_status(file, root, check, sums) for file in dataset.members]


def _status(file: File, root: Path, check: Check, sums: RememberedSums) -> FileStatus:
    path = root / file.path
    try:
        if not path.is_file():
            return FileStatus(path, "missing", file)
        size = path.stat().st_size
        if check == "size" or (check == "remembered" and file.sha256 is None):
            found = None
        else:
            found = sha256(path) if check == "sha256" else sums.sha256(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}.") from error
    state: State = "present"
    if size != file.bytes:
        state = "wrong size"
    elif None not in (found, file.sha256) and found != file.sha256:
        state = "corrupt"
    return FileStatus(path, state, file, size, found)


def told(found: list[FileStatus]) -> str:
    """How many of a dataset's files are present, in words, by their `status`; `embedded` if it has no files."""
    present = sum(file.state == "present" for file in found)
    return "embedded" if not found else "present" if present == len(found) else f"{present} of {len(found)} files"


def faults(dataset: Dataset, root: Path, check: Check = "remembered") -> list[FileStatus]:
    """The files that are not present and right."""
    return [file for file in status(dataset, root, check) if file.state != "present"]


def missing_bytes(dataset: Dataset, root: Path) -> int:
    """How many bytes the files that are missing or of the wrong size should have; their contents are not read."""
    return sum(each.expected.bytes for each in faults(dataset, root, "size"))


def needed_bytes(dataset: Dataset, root: Path, check: Check = "size") -> int:
    """How many bytes what is not present and right needs, with the files it is made from, or its archive, if missing.

    What has been downloaded so far needs no more room.
    """
    brought = [each.expected for each in faults(dataset, root, check)]
    sources = 0
    if brought and dataset.made is not None:
        sources = needed_bytes(dataset.source_files, root, check)
    elif brought and dataset.archive and not (root / dataset.archive.path).exists():
        brought.append(dataset.archive)
    there = sum(part.stat().st_size for each in brought if (part := partial(root / each.path)).exists())
    return sources + sum(each.bytes for each in brought) - there


def free_bytes(folder: Path) -> int:
    """How many bytes are free where `folder` is, or will be."""
    return shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.exists())).free


def ensure(dataset: Dataset, root: Path) -> Path:
    """Bring the dataset's files into `root` if they are not there, and return `root`.

    Right files are used as they are (`root` may be read-only). Otherwise a right archive in `root` is unpacked. Without
    one, the archive, or each missing file if there is no archive, is downloaded to `root`. An embedded dataset, which
    has no files, needs nothing. Raises UserError with the reason and with what to do by hand.
    """
    if not (found := faults(dataset, root)):
        return root
    if dataset.archive is None and None in (dataset.remote(file) for file in dataset.members):
        raise _error(dataset, root, found, "")
    from suite.store.download import DownloadError, download, download_all  # slow to import and seldom needed

    try:
        root.mkdir(parents=True, exist_ok=True)
        with holding(root / f".{_slug(dataset)}.lock", busy=f"another command is bringing {dataset.name} to {root}"):
            found = faults(dataset, root)  # perhaps another process has just brought them
            require_room(dataset, root)
            if found and dataset.archive:
                if not _is_right(dataset.archive, root):
                    download(dataset.archive, root / dataset.archive.path)
                _install(dataset, dataset.archive, root)
            elif found:
                download_all([remote for file in found if (remote := dataset.remote(file.expected))], root)
    except DownloadError as error:
        raise _error(dataset, root, found, f"cannot download {error}. ") from error
    except OSError as error:
        raise _error(dataset, root, found, f"cannot write to {root}: {error.strerror or error}. ") from error
    return root


def fetching(benchmark: str, data_dir: str | None) -> str:
    """The command that brings the data of a benchmark into `data_dir`, if that is given."""
    return f"python -m suite.data fetch {benchmark}{data_option(data_dir)}"


def data_option(data_dir: str | None) -> str:
    """The option that names `data_dir`, with a space before it, to end a command with; empty if none is given."""
    return f" data_dir={shlex.quote(data_dir)}" if data_dir else ""


def folder_of(dataset: Dataset, root: Path) -> Path:
    """The folder where the first of the dataset's files lies, or will; a link in `root` may lead to another disk."""
    return (root / dataset.members[0].path).parent


def require_room(dataset: Dataset, root: Path) -> None:
    """Raise UserError if the disk has no room for what the dataset still needs (`needed_bytes`)."""
    require_free(folder_of(dataset, root), needed_bytes(dataset, root, "remembered"), dataset.name)


def require_free(folder: Path, need: int, what: str) -> None:
    """Raise UserError unless the disk where `folder` is, or will be, has `need` bytes free."""
    if need > (free := free_bytes(folder)):
        raise UserError(
            f"{what} needs {need / 1e9:.1f} GB in {folder}, which has {free / 1e9:.1f} GB free: "
            "name a folder on a larger disk with data_dir= or SUITE_DATA"
        )


def _slug(dataset: Dataset) -> str:
    """A name for the dataset's lock in the data root."""
    return dataset.archive.path if dataset.archive else Path(dataset.members[0].path).parts[0]


def _is_right(archive: Remote, root: Path) -> bool:
    with RememberedSums() as sums:
        return _status(archive, root, "remembered", sums).state == "present"


def _install(dataset: Dataset, archive: Remote, root: Path) -> None:
    """Unpack beside the files' places, verify, and rename: a file in its place is a whole file."""
    fresh = folder_of(dataset, root) / f".{Path(archive.path).name}.unpacked"
    shutil.rmtree(fresh, ignore_errors=True)  # left by a process that was killed
    try:
        unpack(root / archive.path, {file.path for file in dataset.members}, fresh)
        for file in status(dataset, fresh, "sha256"):
            if file.state != "present":
                raise UserError(f"{root / archive.path} does not unpack to the files declared for it: {file.problem}.")
            place = root / file.expected.path
            place.parent.mkdir(parents=True, exist_ok=True)
            file.path.replace(place)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _error(dataset: Dataset, root: Path, found: list[FileStatus], reason: str) -> UserError:
    more = f" (and {len(found) - 1} more files)" if len(found) > 1 else ""
    if archive := dataset.archive:
        mend = f"Bring {archive.url} ({archive.bytes} bytes, sha256 {archive.sha256}) to {root / archive.path}"
    else:
        remote = dataset.remote(found[0].expected)
        source = f"{remote.url}{more} to {found[0].path}" if remote else f"the files of {dataset.source} to {root}"
        mend = f"Bring {source}"
    return UserError(
        f"{dataset.name}: {found[0].problem}{more}; {reason}{mend}, or name the folder that holds the files with "
        "data_dir= or SUITE_DATA."
    )
