"""What a task and its implementations promise, tried out: `python -m suite.check`.

`ledger` notes which promises hold, `declared` looks at conf/task and the task's data, `training` at one implementation,
`scoring` at its predictions, `frameworks` at two implementations beside each other, `showing` prints.
"""
