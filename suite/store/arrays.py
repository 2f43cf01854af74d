"""Prepared arrays: made once from a dataset's files, cached as memory-mapped .npy files, verified at each use.

The cache lies in the user's cache folder and can be deleted at any time. Each folder in it is named by a hash of all
that its content depends on. If no cache can be written, the arrays stay in memory.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np

from suite.config.dataset import Dataset
from suite.config.models import Benchmark
from suite.errors import UserError
from suite.store import files, shards
from suite.store.disk import holding, partial
from suite.store.sums import RememberedSums, cache_dir
from suite.store.task import Arrays, Task, check_sizes, prepare

UNUSED_S = 60 * 24 * 3600  # after which arrays of other declarations or code are deleted when new ones are stored


def array_sha256(array: np.ndarray) -> str:
    """The sha256 of `dtype.str`, a space, the shape as `2x3`, a newline, and the elements' bytes in C order."""
    assert not array.dtype.hasobject, "an array of Python objects has no content to hash"
    shape = "x".join(map(str, array.shape))
    found = hashlib.sha256(f"{array.dtype.str} {shape}\n".encode())
    found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def prepared(benchmark: Benchmark, task: Task, data_dir: str | None = None) -> Arrays:
    """The benchmark's arrays, read-only, verified against the sha256 sums and the sizes that the dataset declares.

    Brings the dataset's files first (`suite.store.shards.ensure`), and calls `task.prepare(scale, folder)` if the cache
    does not hold the right arrays. Raises UserError naming the array, its declared and its found sum, or the size.
    """
    folder = shards.ensure(benchmark, files.root(data_dir))
    arrays = {**_prepared(benchmark, task, folder), **shards.mapped(benchmark, folder)}
    check_sizes(benchmark, task, arrays)
    return arrays


def prepared_to_score(benchmark: Benchmark, task: Task, data_dir: str | None) -> Arrays:
    """The arrays that `task.score` needs: those of `prepared` without the shards. Brings no files.

    Raises UserError for a file that is missing or wrong, too.
    """
    folder = files.root(data_dir)
    if missing := files.faults(benchmark.dataset.evaluation, folder):
        raise UserError(missing[0].problem)
    return _prepared(benchmark, task, folder)


def sums(dataset: Dataset, arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The sha256 of each array, as declared or else as found. Shards without a declared sum get that of their file."""
    made = {name: declared or array_sha256(arrays[name]) for name, declared in dataset.arrays.items()}
    return {**made, **shards.undeclared(dataset, arrays)}


def _prepared(benchmark: Benchmark, task: Task, folder: Path) -> Arrays:
    """The arrays that the task prepares from the files in `folder`, from the cache if it holds them."""
    dataset = benchmark.dataset
    cache = cache_dir() / "arrays" / f"{benchmark.task}-{benchmark.scale}" / _key(benchmark, task, folder)
    with _alone(cache, f"another process is preparing or verifying {benchmark.name}"):
        arrays = _load(cache)
        with suppress(OSError):
            os.utime(cache)
        if not arrays or _fault(dataset, arrays):
            arrays = prepare(benchmark, task, folder)
            if fault := _fault(dataset, arrays):
                raise UserError(
                    f"{benchmark.name}: {fault}. The packages may be of other versions than the suite's: "
                    "pip install -c constraints.txt. After a change to the task, declare the new sums in conf/task/: "
                    f"python -m suite.check task={benchmark.task} prints them all."
                )
            arrays = _store(cache, arrays)
            if fault := _fault(dataset, arrays):
                raise UserError(f"{benchmark.name}: {fault} when read back from {cache}: check that disk.")
    return arrays


def _key(benchmark: Benchmark, task: Task, folder: Path) -> str:
    """The cache key: a hash of what is declared of the dataset and of the source of the code that prepares it.

    If the sum of an array is not declared, the key also depends on the contents of the files in `folder`.
    """
    dataset = benchmark.dataset
    named = [benchmark.name, dataset.model_dump(mode="json", include={"files", "made", "arrays"})]
    own = Path(inspect.getfile(sys.modules[task.prepare.__module__])).parent
    named.append([path.read_text() for path in sorted(own.glob("*.py"))])
    if None in dataset.arrays.values():
        with RememberedSums() as sums:
            named.append([sums.sha256(folder / file.path) for file in dataset.evaluation.members])
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()


@contextmanager
def _alone(cache: Path, busy: str) -> Iterator[None]:
    """Keeps other processes from preparing the same arrays meanwhile, if the cache can be written."""
    with ExitStack() as stack:
        with suppress(OSError):
            cache.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(holding(Path(f"{cache}.lock"), busy=busy))
        yield


def _load(cache: Path) -> Arrays:
    """The cached arrays that can be read; none if there is no such folder."""
    arrays = {}
    for path in cache.glob("*.npy"):
        try:
            arrays[path.stem] = np.load(path, mmap_mode="r")
        except Exception:  # numpy parses the header as Python, and raises a dozen kinds for a damaged one
            continue
    return arrays


def _store(cache: Path, arrays: Arrays) -> Arrays:
    """Store the arrays and return them memory-mapped; if the cache cannot be written, as they are but read-only."""
    try:
        fresh = partial(cache)
        shutil.rmtree(fresh, ignore_errors=True)  # left by a process that was killed
        fresh.mkdir()
        for name, array in arrays.items():
            np.save(fresh / f"{name}.npy", array, allow_pickle=False)
        shutil.rmtree(cache, ignore_errors=True)
        fresh.rename(cache)
        for other in cache.parent.glob("?" * len(cache.name)):  # of other declarations or code, perhaps in use
            with suppress(FileNotFoundError):
                if time.time() - other.stat().st_mtime > UNUSED_S:
                    shutil.rmtree(other, ignore_errors=True)
        return _load(cache)
    except OSError:
        shutil.rmtree(partial(cache), ignore_errors=True)
        for array in arrays.values():
            array.setflags(write=False)
        return arrays


def _fault(dataset: Dataset, arrays: Arrays) -> str:
    """How the arrays differ from those that the dataset declares; empty if they do not."""
    for name in sorted(dataset.arrays.keys() | arrays.keys()):
        expected = dataset.arrays.get(name, "none declared")
        found = array_sha256(arrays[name]) if name in arrays else "no such array"
        if found != expected and (expected is not None or name not in arrays):
            return f"prepared array {name!r} of {dataset.name}: expected sha256 {expected}, found {found}"
    return ""
