"""What an implementation says of itself, read from its file."""

import ast
import importlib

import pytest

from suite import config
from suite.errors import BrokenContract
from suite.harness.declared import Declared, by_reference, declared
from suite.harness.implementation import frameworks

REFERENCES = [(task, framework) for task in config.names("task") for framework in frameworks(task)]


def said(text):
    return declared(ast.parse(text), "ours")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ACCELERATORS = 1", Declared(1, None)),
        ("ACCELERATORS = 1\nOWN_DRAWS = True", Declared(1, None, own_draws=True)),
        ("ACCELERATORS: int = 8\nPRECISIONS: tuple = ('fp32', 'fp8_rowwise')", Declared(8, ("fp32", "fp8_rowwise"))),
        ("ACCELERATORS = 1\nSHARED_BY = ('part_size',)", Declared(1, None, shared_by=("part_size",))),
    ],
)
def test_plain_values_are_read(text, found):
    assert said(text) == found


@pytest.mark.parametrize(
    "precisions", ["()", "('fp8',)", "'fp32'", "('fp32', 16)", "tuple(DTYPES)", "('fp32', *OTHERS)"]
)
def test_formats_that_are_none_break_the_contract(precisions):
    with pytest.raises(BrokenContract, match="ours has PRECISIONS that are no tuple of names"):
        said(f"ACCELERATORS = 1\nPRECISIONS = {precisions}")


@pytest.mark.parametrize("accelerators", ["True", "-4", "4.0", "None"])
def test_accelerators_that_are_no_number_break_the_contract(accelerators):
    with pytest.raises(BrokenContract, match="ours has no ACCELERATORS, or none that is a plain number"):
        said(f"ACCELERATORS = {accelerators}")


@pytest.mark.parametrize("names", ["'part_size'", "(1,)", "[]"])
def test_parts_of_a_step_that_are_not_plain_break_the_contract(names):
    with pytest.raises(BrokenContract, match="ours has SHARED_BY that is no tuple of names"):
        said(f"ACCELERATORS = 1\nSHARED_BY = {names}")


@pytest.mark.parametrize(
    ("shared_by", "hyperparameters", "parts"),
    [
        (None, {"global_batch_size": 8}, None),
        ((), {}, None),
        ((), {"global_batch_size": 8}, 8),
        (("part_size",), {"global_batch_size": 8}, 8),
        (("part_size",), {"global_batch_size": 8, "part_size": 3}, 2),
        (("part_size",), {"global_batch_size": 8, "part_size": 0}, None),
    ],
)
def test_a_step_has_as_many_parts_as_can_be_shared_out(shared_by, hyperparameters, parts):
    assert Declared(1, None, shared_by=shared_by).parts(hyperparameters) == parts


@pytest.mark.parametrize(("task", "framework"), REFERENCES)
def test_references_train_in_what_they_say_that_they_do(task, framework):
    written = set(importlib.import_module(f"reference_impls.{framework}_shared").DTYPES)
    own = config.benchmark(task, "mini").precision
    assert set(by_reference(task, config.framework(framework)).precisions) == ({own} if own else written)
