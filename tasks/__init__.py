"""What each task is: its data and its metric. Targets, sums and hyperparameters are values in `conf/task/`."""
