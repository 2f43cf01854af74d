"""Prepared arrays on a disk that is full, or gives back other bytes than it was given."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from suite.errors import UserError
from suite.store import sums
from suite.store.arrays import prepared
from tests.store import ten as made

true = np.save


def test_a_full_disk_is_left_no_fuller_and_the_arrays_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, array: np.ndarray, **options: bool) -> None:
        true(path, array[:1], **options)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "save", full)
    arrays = prepared(made.benchmark(), made.Task())
    assert made.same(arrays)
    assert not any(array.flags.writeable for array in arrays.values())
    assert not list(sums.cache_dir().rglob("*.npy"))


def test_a_disk_that_gives_back_other_bytes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "save", lambda path, array, **options: true(path, array * 0, **options))
    with pytest.raises(UserError, match=r"when read back from .*/arrays/ten-mini/[0-9a-f]{64}: check that disk\.$"):
        prepared(made.benchmark(), made.Task())
