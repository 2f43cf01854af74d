"""The reference model and training step of each task, in each framework: flat files, to be read top to bottom."""
