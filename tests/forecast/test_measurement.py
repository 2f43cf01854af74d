"""What `python -m suite.forecast` takes from a probe or from bricks that were kept."""

import numpy as np
import pytest

from suite import config
from suite.bricks import record as bricks
from suite.errors import UserError
from suite.forecast.__main__ import main
from suite.forecast.measurement import Measurement
from suite.measure import machine
from suite.probe import record
from tests.forecast import made

TASK = ["task=recommendation", "scale=mini"]


def test_a_probe_in_the_precision_of_a_run_counts_before_others(capsys, tmp_path):
    """Neither one that failed nor one of shorter sequences; what is in another precision says so."""
    slow, small, failed = (made.probe([100.0], 200.0, **told) for told in ({"precision": "fp16"}, {"size": 4}, {}))
    failed = failed.model_copy(update={"cells": [failed.cells[0].model_copy(update={"error": "out of memory"})]})
    sound = made.probe([10.0], 200.0)
    for probes, step, noted in (((slow, small, failed, sound), 0.01, False), ((failed, slow), 0.1, True)):
        cells = [probe.cells[0] for probe in probes]
        record.write(sound.model_copy(update={"cells": cells, "noisy": ["somebody worked"]}), tmp_path / "probe")
        told = made.told(capsys, *TASK, f"from={tmp_path / 'probe'}", "hw=cpu", "hw.precision=fp32")
        shared = told["shares"]["compute"] + told["shares"]["input"]
        taken = shared * told["seconds"]["median"] / (told["samples"]["median"] / made.BATCH)
        assert taken == pytest.approx(step, rel=0.1)
        assert "NOISY: somebody worked" in told["notes"]
        assert any(note.startswith("it was probed in fp16, a run there is in fp32") for note in told["notes"]) == noted


def test_a_probe_of_something_else_is_refused_and_nothing_of_one_reaches_the_terminal(capsys, tmp_path):
    record.write(made.probe([10.0], 1.0, task="translation"), tmp_path / "other")
    nothing = r"holds translation/mini .* nothing of recommendation/mini in torch at batch size 25$"
    with pytest.raises(UserError, match=nothing):
        main([*TASK, f"from={tmp_path / 'other'}"])
    level = made.probe([10.0], 1.0).model_copy(update={"level": "throughput"})
    record.write(level, tmp_path / "level")
    with pytest.raises(UserError, match="level=throughput: a forecast takes one at level=clock"):
        main([*TASK, f"from={tmp_path / 'level'}"])
    hostile = made.probe([10.0], 1.0)
    (cell,) = hostile.cells
    noted = cell.model_copy(update={"notes": ["\x1b[2Jgone"]})
    record.write(hostile.model_copy(update={"cells": [noted], "date": "\x1b]0;x"}), tmp_path / "hostile")
    assert main([*TASK, f"from={tmp_path / 'hostile'}"]) == 0
    assert "\x1b" not in capsys.readouterr().out
    failed = cell.model_copy(update={"error": "\x1b[2Jgone"})
    record.write(hostile.model_copy(update={"cells": [failed]}), tmp_path / "failed")
    assert main([*TASK, f"from={tmp_path / 'failed'}", "hw=all"]) == 0
    assert "\x1b" not in capsys.readouterr().out
    record.write(made.probe([0.0], 1.0), tmp_path / "zero")
    with pytest.raises(UserError, match="lacks what a step"):
        main([*TASK, f"from={tmp_path / 'zero'}"])
    for name, value in (("weights", -1e9), ("power", -50.0), ("start", 1e300), ("data phase", -1.0)):
        figures = {**cell.figures, name: record.Figure(value=value, unit="")}
        strange = hostile.model_copy(update={"cells": [cell.model_copy(update={"figures": figures})]})
        record.write(strange, tmp_path / name)
        with pytest.raises(UserError, match=f"its {name} is"):
            main([*TASK, f"from={tmp_path / name}"])
    with pytest.raises(UserError, match="not like hw=v100"):
        main([*TASK, "hw=v100", f"from={tmp_path / 'zero'}"])


@pytest.mark.parametrize("cpus", [0, 10**6, "4"])
def test_where_a_probe_tells_no_possible_number_of_cpus_it_is_that_of_this_machine(cpus):
    probe, here = made.probe([10.0], 1.0).model_copy(update={"machine": {"logical_cpus": cpus}}), machine.detect()
    assert Measurement("probe", probe).node(here).logical_cpus == here.logical_cpus


def test_from_the_bricks_of_a_step(capsys, tmp_path):
    def kept(step_us: tuple[float, ...], **others: object) -> str:
        path = tmp_path / "timings.json"
        bricks.write(made.timings(step_us, **others), path)
        return f"from={path}"

    told = made.told(capsys, *TASK, kept((9e3, 1e4, 11e3)))
    assert not told["measured"]
    assert told["source"].startswith("bricks in fp32 of 2026-01-01T00:00:00Z on hw=cpu, ")
    compute = told["shares"]["compute"] * told["seconds"]["median"]
    assert compute == pytest.approx(told["samples"]["median"] / made.BATCH * 0.01, rel=0.25)
    assert "1 of 2 calls of a step have no brick, and are not counted" in told["notes"]
    assert "what the host does between the calls of a step is not counted" in told["notes"]
    assert any(note.startswith("assumed: an evaluation is one forward pass") for note in told["notes"])
    told = made.told(capsys, *TASK, kept((1e4,), evaluation=50))
    evaluation = told["shares"]["evaluation"] * told["seconds"]["median"]
    count = 1 + -(-(told["samples"]["median"] - made.BENCHMARK.evaluation.first) // made.BENCHMARK.evaluation.every)
    assert evaluation == pytest.approx(count * (50 * 0.01 + 0.5 + 0.5), rel=0.25)
    assert not any(note.startswith("assumed: an evaluation is one forward pass") for note in told["notes"])
    told = made.told(capsys, *TASK, kept((1e4,), precision="fp16"))
    assert any(note.startswith("its bricks are in fp16, a run there is in ") for note in told["notes"])
    assert main([*TASK, kept((1e4,), noisy=["\x1b[2Jgone"])]) == 0
    shown = capsys.readouterr().out
    assert "ESTIMATE" in shown
    assert "\x1b" not in shown
    for others, said in (
        ({"mode": "infer"}, "has bricks of mode=infer: a forecast takes those of mode=train"),
        ({"models": ()}, "holds no models: nothing of recommendation/mini in torch"),
        ({"scale": "small"}, "holds recommendation/small"),
    ):
        with pytest.raises(UserError, match=said):
            main([*TASK, kept((1e4,), **others)])
    empty = made.timings((1e4,)).models[0].model_copy(update={"bricks": (), "after": ()})
    for step_us, models in (((), {}), ((1e4,), {"models": (empty,)})):
        with pytest.raises(UserError, match="none of its bricks could be timed"):
            main([*TASK, kept(step_us, **models)])


def test_bricks_of_uneven_steps_are_counted_where_they_were_made():
    """Half of a step's bricks in the first half of the budget."""
    uneven = made.BENCHMARK.model_copy(update={"uneven_steps": "images grow"})
    budget = uneven.budget_samples
    told = made.timings((1e4,))
    places = {"bricks": (0, 0, 0), "after": ((), (), ()), "starts": (0, 1), "at": (budget // 4, 3 * budget // 4)}
    for update, cautioned in ((places, False), ({**places, "at": ()}, True)):
        model = told.models[0].model_copy(update=update)
        kept = Measurement("timings.json", told.model_copy(update={"models": (model,)}))
        known = kept.rates(uneven, "torch", None, config.system("cpu"), machine.detect())
        assert any(note.startswith("CAUTION") for note in known.notes) == cautioned
        of_step = known.steps_until(np.array([budget / 8, float(budget)]), np.array([0, 0])) / known.step[0]
        assert of_step.tolist() == pytest.approx([1.0, 1.0] if cautioned else [0.01 / 0.015, 1.0], rel=0.01)
