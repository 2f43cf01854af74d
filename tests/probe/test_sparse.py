"""A sparse tensor, such as the gradient of a large embedding, is looked at as its indices and its values."""

import pytest
import torch

from suite.harness.implementation import Device
from suite.probe import instruments
from suite.probe.kernels.problems import MatrixProduct
from tests.probe.made import Calls

CPU = Device("cpu", "fp32")
ROWS, WIDTH, LOOKED_UP = 1000, 8, 5
INDICES, VALUES = LOOKED_UP * 8, LOOKED_UP * WIDTH * 4  # bytes


def lookup() -> Calls:
    """Steps of an embedding of which a few rows are looked up."""
    model, chosen = torch.nn.Embedding(ROWS, WIDTH, sparse=True), torch.arange(LOOKED_UP)
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        model(chosen).square().sum().backward()
        optimizer.step()

    return Calls(step)


@pytest.fixture
def probe():
    return instruments.load("torch")


def test_of_the_weights_and_moments_only_the_rows_are_moved(probe):
    calls = probe.watch(lookup, CPU).trace(1).calls
    moved = {each.operator: each.bytes for each in calls if each.shapes.startswith(f"{ROWS}x{WIDTH} ")}
    assert moved["aten.add_"] == moved["aten.sparse_mask"] - INDICES == INDICES + 3 * VALUES


def test_it_holds_its_rows_alone(probe):
    step = probe.memory(lookup, CPU).step()
    assert step.gradients == INDICES + VALUES
    assert step.optimizer == 2 * step.parameters == 2 * ROWS * WIDTH * 4


def test_what_makes_it_is_judged(probe):
    judged = {each.operator: each for each in probe.judged(lookup, CPU)}
    for operator in ("aten._coalesce", "aten.sparse_mask"):
        assert judged[operator].why is None
        assert judged[operator].forward.l2 == 0


def test_weights_that_it_changes_are_held_to_float64(probe):
    assert all(0 < each < 1e-5 for each in probe.shadowed(lookup, CPU).after.values())


@pytest.mark.parametrize("sparse", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr])
def test_a_product_by_a_sparse_matrix_is_none_of_the_kinds_that_are_timed(probe, sparse):
    ones = torch.ones(4, 4)
    found = probe.called(lambda: (sparse(torch.eye(4)) @ ones, ones @ ones), CPU)
    assert found == {(MatrixProduct(4, 4, 4), "fp32"): 1}


@pytest.mark.parametrize(
    ("sparse", "indices"),
    [
        (lambda matrix: matrix.to_sparse(), 2 * 8),
        (lambda matrix: matrix.to_sparse_csr(), 9 + 8),
        (lambda matrix: matrix.to_sparse_csc(), 9 + 8),
        (lambda matrix: matrix.to_sparse_bsr(1), 9 + 8),
    ],
    ids=["coo", "csr", "csc", "bsr"],
)
def test_a_sparse_matrix_that_a_model_holds_takes_its_indices_and_values(probe, sparse, indices):
    class Graph(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("edges", sparse(torch.eye(8)).clone())

        def forward(self, x):
            return self.edges.to_dense() @ x

    graph = Graph()
    held = probe.memory(lambda: Calls(lambda: graph(torch.ones(8, 2))), CPU).step()
    assert held.buffers == 8 * 4 + indices * 8
    assert held.temporary >= 8 * 8 * 4
