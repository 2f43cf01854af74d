"""`python -m suite.forecast` as it is typed."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from suite import config
from suite.errors import UserError
from suite.forecast.__main__ import main
from suite.forecast.picture import drawn, picture
from suite.measure import machine
from suite.measure.accelerators.devices import Accelerator
from suite.probe import record
from suite.probe.subject import Subject
from suite.run.__main__ import main as run
from tests.forecast import made
from tests.results import maker
from tests.results.maker import entry

TASK = ["task=recommendation", "scale=mini"]


@pytest.fixture
def kept(tmp_path: Path) -> str:
    record.write(made.probe([10.0, 11.0, 12.0], 200.0), tmp_path / "probe")
    return f"from={tmp_path / 'probe'}"


def test_from_a_probe(capsys, kept):
    told = made.told(capsys, *TASK, kept)
    assert told["system"] == "cpu"
    assert told["measured"]
    samples, seconds = told["samples"]["median"], told["seconds"]["median"]
    count = 1 + -(-(samples - made.BENCHMARK.evaluation.first) // made.BENCHMARK.evaluation.every)
    assert seconds == pytest.approx(0.1 + samples / made.BATCH * 0.011 + count * 0.2, rel=0.1)
    assert told["joules"]["median"] == pytest.approx(50 * seconds)
    assert told["cost"]["median"] == pytest.approx(seconds / 3600 * 4 * 0.05132)  # of the machine that was probed
    assert told["shares"]["input"] == pytest.approx(told["shares"]["compute"] / 9)
    assert main([*TASK, kept]) == 0
    shown = capsys.readouterr().out
    assert "limited by  compute" in shown
    assert re.search(r"(\d+) of \1 reference runs reached the target", shown)


def test_two_machines_share_a_step_and_send_its_gradients(capsys, kept):
    link = ["hw.nodes=2", "hw.link_gb_per_s=1", "hw.link_latency_us=50"]
    told = made.told(capsys, *TASK, kept, *link)
    step, sent = 0.011 / 2, 2 * (50e-6 + 4 * made.BENCHMARK.parameters / 2 / 1e9)
    assert told["shares"]["communication"] / (told["shares"]["compute"] + told["shares"]["input"]) == pytest.approx(
        sent / step, rel=0.05
    )


def test_workers_that_share_processors_are_no_faster(capsys, kept):
    told = []
    for more in ([], ["hw.workers=2", "hw.link_gb_per_s=1e9", "hw.link_latency_us=0"]):
        told.append(made.told(capsys, *TASK, kept, *more))
    one, two = told
    assert two["seconds"]["median"] == pytest.approx(one["seconds"]["median"])
    assert two["notes"] == [*one["notes"], "the workers of a node share its processors: they are no faster"]


@pytest.mark.parametrize(
    ("probed", "asked", "times"),
    [
        ("cpu", ["hw.nodes=2"], 2),
        ("cpu", ["hw.workers=2"], 1),
        ("h100", [], 1),
        ("h100", ["hw=h100x8"], 8),
        ("h100", ["hw=h100x8", "hw.nodes=2"], 16),
        ("h100x8", [], None),
        ("h100x8", ["hw=h100"], None),
    ],
)
def test_energy_is_of_the_power_of_whole_nodes(capsys, tmp_path, probed, asked, times):
    record.write(made.probe([10.0, 11.0, 12.0], 200.0, system=probed), tmp_path)
    link = ["hw.link_gb_per_s=1", "hw.link_latency_us=50"]
    told = made.told(capsys, *TASK, f"from={tmp_path}", *asked, *link)
    said = any("the probe's power is of 8 accelerators, of which it used one" in note for note in told["notes"])
    assert said == (times is None)
    assert (
        told["joules"] is None
        if said
        else told["joules"]["median"] == pytest.approx(50 * times * told["seconds"]["median"])
    )


def test_a_probe_of_accelerators_that_no_file_describes_is_of_these(capsys, tmp_path):
    accelerator = {"name": "NVIDIA A40", "memory_gb": 46, "architecture": "sm_86", "bf16": True}
    told = {"logical_cpus": 4, "accelerators": [accelerator]}
    probe = made.probe([10.0], 200.0, system="auto").model_copy(update={"machine": told})
    record.write(probe, tmp_path / "a40")
    kept = f"from={tmp_path / 'a40'}"
    forecast = made.told(capsys, *TASK, kept)
    assert (forecast["system"], forecast["cost"]) == ("auto", None)
    assert forecast["joules"]["median"] == pytest.approx(50 * forecast["seconds"]["median"])
    with pytest.raises(UserError, match=r"measured on hw=auto \(1 x NVIDIA A40\), which is not like hw=cpu"):
        main([*TASK, kept, "hw=cpu"])
    record.write(probe.model_copy(update={"machine": {"accelerators": [{"name": 3}]}}), tmp_path / "none")
    with pytest.raises(UserError, match="does not tell its machine's accelerators"):
        main([*TASK, f"from={tmp_path / 'none'}"])


def test_a_probe_tells_nothing_of_accelerators_that_are_said_to_have_another_peak_rate(tmp_path):
    record.write(made.probe([10.0], 200.0, system="h100"), tmp_path)
    with pytest.raises(UserError, match="which is not like hw=h100"):
        main([*TASK, f"from={tmp_path}", "hw=h100", "hw.peak_tflops={bf16: 1.0}"])


def test_a_probe_of_accelerators_that_no_file_describes_is_of_the_machine_it_was_made_on(capsys, tmp_path, monkeypatch):
    here = replace(machine.detect(), accelerators=(Accelerator("NVIDIA A40", 46, "sm_86", True),))
    monkeypatch.setattr("suite.forecast.__main__.detect", lambda: here)
    probe = made.probe([10.0], 200.0, system="auto").model_copy(update={"machine": asdict(here)})
    record.write(probe, tmp_path)
    assert main([*TASK, f"from={tmp_path}", "hw=auto"]) == 0
    assert "on hw=auto" in capsys.readouterr().out


def test_every_system_with_the_choices_and_a_picture(capsys, kept, tmp_path):
    costs = tmp_path / "costs.svg"
    words = [*TASK, kept, "hw=all", "deadline=2h", "budget=100", "--picture", str(costs)]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "measured" in shown
    assert "ESTIMATE" in shown
    assert "cheapest within 2 h 00 min: " in shown
    assert "fastest within $100.00: " in shown
    assert costs.read_text().count("hollow") > 12
    assert "<script" not in costs.read_text()


def test_only_a_result_that_ranks_is_on_the_front():
    unlike: list[dict[str, Any]] = [
        {},
        {"verdict": "fail"},
        {"division": "open"},
        {"own_price": True},
        {"part": 0.5},
        {"runs_needed": 5},
    ]
    results = [entry(10.0 - at, **each) for at, each in enumerate(unlike)]
    dots = drawn([], results, "vision/small").dots
    assert [dot.front for dot in dots] == [True, False, False, False, False, False]
    said = [dot.text.partition("measured")[2] for dot in dots]
    contest = "; vision/small, division open", "; OWN PRICE", "; vision/small, 0.5 of the data; 0.5 OF THE DATA"
    assert said == ["", "; NOT COMPLIANT", *contest, "; 3 OF 5 RUNS"]


def test_what_a_picture_does_not_show_is_counted():
    unpriced = entry(10.0, runs=(maker.run(10.0, cost=None, currency=None),) * 3)
    assert ">not shown: 1 without a known time or cost in USD<" in picture([], [entry(10.0), unpriced], "vision/small")
    assert ">not shown: 1 without a known time or cost<" in picture([], [unpriced], "vision/small")
    assert "not shown" not in picture([], [entry(10.0)], "vision/small")


def test_choices_are_in_the_json_too_and_a_price_that_is_not_known_is_told_there(capsys, kept):
    words = [*TASK, kept, "deadline=2h", "budget=100"]
    assert main([*words, "hw=all", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    priced = [each for each in told["forecasts"] if each["cost"]]
    cheapest = min(priced, key=lambda each: each["cost"]["median"])["system"]
    fastest = min(priced, key=lambda each: each["seconds"]["median"])["system"]
    assert told["deadline"] == {"most": 7200, "system": cheapest, "why": ""}
    assert told["budget"] == {"most": 100, "system": fastest, "why": ""}
    assert main([*words, "hw.price_per_cpu_hour=null"]) == 0
    shown = capsys.readouterr().out
    assert (
        "cheapest within 2 h 00 min: not known; these keep the deadline, but their price is not known: cpu\n" in shown
    )
    assert "not known; these may keep the budget, but their price is not known: cpu\n" in shown
    for price in ([], ["hw.price_per_cpu_hour=null"]):
        assert main([*TASK, kept, "deadline=0.001s", *price]) == 0
        assert "none of these systems" in capsys.readouterr().out


def test_what_cannot_be_counted_is_tried_and_told_once_for_all_systems(capsys, kept, monkeypatch):
    """Of a benchmark whose operations are not declared."""
    undeclared = made.BENCHMARK.model_copy(update={"train_flops_per_sample": None})
    monkeypatch.setattr(config, "benchmark", lambda *_: undeclared)
    tried = []

    def lacking(subject: Subject) -> None:
        tried.append(subject)
        raise UserError("no data for want of a network")

    monkeypatch.setattr(Subject, "inside", lacking)
    assert main([*TASK, kept, "hw=all"]) == 0
    (said,) = [line for line in capsys.readouterr().out.splitlines() if "no data" in line]
    assert {"a100x8", "h100x8"} <= set(re.findall(r"\w+", said.partition(": not known: ")[0]))
    assert len(tried) == 1


def test_processors_on_which_a_step_would_take_long_are_not_probed_beside_other_systems(capsys, monkeypatch):
    def probed(*_: object) -> None:
        raise UserError("probed")

    monkeypatch.setattr("suite.forecast.sources._probed", probed)
    monkeypatch.setattr("suite.forecast.roughly.product", lambda: 1e6)
    assert main([*TASK, "hw=all"]) == 0
    assert "cpu: not known: a step would take about 236 s on these processors" in capsys.readouterr().out
    with pytest.raises(UserError, match="probed"):
        main([*TASK, "hw=cpu"])


def test_where_no_system_has_a_forecast_the_command_fails(capsys):
    assert main([*TASK, "hw=all", "hw.nodes=2"]) == 2
    assert "cpu: not known: hw=cpu has 2 workers, and what links them is not known" in capsys.readouterr().out


def test_eight_accelerators_launch_each_step_and_score_as_one_does(capsys):
    medians = []
    for system in ("h100", "h100x8"):
        told = made.told(capsys, "task=detection", "scale=small", f"hw={system}")
        medians.append(told["seconds"]["median"])
    assert 0.5 < medians[1] / medians[0] < 1


def test_a_price_that_is_not_known_is_said(capsys, kept):
    assert main([*TASK, kept, "hw.price_per_cpu_hour=null", "hw.power_ceiling_w_per_cpu=null"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if "cost" in line and "not known" in line]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "which task"),
        (["task=recomendation"], "did you mean 'recommendation'"),
        (["task=recommendation", "scale=tiny"], "unknown scale of recommendation 'tiny'"),
        ([*TASK, "framework=jax"], "unknown framework for recommendation 'jax'"),
        ([*TASK, "hw=v1000"], "did you mean 'v100'"),
        ([*TASK, "hw.nods=2"], "did you mean 'nodes'"),
        ([*TASK, "deadline=soon"], "write 90s, 30min, 2h"),
        ([*TASK, "budget=-1"], "budget=-1 is not a number above 0"),
        ([*TASK, "batch=0"], "batch=0 is not a whole number"),
        ([*TASK, "batch=100000"], "has reference convergence points at batch size"),
        (
            [*TASK, "from=nowhere"],
            "from=nowhere is no probe: .*; a forecast takes what python -m suite.probe level=clock",
        ),
        ([*TASK, "hw=v100", "results=somewhere"], "results=somewhere is drawn into --picture FILE"),
        (["task=language_modeling", "scale=pilot"], "no reference convergence points"),
        ([*TASK, "hw=v100x8", "hw.link_gb_per_s=null"], "what links them is not known"),
        ([*TASK, "hw=v100x8", "hw.nodes=8"], r"hw=v100x8: 64 workers cannot share the \d+ parts of a step"),
        ([*TASK, "hw=cpu", "hw.nodes=2"], "what links them is not known"),
    ],
)
def test_a_mistake_is_one_line(words, said, monkeypatch):
    monkeypatch.setattr("suite.forecast.sources._probed", None)  # which would take a minute
    with pytest.raises(UserError, match=said) as raised:
        main(words)
    assert "\n" not in str(raised.value)


def test_a_dry_run_prints_a_forecast(capsys):
    elsewhere = [*TASK, "hw=v100", "framework=tensorflow", "dry_run=true"]
    assert run(elsewhere) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("forecast")]
    assert "(estimate from peak rates)" in line
    assert run([*elsewhere, "precision=fp32"]) == 0
    assert "(estimate from peak rates)" in capsys.readouterr().out
    assert run([*TASK, "hw=cpu", "dry_run=true", "hyperparameters.global_batch_size=20"]) == 0
    assert "estimate from a matrix product" in capsys.readouterr().out
    assert run([*TASK, "hw=b200", "dry_run=true"]) == 0
    assert "; cost not known (estimate" in capsys.readouterr().out
    assert run([*elsewhere, "target=0.5"]) == 0
    assert "none: the benchmark was changed" in capsys.readouterr().out
    assert run([*TASK, "hw=cpu", "precision=tf32", "dry_run=true"]) == 0
    assert "none: no machine could run it" in capsys.readouterr().out


def test_a_probe_of_this_machine(capsys, monkeypatch):
    monkeypatch.setattr("suite.forecast.sources.REPEATS", 2)
    monkeypatch.setattr("suite.forecast.sources.SECONDS", 0.05)
    told = made.told(capsys, *TASK, "hw=cpu")
    assert told["measured"]
    assert 0 < told["seconds"]["low"] <= told["seconds"]["median"] <= told["seconds"]["high"]
    assert told["limited_by"] in ("compute", "input", "evaluation", "start")
