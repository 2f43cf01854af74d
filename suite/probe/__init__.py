"""Where the time goes: one instrument, `python -m suite.probe`, for a workload seen at a level.

A **workload** is something that trains or infers, step by step, under stated conditions: one of the tasks at a scale in
a framework, through the seam and so with the very code that a run times; or a model of torchvision or Keras by its
name, on synthetic data. A **level** is one way to look at it: how fast it is, what each phase of a step takes, each
layer, each kind of operator, how much memory.

An implementation is watched from outside, by what its framework offers: module hooks and its profiler in PyTorch; in
TensorFlow the callback that each operation of a traced function is reported to, and its profiler. So an eighth task,
or a stranger's implementation, is probed without a line of its own, and the code that is measured is not changed for
the measurement. What cannot be watched as it is run, such as what XLA or a CUDA graph joined, is taken apart first;
what that costs stands beside the figures, as the ratio to the same steps unwatched.

`workload` says what is measured, `levels/` has one file for each way to look, `instruments/` one for each framework,
`sweeping` repeats and interleaves the cells of a sweep, `record` is the schema of what was found, `showing` prints it.
"""
