"""An implementation in a framework that nobody has installed."""

import no_such_framework  # type: ignore[import-not-found]  # noqa: F401

ACCELERATORS = 1
