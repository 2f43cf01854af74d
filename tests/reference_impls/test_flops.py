"""What conf/task says of a model's parameters, and of a training sample's operations, is what PyTorch counts."""

from contextlib import nullcontext

import pytest

from suite import config
from suite.config.models import Benchmark
from suite.harness import contract
from suite.harness.implementation import Device, load_implementation
from suite.probe.workload import Training
from suite.store.arrays import prepared
from suite.store.task import load_task
from tests.bench.device import Counted, on_meta
from tests.reference_impls import flops

EVERY = [config.benchmark(task, scale) for task in config.names("task") for scale in config.scales(task)]
DECLARED = [
    pytest.param(
        each,
        id=each.name,
        marks=(pytest.mark.data(each.name), pytest.mark.soak) if each.dataset.files or each.dataset.made else (),
    )
    for each in EVERY
    if each.train_flops_per_sample
]
# In lengths, in arrays that are trained for some epochs, and in how many words are rare
DIFFER = "image_classification", "language_modeling/small", "recommendation/small", "speech", "translation"
SHAPES_ALONE = "image_classification", "translation"  # decide what is computed: followed without computing it
STEPS_THAT_DIFFER = 10, 0.1  # so many steps, along a run or of its beginning, are as near as this to the mean


@pytest.mark.parametrize("benchmark", DECLARED)
def test_declared_operations_and_parameters_are_those_counted(benchmark: Benchmark):
    data = prepared(benchmark, load_task(benchmark.task))
    module = load_implementation(benchmark.task, config.framework("torch"))
    steps, away = STEPS_THAT_DIFFER if benchmark.name.startswith(DIFFER) else (1, 0)
    counted = 0
    with on_meta("reference_impls", Counted()) if benchmark.task in SHAPES_ALONE else nullcontext():
        made = contract.build(module, benchmark, data, 1, Device("cpu", "fp32"))
        workload = Training(made, benchmark)
        state = made.state_dict()
        for index in range(steps):
            workload.go_to(index)
            counted += flops.torch(lambda: workload.run(1))
    moments = {name for name in state if not name.startswith("average/")}
    trained = {name.partition("/")[2] for name in moments} & state.keys()  # those that have a moment
    assert sum(state[name].size for name in trained) == benchmark.parameters
    assert counted / (steps * workload.samples) == pytest.approx(benchmark.train_flops_per_sample, rel=away)
