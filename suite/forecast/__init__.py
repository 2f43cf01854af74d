"""Time, energy and cost to the target, on a machine before it is rented: `python -m suite.forecast`.

A run consists of its start, its steps and its evaluations. `needed` tells how many samples, and so steps and
evaluations, it takes, from the reference convergence points of conf/rcp/. `rates` tells how long each takes, from a
probe at level=clock, bricks or peak rates. `workers` adds the communication of several workers. `model` draws many runs
from these and gives their median and 90 % interval.
"""
