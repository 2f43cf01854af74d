"""PyTorch's bricks; see `Framework`."""

from suite.bricks.frameworks.torch_recording import record
from suite.bricks.frameworks.torch_running import runner, runs
from suite.bricks.frameworks.torch_table import FUNCTIONS
from suite.probe.instruments.torch_models import listed

SPREADS_LATE = False  # OpenMP's threads wait awake for the next operation


def known(op: str) -> bool:
    """See `Framework.known`."""
    return op in FUNCTIONS


__all__ = ["SPREADS_LATE", "known", "listed", "record", "runner", "runs"]
