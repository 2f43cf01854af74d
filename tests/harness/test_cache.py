"""Clearing the caches leaves the data as it was."""

import errno
import os
import re
from pathlib import Path

import numpy as np
import pytest

from suite.harness.cache import clear_cache


def resident(path):
    """How many of a mapped file's kilobytes this process holds in memory."""
    maps = Path("/proc/self/smaps").read_text()
    return int(re.search(rf"{re.escape(str(path))}\n(?:.*\n)*?Rss: +(\d+)", maps)[1])


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system cannot drop files from its page cache")
def test_the_arrays_are_read_afresh_from_their_files(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.arange(100_000))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert mapped.sum() == 4999950000
    assert resident(tmp_path / "a.npy") > 0
    assert clear_cache({"mapped": mapped, "made": np.arange(3)})
    assert resident(tmp_path / "a.npy") == 0
    assert mapped.sum() == 4999950000
    dropped, order = [], []
    monkeypatch.setattr(os, "posix_fadvise", lambda *given: dropped.append(given[1:]) or order.append("dropped"))
    monkeypatch.setattr(os, "fsync", lambda _: order.append("on the disk"))
    assert clear_cache({"mapped": mapped, "made": np.arange(3)})
    assert dropped == [(0, 0, os.POSIX_FADV_DONTNEED)]
    assert order == ["on the disk", "dropped"]  # what is not on the disk yet is dropped from no cache


def test_a_file_system_that_cannot_be_written_to_or_a_system_that_cannot_drop_files_ends_no_run(tmp_path, monkeypatch):
    def refuse(_):
        raise OSError(errno.EROFS, "Read-only file system")

    np.save(tmp_path / "a.npy", np.arange(10))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    monkeypatch.setattr(os, "fsync", refuse)
    assert clear_cache({"mapped": mapped}) is hasattr(os, "posix_fadvise")
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    assert clear_cache({"mapped": mapped}) is False
