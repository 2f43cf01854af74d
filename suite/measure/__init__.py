"""What the machine is, and what a run took of it: load, energy, cost."""
