"""What a task and its implementations promise, tried out: `python -m suite.check`.

`ledger` notes which promises hold, `declared` looks at conf/task and the task's data, `training` at one implementation,
`untouched` at what it reads, `scoring` at its predictions, `frameworks` at two beside each other; `showing` prints.
"""
