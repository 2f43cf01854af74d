"""TensorFlow's bricks; see `Framework`."""

from suite.bricks.frameworks.tensorflow_recording import record
from suite.bricks.frameworks.tensorflow_running import runner, tried
from suite.bricks.frameworks.tensorflow_table import FUNCTIONS as OPERATORS
from suite.probe.instruments.tensorflow_models import listed

SPREADS_LATE = True  # its threads sleep between bricks; within a step they are kept awake

__all__ = ["OPERATORS", "SPREADS_LATE", "listed", "record", "runner", "tried"]
