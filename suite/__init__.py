"""Time, cost and energy to a fixed quality, with evidence that a stranger can check."""

import sys

__version__ = "0.1.0"

if sys.argv[:1] == ["-m"]:  # as `python -m suite.X` begins: Ctrl-C while it imports has no traceback, as in `command`
    sys.excepthook = lambda kind, error, at: None if kind is KeyboardInterrupt else sys.__excepthook__(kind, error, at)
