"""Time, energy and cost to the target, on a machine before it is rented: `python -m suite.forecast`.

A run takes: its start, its steps, its evaluations. `needed` says how many samples, and so steps and evaluations, by the
reference convergence points of conf/rcp/; `rates` what each takes, from a probe at level=clock, or from peak rates;
`workers` what several add for communication. `model` draws many runs from these: median, and 90 % interval.
"""
