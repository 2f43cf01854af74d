"""Several workers, one process for each accelerator: rank 0 leads, and each of its calls goes to the followers too."""
