"""PyTorch's bricks; see `Framework`."""

from suite.bricks.frameworks.torch_recording import record
from suite.bricks.frameworks.torch_running import runner, tried
from suite.bricks.frameworks.torch_table import FUNCTIONS as OPERATORS
from suite.probe.instruments.torch_models import listed

SPREADS_LATE = False  # OpenMP's threads stay awake until the next operation

__all__ = ["OPERATORS", "SPREADS_LATE", "listed", "record", "runner", "tried"]
