"""Many models at the price of their parts: `python -m suite.bricks` makes bricks, measures them, composes models.

Models share layers: of thousands of calls a fifth are unique. A **brick** is an operator call, or a chain of calls,
with the shapes of its inputs. `frameworks/` has a group of files for each framework: it records the calls that a
model's own code makes in a step, in PyTorch mostly from shapes alone, and runs a brick from its description in a file,
through a closed table of operators. `chaining` turns calls into bricks, `measuring` times them, `composing` adds the
times up, `private` hides the models. `brick` and `record` are the schemas of the files, which may be a stranger's.
After DLBricks (C. Li et al. 2019, arXiv:1911.07967), here with training, any batch size and any precision.
"""
