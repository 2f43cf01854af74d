"""What the machine is, and what a run uses of it: load, energy, cost."""
