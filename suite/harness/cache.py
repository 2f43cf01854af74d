"""Clearing the caches before a run, so that it reads its data afresh."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from contextlib import suppress

import numpy as np


def clear_cache(data: Mapping[str, np.ndarray]) -> bool:
    """Drop the arrays from this process's memory and from the page cache; return False if the system cannot.

    Arrays that are not memory maps are left: this process made them, so they have no file to be read from again.
    """
    if not hasattr(os, "posix_fadvise"):
        return False
    for array in data.values():
        mapping = getattr(array, "_mmap", None)
        if isinstance(array, np.memmap) and mapping is not None and array.filename is not None:
            mapping.madvise(mmap.MADV_DONTNEED)
            descriptor = os.open(array.filename, os.O_RDONLY)
            with suppress(OSError):  # on a read-only file system
                os.fsync(descriptor)  # pages just written stay cached until they are on the disk
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
    return True
