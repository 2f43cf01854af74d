"""TensorFlow's bricks; see `Framework`."""

from suite.bricks.frameworks.tensorflow_recording import record
from suite.bricks.frameworks.tensorflow_running import runner, runs
from suite.bricks.frameworks.tensorflow_table import FUNCTIONS
from suite.probe.instruments.tensorflow_models import listed

SPREADS_LATE = True  # threads that sleep between bricks, which a step keeps awake


def known(op: str) -> bool:
    """See `Framework.known`."""
    return op in FUNCTIONS


__all__ = ["SPREADS_LATE", "known", "listed", "record", "runner", "runs"]
