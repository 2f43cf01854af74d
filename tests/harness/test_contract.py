"""Whom the errors of an implementation are blamed on."""

from types import SimpleNamespace

import pytest

from suite import config
from suite.errors import UserError
from suite.harness import contract
from suite.harness.implementation import Device
from suite.store.authors import place


@pytest.mark.parametrize(("addresses", "raised"), [((), UserError), (("here:1", "there:1"), RuntimeError)])
def test_a_changed_hyperparameter_is_not_blamed_for_workers_that_cannot_reach_each_other(addresses, raised):
    def build(*_):
        raise RuntimeError("connectFullMesh failed")

    benchmark = config.benchmark("translation", "mini")
    changed = benchmark.model_copy(update={"hyperparameters": {**benchmark.hyperparameters, "dropout": 0.5}})
    device = Device("cpu", "fp32", addresses=addresses)
    with pytest.raises(raised, match="connectFullMesh failed"):
        contract.build(SimpleNamespace(build=build), changed, {}, 1, device)


def test_a_syntax_error_lies_in_the_file_that_has_it():
    with pytest.raises(SyntaxError) as raised:
        compile("x = (", "/home/me/tasks/mine/__init__.py", "exec")
    assert place(raised.value) == "mine/__init__.py:1"
