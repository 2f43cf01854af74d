"""Shards: the files that a task makes from a dataset's others, and the arrays that are memory-mapped from files."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
from tqdm import tqdm

from suite.config.dataset import Dataset, File
from suite.config.models import Benchmark
from suite.errors import UserError
from suite.store import files
from suite.store.disk import holding, partial, sync
from suite.store.modules import load_bringing, load_sharding
from suite.store.processes import Pool
from suite.store.sums import RememberedSums, sha256
from suite.store.task import Arrays

PROCESSES = 8  # that make files at once, of 256 MB each: 2 GB in all


def ensure(benchmark: Benchmark, root: Path) -> Path:
    """Bring the benchmark's files into `root` if they are not there, make its `made` files, and return `root`.

    A process that is killed leaves whole files, which the next one keeps. If the first of the `made` files is missing,
    those without a declared sum are made again with it. Raises UserError as `files.ensure` and the task's `bring` do,
    and for a made file that is not the declared one.
    """
    dataset = benchmark.dataset
    if dataset.made is None:
        return files.ensure(dataset, root)
    if not files.faults(dataset, root):
        return root
    if files.faults(dataset.source_files, root):
        files.require_room(dataset, root)  # for what is made of them, too
        files.ensure(dataset.source_files, root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        busy = f"another command is making {dataset.name} in {root}"
        with holding(root / f".{benchmark.task}-{benchmark.scale}.lock", busy=busy):
            if bring := load_bringing(benchmark.task):
                bring.bring(benchmark.scale, root)
            files.require_room(dataset, root)
            _make(benchmark, root, [each.expected for each in files.faults(dataset, root)])
    except BrokenProcessPool as error:
        raise UserError(
            f"{dataset.name}: a process that makes its files was killed, perhaps for want of memory; the same command "
            "goes on where it was"
        ) from error
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise UserError(
            f"{dataset.name}: cannot write to {root}: {place}{error.strerror or error}; name a folder for the data "
            "with data_dir= or SUITE_DATA"
        ) from error
    return root


def mapped(benchmark: Benchmark, root: Path) -> Arrays:
    """The dataset's sharded arrays, by the names that `suite.config.dataset.Shards` tells; read-only.

    Raises UserError for a file that does not begin with its magic number, or does not hold whole elements.
    """
    arrays: Arrays = {}
    dataset = benchmark.dataset
    for name, form in (dataset.shards or {}).items():
        for i, file in enumerate(dataset.shards_of(name)):
            path = root / file.path
            try:
                begin = np.fromfile(path, "<i4", 1)
                arrays[numbered(name, i)] = np.memmap(path, np.dtype(form.dtype), "r", form.offset)
            except (OSError, ValueError) as error:
                raise UserError(f"{path} is no shard of {form.dtype}: {error}") from error
            if form.magic not in (None, *begin.tolist()):
                again = files.fetching(benchmark.name, str(root))
                raise UserError(f"{path} is no shard: it does not begin with {form.magic}; delete it and run {again}")
    return arrays


def undeclared(dataset: Dataset, arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The sha256 of each shard's file for which the dataset declares none, by the name of its array."""
    with RememberedSums() as sums:
        return {
            array_name: sums.sha256(Path(arrays[array_name].filename))  # type: ignore[attr-defined]
            for name in dataset.shards or {}
            for i, file in enumerate(dataset.shards_of(name))
            if file.sha256 is None and (array_name := numbered(name, i)) in arrays
        }


def numbered(name: str, i: int) -> str:
    """The name of shard `i` of the array `name`, as an array."""
    return f"{name}_{i:04d}"


def _make(benchmark: Benchmark, root: Path, missing: list[File]) -> None:
    """Make the missing files; the dataset's first file is made before the others, which may read it.

    If it is missing, the others without a declared sum are made again: nothing tells whether they fit the new one.
    """
    dataset = benchmark.dataset
    alone = [file for file in missing if file == dataset.members[0]]
    if alone:
        missing = [file for file in dataset.members if file in missing or file.sha256 is None]
    beside = [file for file in missing if file not in alone]
    given = (benchmark.task, benchmark.scale, root)
    with tqdm(total=len(missing), desc=dataset.name, unit="file", disable=not sys.stderr.isatty()) as bar:
        for files_now, outdated in ((alone, _undeclared_files(dataset, root)), (beside, [])):
            if not files_now:
                continue
            processes = min(len(files_now), os.cpu_count() or 1, PROCESSES)
            with Pool(processes) as pool:
                making = [pool.submit(_make_one, *given, file, outdated) for file in files_now]
                for made in as_completed(making):
                    made.result()
                    bar.update()


def _undeclared_files(dataset: Dataset, root: Path) -> list[Path]:
    """The files in `root` for which the dataset declares no sum, also shards that `subset=` leaves out of it."""
    found = {root / file.path for file in dataset.members if file.sha256 is None}
    for name, form in (dataset.shards or {}).items():
        if None in (file.sha256 for file in dataset.shards_of(name)):
            found.update(root.glob(f"{form.files}*"))
    return sorted(found)


def _make_one(task: str, scale: str, root: Path, file: File, outdated: Sequence[Path] = ()) -> None:
    """Make a file; delete those that are `outdated` by it before it appears, lest a process killed then leaves them."""
    place = root / file.path
    place.parent.mkdir(parents=True, exist_ok=True)
    load_sharding(task).make(scale, root, file.path, partial(place))
    size, found = partial(place).stat().st_size, sha256(partial(place)) if file.sha256 else None
    if (size, found) != (file.bytes, file.sha256):
        raise UserError(
            f"{task}/{scale}: {file.path} was made with {size} bytes, sha256 {found}; declared are {file.bytes} bytes, "
            f"sha256 {file.sha256}. The packages may be of other versions than the suite's: "
            "pip install -c constraints.txt"
        )
    sync(partial(place))  # ext4 keeps the length that truncate() gives a file, though a power cut takes what it holds
    for path in outdated:
        path.unlink(missing_ok=True)
    partial(place).replace(place)
