from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from suite.config.dataset import File
from suite.errors import UserError
from suite.store import sums
from suite.store.arrays import UNUSED_S, array_sha256, prepared, prepared_to_score
from suite.store.disk import partial
from tests.store.conftest import MEMBERS, dataset, tar
from tests.store.ten import EMBEDDED, RIGHT, Arrays, Task, benchmark, same


def test_arrays_are_memory_mapped_read_only_and_prepared_once() -> None:
    task = Task()
    for _ in range(3):
        arrays = prepared(benchmark(), task)
        assert same(arrays)
        assert all(isinstance(array, np.memmap) and not array.flags.writeable for array in arrays.values())
    assert len(task.given) == 1


def test_the_task_gets_the_folder_of_verified_files(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/set.tar").write_bytes(tar(MEMBERS))
    files = dataset(tar(MEMBERS), "http://127.0.0.1:1").model_copy(
        update={"arrays": EMBEDDED.arrays, "eval_samples": 10}
    )
    task = Task()
    assert same(prepared(benchmark(files), task, str(tmp_path / "data")))
    assert task.given == [("mini", tmp_path / "data")]
    assert (tmp_path / "data/set/a.bin").read_bytes() == MEMBERS["set/a.bin"]


def test_missing_files_are_an_error_before_any_preparation(tmp_path: Path) -> None:
    task = Task()
    for bring in (prepared, prepared_to_score):
        with pytest.raises(UserError, match="is missing"):
            bring(benchmark(dataset(b"-", "http://127.0.0.1:1")), task, str(tmp_path))
    assert task.given == []


wrong: dict[str, Callable[[], Arrays]] = {
    "other content": lambda: RIGHT | {"images": RIGHT["images"] + 1},
    "other dtype": lambda: RIGHT | {"images": RIGHT["images"].view(np.int8)},
    "other shape": lambda: RIGHT | {"images": RIGHT["images"].reshape(60, 10)},
}


@pytest.mark.parametrize("make", wrong.values(), ids=wrong.keys())
def test_an_array_that_is_not_the_declared_one_is_named_with_both_sums(make: Callable[[], Arrays]) -> None:
    with pytest.raises(UserError) as error:
        prepared(benchmark(), Task(make))
    for part in ("ten/mini", "'images'", EMBEDDED.arrays["images"], array_sha256(make()["images"])):
        assert part in str(error.value)
    assert same(prepared(benchmark(), Task())), "what was wrong must not be cached"


def test_names_must_be_exactly_the_declared_ones() -> None:
    with pytest.raises(UserError, match=r"'extra'.*expected sha256 none declared, found [0-9a-f]{64}"):
        prepared(benchmark(), Task(lambda: RIGHT | {"extra": np.zeros(1)}))
    with pytest.raises(UserError, match=r"'images'.*found no such array"):
        prepared(benchmark(), Task(lambda: {n: a for n, a in RIGHT.items() if n != "images"}))
    with pytest.raises(UserError, match="none declared"):
        prepared(benchmark(EMBEDDED.model_copy(update={"arrays": {}})), Task())
    undeclared = EMBEDDED.model_copy(update={"arrays": dict.fromkeys(RIGHT)})
    with pytest.raises(UserError, match=r"'images'.*found no such array"):
        prepared(benchmark(undeclared), Task(lambda: {n: a for n, a in RIGHT.items() if n != "images"}))


def test_sizes_must_be_the_declared_ones() -> None:
    with pytest.raises(UserError, match=r"eval_samples of Ten is 9, but its arrays hold 10: declare eval_samples: 10 "):
        prepared(benchmark(EMBEDDED.model_copy(update={"eval_samples": 9})), Task())


HEADER = b"\x93NUMPY\x01\x00"


@pytest.mark.parametrize("damage", [b"", b"garbage", HEADER, HEADER + b"\4\0" + b"{'(\n", None])
def test_a_damaged_cache_is_made_again(damage: bytes | None) -> None:
    prepared(benchmark(), Task())
    (stored,) = (sums.cache_dir() / "arrays").glob("*/*/images.npy")
    content = stored.read_bytes()
    stored.write_bytes(content[:-1] + b"?" if damage is None else damage)
    task = Task()
    assert same(prepared(benchmark(), task))
    assert len(task.given) == 1
    assert stored.read_bytes() == content


def test_a_disk_that_gives_back_other_arrays_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    save = np.save
    monkeypatch.setattr(np, "save", lambda path, array, **rest: save(path, array + 1, **rest))
    with pytest.raises(UserError, match=r"'answer_labels' of Ten: expected .* when read back from .*: check that disk"):
        prepared(benchmark(), Task())


def test_changed_preparation_code_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    code = inspect.cleandoc("""
        import numpy as np
        calls = 0
        def prepare(scale, files):
            global calls
            calls += 1
            return {"n": np.arange(3)}
        def split_sizes(data):
            return {"eval_samples": 10}
    """)
    (tmp_path / "preparing_ten.py").write_text(code)
    task = importlib.import_module("preparing_ten")
    ten = benchmark(EMBEDDED.model_copy(update={"arrays": {"n": array_sha256(np.arange(3))}}))
    prepared(ten, task)
    prepared(ten, task)
    assert task.calls == 1
    (tmp_path / "preparing_ten.py").write_text(code + "\n# another version\n")
    prepared(ten, task)
    assert task.calls == 2
    (tmp_path / "beside_it.py").write_text("# which it may import")
    prepared(ten, task)
    assert task.calls == 3


def test_arrays_of_other_code_stay_for_a_week_after_their_last_use(tmp_path: Path) -> None:
    """A run of another checkout may be about to read them."""
    empty = hashlib.sha256(b"").hexdigest()
    first, second, third = (
        benchmark(EMBEDDED.model_copy(update={"files": (File(path=f"{n}", bytes=0, sha256=empty),)})) for n in range(3)
    )
    for n in range(3):
        (tmp_path / str(n)).touch()

    def kept() -> set[Path]:
        return {path.parent for path in (sums.cache_dir() / "arrays").glob("*/*/images.npy")}

    prepared(first, Task(), str(tmp_path))
    (of_first,) = kept()
    prepared(second, Task(), str(tmp_path))
    assert len(kept()) == 2
    for folder in kept():
        os.utime(folder, (0, time.time() - UNUSED_S - 60))
    prepared(first, Task(), str(tmp_path))
    prepared(third, Task(), str(tmp_path))
    assert len(kept()) == 2
    assert of_first in kept()


def test_processes_that_start_together_prepare_once() -> None:
    task = Task()
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: same(prepared(benchmark(), task)), range(4)))
    assert len(task.given) == 1


@pytest.mark.parametrize(("short_s", "said"), [(0.0, "another process is preparing or verifying ten/mini"), (60.0, "")])
def test_a_wait_for_another_process_is_told_once_if_it_is_long(
    short_s: float, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("suite.store.disk._SHORT_S", short_s)
    began = Event()

    def slowly() -> Arrays:
        began.set()
        time.sleep(1)
        return dict(RIGHT)

    with ThreadPoolExecutor() as pool:
        first = pool.submit(prepared, benchmark(), Task(slowly))
        began.wait()
        assert same(prepared(benchmark(), Task()))
        assert same(first.result())
    assert capsys.readouterr().err == (f"{said}: waiting for it\n" if said else "")


def test_the_lock_is_let_go_of_and_not_left_to_the_garbage_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    locks: list[FileLock] = []

    def remembered(path: Path, **options: bool) -> FileLock:
        locks.append(FileLock(path, **options))
        return locks[-1]

    monkeypatch.setattr("suite.store.disk.FileLock", remembered)
    prepared(benchmark(), Task())
    assert [lock.is_locked for lock in locks] == [False]


def test_without_a_cache_the_arrays_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("SUITE_DATA", str(tmp_path))
    arrays = prepared(benchmark(), Task())
    assert same(arrays)
    assert not any(array.flags.writeable for array in arrays.values())


arrays = npst.arrays(st.sampled_from(["u1", "<i4", ">i4", "<f4", "?", "<M8[s]", "<U2"]), npst.array_shapes(min_dims=0))


@given(arrays)
def test_the_sum_does_not_depend_on_the_memory_layout(array: np.ndarray) -> None:
    spread = np.repeat(array[..., None], 2, axis=-1)[..., 0]
    assert array_sha256(array) == array_sha256(array.copy(order="F")) == array_sha256(spread)


@given(arrays, arrays)
def test_the_sum_tells_dtype_shape_and_bytes_apart(one: np.ndarray, two: np.ndarray) -> None:
    same = (one.dtype.str, one.shape, one.tobytes()) == (two.dtype.str, two.shape, two.tobytes())
    assert (array_sha256(one) == array_sha256(two)) == same


def test_the_sum_is_the_documented_one() -> None:
    assert array_sha256(np.array([[1, 2]], dtype="<u2")) == hashlib.sha256(b"<u2 1x2\n\1\0\2\0").hexdigest()


def test_arrays_without_a_declared_sum_are_those_of_the_files_that_lie_there(tmp_path: Path) -> None:
    undeclared = dict.fromkeys(EMBEDDED.arrays, None)
    made = []
    for name, content in (("one", b"first"), ("other", b"others"), ("one", b"first")):
        place = tmp_path / name / "set/a.bin"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        files = dataset(tar(MEMBERS), "http://127.0.0.1:1").model_copy(
            update={
                "arrays": undeclared,
                "eval_samples": 10,
                "archive": None,
                "files": (File(path="set/a.bin", bytes=len(content), sha256=None),),
            }
        )
        task = Task()
        prepared(benchmark(files), task, str(tmp_path / name))
        made.append(len(task.given))
    assert made == [1, 1, 0]


def test_what_a_killed_preparation_left_goes() -> None:
    first = prepared(benchmark(), Task())
    cache = Path(first["empty"].filename).parent  # type: ignore[attr-defined]
    left = partial(cache)
    left.mkdir()
    (left / "half.npy").write_bytes(b"x")
    shutil.rmtree(cache)
    assert same(prepared(benchmark(), Task()))
    assert not left.exists()
