"""What a worker is told of its machine."""

import os

import pytest

from suite.harness.implementation import Device
from suite.measure.cpus import bound as bound_here

HOSTS = ("a:1", "a:2", "b:1", "b:2")


@pytest.mark.parametrize(("addresses", "cpus"), [((), 8), (HOSTS, 4), (("a:1",) * 16, 1)])
@pytest.mark.parametrize("bound", [8, 4])
def test_cpus_are_the_workers_share_also_where_it_is_bound_to_them(addresses, cpus, bound, monkeypatch):
    """As `take_share` binds it on several NUMA nodes: what it keeps to is its share already."""
    monkeypatch.setattr("suite.measure.cpus._AFFINITY", range(8))
    monkeypatch.setattr("suite.measure.cgroup.cpu_quota", lambda: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(bound), raising=False)
    assert Device("gpu", "fp32", addresses=addresses).cpus == cpus


@pytest.mark.parametrize(
    ("own", "masks", "cpus"),
    [
        ({0, 1}, "0x3,0xc", 4),  # two CPUs for each of two tasks
        ({2, 3}, "0x3,0xc*3", 4),
        ({1}, "0x3,0xc", 1),  # bound anew by taskset
        ({0, 1}, "0x3", 2),
    ],
)
def test_cpus_are_those_of_all_tasks_that_srun_binds_on_the_node(own, masks, cpus, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: own, raising=False)
    found = bound_here({"SLURM_CPU_BIND_TYPE": "mask_cpu:", "SLURM_CPU_BIND_LIST": masks})
    assert len(found) == cpus
    assert own <= found
    assert bound_here({}) == own
    assert bound_here({"SLURM_CPU_BIND_TYPE": "none", "SLURM_CPU_BIND_LIST": ""}) == own
    for unknown in ({}, {"SLURM_CPU_BIND_LIST": ""}, {"SLURM_CPU_BIND_LIST": "node 3"}):
        assert bound_here({"SLURM_CPU_BIND_TYPE": "mask_cpu:", **unknown}) == own
