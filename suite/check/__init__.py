"""Checks of what a task and its implementations promise: `python -m suite.check`.

`ledger` records which promises hold. `configuration` checks conf/task and the task's data, `training` an
implementation, `untouched` what it reads, `scoring` its predictions, `frameworks` two of them together. `showing`
prints the results. `equivalence/` holds an implementation to the reference.
"""
