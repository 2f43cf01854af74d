"""Time, cost and energy to a fixed quality, with evidence that a stranger can check."""

__version__ = "0.1.0"
