"""What rates are made of where a probe is odd, and what is assumed of an evaluation."""

import numpy as np
import pytest

from suite import config
from suite.errors import UserError
from suite.forecast import rates
from suite.measure.machine import Machine
from suite.probe.record import Figure
from tests.forecast import made
from tests.forecast.made import BENCHMARK

MACHINE = Machine("a processor", 4, 1, 8.0, False)


def test_a_cell_that_failed_tells_no_rates():
    (cell,) = made.probe([10.0], 200.0).cells
    with pytest.raises(UserError, match="a probe: recommendation/mini was not measured: out of memory"):
        rates.measured(cell.model_copy(update={"error": "out of memory"}), "a probe", BENCHMARK)


def test_no_more_than_a_whole_step_is_input():
    (cell,) = made.probe([10.0], 200.0).cells
    figures = {**cell.figures, "data phase": Figure(value=120.0, unit="%")}
    assert rates.measured(cell.model_copy(update={"figures": figures}), "a probe", BENCHMARK).data == 1


@pytest.mark.parametrize("strange", [True, "10", None, -1.0, 1e12])
def test_a_step_takes_a_number_of_milliseconds(strange):
    (cell,) = made.probe([10.0], 200.0).cells
    row = cell.rows[0].model_copy(update={"values": cell.rows[0].values | {"step": strange}})
    with pytest.raises(UserError, match="it lacks what a step or an evaluation takes"):
        rates.measured(cell.model_copy(update={"rows": [row]}), "a probe", BENCHMARK)


def test_an_evaluation_is_assumed_to_be_one_forward_pass_a_third_of_the_operations_of_training():
    v100 = config.system("v100")
    used = 0.5, 0.5
    found = rates.from_peaks(BENCHMARK, v100, MACHINE, "fp16", utilisation=used)
    seconds = BENCHMARK.train_flops_per_sample / (125e12 * 0.5)
    assert np.allclose(found.evaluation - found.scoring, BENCHMARK.dataset.eval_samples * seconds / 3, rtol=1e-6)
