"""The timed run: clock, seeds, checkpoints, the stop decision. Knows no framework and no task."""
