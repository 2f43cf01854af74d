"""What a forecast is made of, held to figures worked out by hand."""

import numpy as np
import pytest

from suite import config
from suite.errors import UserError
from suite.forecast import rates as of_rates
from suite.forecast import roughly
from suite.forecast.model import forecast, parts, samples_to_target
from suite.forecast.needed import Needed, Took, evaluations, needed, on_grid
from suite.forecast.workers import communication, ring
from suite.measure.machine import Machine
from suite.rules.reference import Reference
from tests.forecast import made
from tests.forecast.made import BATCH, BENCHMARK, seconds_at

MACHINE = Machine("a processor", 4, 1, 8.0, False)
CPU = config.system("cpu")
FIRST, EVERY = BENCHMARK.evaluation.first, BENCHMARK.evaluation.every


def test_a_run_is_its_start_its_steps_and_its_evaluations():
    samples = FIRST + 2 * EVERY
    known = made.rates(0.5, 7.0, start=3.0, communication=0.25)
    expected = 3 + samples / BATCH * (0.5 + 0.25) + 3 * 7
    assert seconds_at(BENCHMARK, known, samples) == pytest.approx(expected)
    told = forecast(made.needed([samples] * 9), known, CPU, MACHINE, "torch")
    assert (told.seconds.low, told.seconds.median, told.seconds.high) == pytest.approx([expected] * 3)
    assert told.cost is not None
    assert told.cost.median == pytest.approx(expected * 0.05132 * 4 / 3600)
    assert told.joules is None
    assert told.limited_by == "compute"
    assert told.shares["input"] is None
    assert told.shares["evaluation"] == pytest.approx(21 / expected)


def test_the_largest_part_limits_and_power_gives_energy():
    told = forecast(made.needed([FIRST] * 9), made.rates(0.001, 9.0, watts=50.0, data=0.25), CPU, MACHINE, "torch")
    assert told.limited_by == "evaluation"
    assert told.joules is not None
    assert told.joules.median == pytest.approx(50 * told.seconds.median)
    assert told.shares["input"] == pytest.approx(told.shares["compute"] / 3)


def test_steps_that_differ_along_a_run_are_counted_where_they_were_seen():
    """A step takes 10 ms in the first half of the budget and 30 ms after it."""
    budget = BENCHMARK.budget_samples
    uneven = BENCHMARK.model_copy(update={"uneven_steps": "images grow"})
    at = [round(budget * (part + 0.5) / 8) for part in (0, 3, 6, 1, 4, 7, 2, 5)]
    steps = [10.0 if each < budget / 2 else 30.0 for each in at]
    (cell,) = made.probe(steps, 200.0, at=at).cells
    known = of_rates.measured(cell, "probe", uneven)
    assert not any(note.startswith("CAUTION") for note in known.notes)
    count = evaluations(uneven, np.array([float(budget)]))[0]
    assert seconds_at(uneven, known, budget) == pytest.approx(0.1 + count * 0.2 + budget / BATCH * 0.020, rel=0.01)
    early = budget // 4
    count = evaluations(uneven, np.array([float(early)]))[0]
    assert seconds_at(uneven, known, early) == pytest.approx(0.1 + count * 0.2 + early / BATCH * 0.010, rel=0.01)


def test_the_pace_of_a_machine_whose_steps_differ_is_that_of_its_evaluations():
    uneven = BENCHMARK.model_copy(update={"uneven_steps": "images grow"})
    (cell,) = made.probe([10.0, 30.0], 100.0, at=[100, BENCHMARK.budget_samples]).cells
    slower = cell.rows[1].model_copy(update={"values": cell.rows[1].values | {"evaluation": 200.0}})
    known = of_rates.measured(cell.model_copy(update={"rows": [cell.rows[0], slower]}), "probe", uneven)
    assert _least_and_most(known.step) == pytest.approx((0.02 * 2 / 3 * 0.76, 0.02 * 4 / 3 * 1.27), rel=0.02)


def test_an_evaluation_is_that_of_a_model_which_has_learnt_a_little():
    """Of four repeats the first two translated without an end."""
    (cell,) = made.probe([50.0] * 4, 1000.0).cells
    for row, evaluation in zip(cell.rows, (9000.0, 5000.0, 2000.0, 1000.0), strict=True):
        row.values["evaluation"] = evaluation
    found = of_rates.measured(cell, "probe", BENCHMARK)
    assert _least_and_most(found.evaluation) == pytest.approx((1.0 * 0.76, 2.0 * 1.27), rel=0.02)


def test_a_runs_pace_may_be_another_than_the_probes_for_its_steps_and_evaluations_alike():
    (cell,) = made.probe([50.0] * 4, 1000.0).cells
    found = of_rates.measured(cell, "probe", BENCHMARK)
    assert _least_and_most(found.step) == pytest.approx((0.05 * 0.76, 0.05 * 1.27))
    assert np.allclose(found.evaluation, 20 * found.step)
    assert "assumed: a run takes 0.76 to 1.27 times what the probe saw" in found.notes


def test_where_only_the_first_of_uneven_steps_were_seen_there_is_a_caution():
    uneven = BENCHMARK.model_copy(update={"uneven_steps": "images grow"})
    (cell,) = made.probe([10.0, 11.0], 200.0).cells
    for benchmark in (BENCHMARK, uneven):
        notes = of_rates.measured(cell, "probe", benchmark).notes
        assert any(note.startswith("CAUTION") and "images grow" in note for note in notes) == (benchmark is uneven)


def test_samples_lie_where_a_run_is_evaluated():
    asked = np.array([1, FIRST, FIRST + EVERY - 1, FIRST + EVERY, FIRST + EVERY + BATCH - 1, 10**9], float)
    ends = on_grid(BENCHMARK, asked)
    assert ends.tolist()[:5] == [FIRST, FIRST, *[FIRST + EVERY] * 3]
    assert ends[5] > BENCHMARK.budget_samples
    assert evaluations(BENCHMARK, ends)[:4].tolist() == [1, 1, 2, 2]
    assert evaluations(BENCHMARK, asked)[4] == 2  # where it took place, at a whole step
    assert all(BENCHMARK.next_evaluation(int(end) - 1) == end for end in ends[:5])
    counted, samples = 0, 0
    while samples < BENCHMARK.budget_samples:
        counted, samples = counted + 1, BENCHMARK.next_evaluation(samples)
    assert evaluations(BENCHMARK, np.array([float(samples)]))[0] == counted


def test_an_evaluation_due_in_the_last_step_is_that_of_the_end():
    close = BENCHMARK.model_copy(update={"budget_samples": FIRST + 3 * EVERY + 1})
    end = np.array([float(close.budget_samples)])
    assert [int(evaluations(close, end, step)[0]) for step in (BATCH, 40)] == [5, 4]
    assert seconds_at(close, made.rates(0.0, 1.0, samples=40), close.budget_samples) == 4


def test_new_runs_take_what_those_seen_took_and_not_an_evaluation_more():
    """Those seen end at the first whole step after an evaluation was due."""
    seen = [FIRST + each * EVERY + BATCH - 1 for each in (2, 2, 3, 4, 4, 5, 6)]
    assert samples_to_target(made.needed([seen[0]] * 9)).median == FIRST + 2 * EVERY
    told = made.needed(seen).draw(20_000, np.random.default_rng(0)).samples
    assert np.mean(told) == pytest.approx(np.mean(seen) - BATCH + 1, abs=0.1 * EVERY)
    assert set(told) <= {FIRST + each * EVERY for each in range(9)}


@pytest.mark.parametrize("points", [5, 10])
def test_few_points_make_a_wide_interval_and_many_a_sound_one(points):
    """Of new runs from one distribution nine in ten lie within, however many points there are; the others evenly."""
    rng, lower, higher = np.random.default_rng(1), list[bool](), list[bool]()
    for _ in range(100):
        drawn = rng.normal(FIRST + 6 * EVERY, 1.2 * EVERY, size=points + 10)
        ends = on_grid(BENCHMARK, drawn, np.ceil)
        told = samples_to_target(made.needed([int(each) for each in ends[:points]]))
        lower += [each < told.low for each in ends[points:]]
        higher += [each > told.high for each in ends[points:]]
    assert 0.02 < np.mean(lower) < 0.07
    assert 0.02 < np.mean(higher) < 0.07


def test_failures_are_paid_for():
    reached = samples_to_target(made.needed([FIRST] * 9))
    half = samples_to_target(made.needed([FIRST, None] * 9))
    assert reached.high == FIRST
    assert half.high >= FIRST + 2 * BENCHMARK.budget_samples
    known = made.rates(0.5, 7.0)
    alone, whole = (seconds_at(BENCHMARK, known, each) for each in (FIRST, BENCHMARK.budget_samples))
    whole_run = forecast(made.needed([FIRST, None] * 9), known, CPU, MACHINE, "torch")
    assert whole_run.samples == half
    told = whole_run.seconds
    assert told.low == pytest.approx(alone)
    assert told.high >= alone + 2 * whole


def test_a_run_drawn_beyond_the_budget_does_not_reach_the_target():
    """Of those seen the last ended with the budget, so that of new runs one in ten is drawn beyond it."""
    budget = BENCHMARK.budget_samples
    seen = [budget - each * EVERY for each in range(9, 0, -1)] + [budget]
    drawn = made.needed(seen).draw(20_000, np.random.default_rng(0))
    assert max(drawn.samples) == budget
    assert drawn.lost == pytest.approx(1 / 11 * 3 / 4, abs=0.01)  # of the gap, 2 * EVERY, all but half of EVERY
    assert np.mean(drawn.failed > 0) == pytest.approx(drawn.lost, abs=0.01)
    told = forecast(made.needed(seen), made.rates(0.5, 7.0), CPU, MACHINE, "torch")
    assert "7 in 100 runs do not reach the target: another follows each" in told.notes
    assert samples_to_target(made.needed(seen)).high > budget


def test_between_two_batch_sizes_samples_are_interpolated(monkeypatch):
    low, high = made.point([FIRST] * 9, 20), made.point([FIRST + 2 * EVERY] * 9, 40)
    monkeypatch.setattr("suite.rules.convergence.counting", lambda benchmark: [high, low])
    told = needed(BENCHMARK, 30)
    assert samples_to_target(told).median == FIRST + EVERY
    assert "between batch sizes 20 and 40" in told.note
    assert samples_to_target(needed(BENCHMARK, 40)).median == FIRST + 2 * EVERY
    assert told.said == "18 of 18 reference runs reached the target"
    assert needed(BENCHMARK, 40).said == "9 of 9 reference runs reached the target"
    assert "a smaller one takes no more" in needed(BENCHMARK, 10).note
    with pytest.raises(UserError, match="at batch size 20, 40"):
        needed(BENCHMARK, 41)


def test_between_two_batch_sizes_runs_fail_as_often_as_between_the_two():
    low, high = Took(20, (FIRST,) * 10), Took(40, (FIRST, None) * 5)
    drawn = Needed(BENCHMARK, 30, low, high, 0.5, "").draw(20_000, np.random.default_rng(0))
    assert drawn.lost == pytest.approx(0.25)
    assert np.mean(drawn.failed > 0) == pytest.approx(0.25, abs=0.01)


def test_what_is_published_stands_in_for_points_that_are_missing_and_is_marked(monkeypatch):
    full = config.benchmark("image_classification", "full")
    monkeypatch.setattr("suite.rules.convergence.counting", lambda benchmark: [])
    runs = needed(full)
    assert "resnet_ref_1632" in runs.published
    assert runs.said == "17 of 17 published runs of other code reached the target"
    assert samples_to_target(runs).median == full.budget_samples  # 35 epochs: the next evaluation ends the budget
    with pytest.raises(UserError, match="published points at batch size 1632"):
        needed(full, 3264)
    unknown = config.system("h100x8").model_copy(update={"link_gb_per_s": None})
    systems = config.system("h100"), config.system("h100x8"), unknown
    told = [roughly.line(full, each, MACHINE, "bf16", "torch") for each in systems]
    for line in told[:2]:
        assert line.endswith("(estimate from peak rates; samples as others published them, of other code)")
    assert told[2].startswith("47,401,440 samples, ")
    assert "to 47,401,440 (samples as others published them, of other code); time not known" in told[2]
    (one,) = needed(config.benchmark("language_modeling", "full")).low.samples
    assert one == 4500 * 524_288
    own = made.point([2 * FIRST] * 9)
    monkeypatch.setattr("suite.rules.convergence.counting", lambda benchmark: [own])
    assert needed(full, BATCH).published == ""
    assert needed(full, BATCH).low.reached == [2 * FIRST] * 9


@pytest.mark.parametrize(
    ("points", "told"),
    [
        ((), "has no reference convergence points: nothing"),
        (
            (made.point([FIRST, FIRST, None]),),
            f"2 runs at batch size {BATCH} that reached the target, which count from 5 runs on: nothing",
        ),
    ],
)
def test_no_points_and_points_of_too_few_runs_are_said_in_a_line(monkeypatch, points, told):
    stored = Reference(benchmark=BENCHMARK.name, recipe="", points=points)
    monkeypatch.setattr("suite.rules.reference.load", lambda benchmark: stored)
    with pytest.raises(UserError, match=rf"{told} .*suite\.rcp"):
        needed(BENCHMARK)


def test_a_ring_of_workers():
    """Eight workers, 100 MB, 3 us, 100 GB/s: 14 messages of 12.5 MB."""
    assert ring(8, 100e6, 3e-6, 100e9) == pytest.approx(14 * (3e-6 + 12.5e6 / 100e9))
    v100 = config.system("v100x8")
    assert communication(v100, 100e6) == pytest.approx(14 * (3.4e-6 + 12.5e6 / 150e9))
    assert communication(config.system("v100"), None) == 0
    with pytest.raises(UserError, match="link_gb_per_s"):
        communication(CPU.model_copy(update={"nodes": 2}), 1e6)
    two = v100.model_copy(update={"nodes": 2})
    network = {"link_gb_per_s": 10.0, "link_latency_us": 20.0}
    for left_out in network, ["link_gb_per_s"], ["link_latency_us"]:
        part = {name: value for name, value in network.items() if name not in left_out}
        with pytest.raises(UserError, match="is that within a node: give"):
            communication(two.model_copy(update=part), 1e6)
    assert communication(two.model_copy(update=network), 1e6) == ring(16, 1e6, 20e-6, 10e9)
    with pytest.raises(UserError, match="size of the model"):
        communication(v100, None)


def test_workers_exchange_the_declared_gradients_once_for_each_update():
    """Not all that a probe saw in the state: a recurrent model carries activations, a norm its statistics."""
    rates = of_rates.measured(made.probe([10.0], 1.0).cells[0], "a probe", BENCHMARK)
    assert rates.weights == 4 * BENCHMARK.parameters
    undeclared = BENCHMARK.model_copy(update={"parameters": None})
    assert of_rates.measured(made.probe([10.0], 1.0).cells[0], "a probe", undeclared).weights == 1e6
    told = [
        parts(
            BENCHMARK.model_copy(update={"exchanges_per_step": count}),
            rates.shared(8, 0.001),
            np.ones(1),
            np.array([0]),
        )
        for count in (1, 48)
    ]
    assert [each["communication"] for each in told] == pytest.approx([0.001, 0.048])


def test_an_estimate_from_peak_rates_is_of_the_declared_operations():
    v100 = config.system("v100")
    told = of_rates.from_peaks(BENCHMARK, v100, MACHINE, "fp16")
    assert not told.measured
    assert told.watts == 300
    flops = BENCHMARK.train_flops_per_sample
    assert flops
    least = BATCH * flops / 125e12 / max(of_rates.UTILISATION) + min(of_rates.HOST_STEP_S)
    most = BATCH * flops / 125e12 / min(of_rates.UTILISATION) + max(of_rates.HOST_STEP_S)
    assert least <= told.step.min() < told.step.max() <= most
    with pytest.raises(UserError, match="no peak rate in bf16"):
        of_rates.from_peaks(BENCHMARK, v100, MACHINE, "bf16")
    with pytest.raises(UserError, match="not declared"):
        of_rates.from_peaks(BENCHMARK.model_copy(update={"train_flops_per_sample": None}), v100, MACHINE, "fp16")


@pytest.mark.parametrize("known", [
    of_rates.from_peaks(BENCHMARK, config.system("h100"), MACHINE, "bf16"),
    of_rates.composed(BENCHMARK, BATCH, 0.1, 0.04, (3.0, 1.0), "bricks", CPU, MACHINE),
])  # fmt: skip
def test_workers_share_operations_but_not_the_hosts_time_and_the_scoring(known):
    shared = known.shared(8, 0.0)
    assert np.allclose(shared.step, known.host + (known.step - known.host) / 8)
    assert np.allclose(shared.evaluation, known.scoring + (known.evaluation - known.scoring) / 8)
    assert (known.host > 0).all()
    assert (known.scoring > 0).all()
    assert (shared.step > known.host).all()
    assert (shared.evaluation > known.scoring).all()


def _least_and_most(values):
    return values.min(), values.max()
