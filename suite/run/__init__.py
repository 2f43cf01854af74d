"""Training to the target: from the command line to options, a plan, the runs and what is printed of them."""
