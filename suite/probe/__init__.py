"""Show where the time goes: one instrument, `python -m suite.probe`, looks at a workload at a level.

A **workload** is anything that trains or infers, step by step, under stated conditions: a task at a scale in a
framework, run through the seam and so by the very code that a run times; or a model of torchvision or Keras, given by
name, on synthetic data. A **level** is one way to look at it: how fast it is, how long each phase, layer or kind of
operator takes, how much memory it holds.

An implementation is watched from outside, with what its framework offers: in PyTorch module hooks and the profiler; in
TensorFlow the callback that reports each operation of a traced function, and the profiler. So an eighth task, or a
stranger's implementation, needs no code of its own to be probed, and the measured code is not changed for the
measurement. What cannot be watched as it runs, such as what XLA or a CUDA graph has fused, is taken apart first; the
cost of that is reported beside the figures, as the ratio to the same steps unwatched.

`workload` defines what is measured, `levels/` has one file for each level, `instruments/` one for each framework,
`sweeping` repeats and interleaves the cells of a sweep, `record` is the schema of the results, `showing` prints them.
"""
