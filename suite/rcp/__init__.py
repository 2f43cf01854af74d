"""Reference convergence points: `points` makes them from evidence, `showing` tells and draws them."""
