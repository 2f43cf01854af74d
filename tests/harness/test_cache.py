"""Clearing the caches leaves the data as it was."""

import os

import numpy as np
import pytest

from suite.harness.cache import clear_cache


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system cannot drop files from its page cache")
def test_the_arrays_are_read_afresh_from_their_files(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.arange(100_000))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert mapped.sum() == 4999950000
    assert clear_cache({"mapped": mapped, "made": np.arange(3)})
    assert mapped.sum() == 4999950000
    dropped, order = [], []
    monkeypatch.setattr(os, "posix_fadvise", lambda *given: dropped.append(given[1:]) or order.append("dropped"))
    monkeypatch.setattr(os, "fsync", lambda _: order.append("on the disk"))
    assert clear_cache({"mapped": mapped, "made": np.arange(3)})
    assert dropped == [(0, 0, os.POSIX_FADV_DONTNEED)]
    assert order == ["on the disk", "dropped"]  # what is not on the disk yet is dropped from no cache
