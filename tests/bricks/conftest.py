"""Bricks are timed as on a processor with a small cache: what a server's of 300 MB keeps takes 16 s to measure."""

import pytest

from suite.bricks import measuring


@pytest.fixture(autouse=True)
def small_cache(monkeypatch):
    monkeypatch.setattr(measuring, "cache_bytes", lambda: 1 << 24)
