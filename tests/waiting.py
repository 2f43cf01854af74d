"""Wait for something that happens beside a test, however long it takes."""

import time
from collections.abc import Callable

FOREVER_S = 600  # even on a machine that is busy with other things; less than pytest's timeout


def until(condition: Callable[[], object]) -> None:
    """Return as soon as `condition()` holds; fail if it never does."""
    end = time.monotonic() + FOREVER_S
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)
