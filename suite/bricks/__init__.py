"""Many models at the price of their parts: `python -m suite.bricks` makes bricks, measures them, composes models.

Models share layers: of thousands of calls a fifth are unique. A **brick** is a call of an operator, or a chain of some,
with the shapes of what it is given. `frameworks/` has one file group for each framework: what a model's step calls is
recorded as its own code makes it, its shapes alone being computed; a brick is run from what its file says, by a closed
table of operators. `chaining` makes bricks of calls, `measuring` times them, `composing` adds them up, `private` hides
the models they are of. `brick` and `record` are the schemas of the files, which may be a stranger's. After DLBricks
(C. Li et al. 2019, arXiv:1911.07967), here with training, any batch, any precision.
"""
