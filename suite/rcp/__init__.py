"""Reference convergence points: `points` makes them from evidence, `showing` shows them as a table and as curves."""
