"""What an audit is made of: the draw, the distance of two ways, and predictions that differ."""

import errno
import io
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from suite.audit import drawing, showing
from suite.audit.__main__ import main
from suite.audit.auditing import Asked, Audited, planned
from suite.audit.code import Code
from suite.audit.comparing import (
    MAX_DISTANCE,
    MAX_STRETCH,
    Compared,
    initial,
    leads_to_its_state,
    predicts_from_its_state,
    takes_its_time,
    way,
)
from suite.audit.equivalence import HELD
from suite.audit.replaying import Predicted, give_evaluation
from suite.errors import UserError
from suite.record.equivalence import Comparison, Trial
from suite.record.predictions import differing
from suite.record.states import state_sha256
from suite.rules.finding import Finding
from suite.store import files
from tests import distributions
from tests.audit.blocks import THREADS, beginning, block, claim
from tests.rules.evidence_maker import isolate, write_run

HEX = st.text("0123456789abcdef", min_size=1, max_size=32)


@given(st.lists(st.integers(), unique=True), st.integers(1, 20), HEX)
def test_a_draw_is_of_the_items_in_their_order_and_repeats_itself(items, count, entropy):
    drawn = drawing.draw(items, count, entropy)
    assert drawn == drawing.draw(items, count, entropy)
    assert len(drawn) == min(count, len(items))
    assert drawn == [item for item in items if item in drawn]


def test_each_block_is_drawn_about_as_often():
    counts = np.zeros(5)
    for _ in range(2000):
        counts[drawing.draw(range(5), 2, drawing.fresh())] += 1
    assert abs(counts - 800).max() < 150  # more than six standard deviations


def test_a_draw_that_is_no_entropy_is_refused():
    with pytest.raises(UserError, match="hexadecimal"):
        drawing.draw([1], 1, "../x")


def test_the_way_of_a_training():
    random = np.random.default_rng(0)
    before = {name: random.normal(size=(50, 40)).astype(np.float32) for name in "abc"} | {"step": np.array(1)}
    step = {name: random.normal(size=(50, 40)) for name in "abc"}
    turned = {name: random.normal(size=(50, 40)) * 0.2 for name in "abc"}

    def moved(by):
        return {**{name: (before[name] + by[name]).astype(np.float32) for name in "abc"}, "step": np.array(2)}

    claimed = moved(step)
    same = way(before, claimed, claimed)
    assert (same.distance, same.stretch) == (0.0, 0.0)
    lower = way(before, claimed, moved({name: 0.9 * step[name] for name in step}))
    assert (round(lower.distance, 3), round(lower.stretch, 3)) == (0.1, -0.1)
    assert abs(lower.stretch) > MAX_STRETCH
    other = way(before, claimed, moved({name: np.roll(step[name], 1) for name in step}))
    assert other.distance > MAX_DISTANCE
    assert same.near
    assert not lower.near
    assert not other.near
    # One long array hides what the learning rate does to the others.
    fixed = {name: step[name] * (1e4 if name == "a" else 1.0) for name in "abc"}
    hidden = way(before, moved(fixed), moved({name: fixed[name] * (1.0 if name == "a" else 0.5) for name in "abc"}))
    assert (round(hidden.distance, 3), round(hidden.stretch, 3), round(hidden.other, 3)) == (0.0, 0.0, -0.5)
    assert not hidden.near
    rounded = way(before, claimed, moved({name: np.sqrt(0.96) * step[name] + turned[name] for name in step}))
    assert rounded.distance < MAX_DISTANCE
    assert way(before, {"a": np.zeros(3)}, claimed).distance == np.inf
    assert way(before, claimed, {**claimed, "a": claimed["a"].astype(str)}).distance == np.inf
    assert way(before, before, claimed).distance == np.inf


def test_an_initial_state_of_another_kind_is_as_far_as_can_be():
    (found,) = initial(beginning(), {"a": np.array(["x"])}, {"a": np.zeros(1)}, ())
    assert found.found.endswith("inf of its size away")


def test_predictions_that_differ():
    assert differing([1, "a", 0.50], [1, "a", 0.51]) == 0
    assert differing([1, 2, [0.5, {"a": 1}], 4], [1, 3, [0.5, {"a": 2}], 4]) == 0.5
    assert differing([1], [1, 2]) == 1.0


def test_states_are_compared_only_if_the_one_before_the_block_is_at_hand():
    before, kept, trained = ({"a": np.array([x, 0.0])} for x in (0.0, 1.0, 2.0))
    made = {"before": before, "kept": kept, "after": trained}
    claims = claim(1, 1.0), claim(2, 1.0)
    assert Compared(block(*claims, begin=4000, **made), ()).way.distance == 1.0
    assert Compared(block(*claims, begin=0, **made), ()).way is None


@pytest.mark.parametrize(
    ("claimed", "found", "unlike", "noise", "said"),
    [
        (2.0, 100.0, (), (), "fail"),
        (2.0, 100.0, (), ("other processes took 90% of the CPUs",), "note"),
        (2.0, 100.0, THREADS, (), None),
        (None, 100.0, (), (), None),
        (50.0, 100.0, (), (), "note"),
        (70.0, 100.0, (), (), None),
        (1000.0, 100.0, (), (), None),
        (0.001, 0.1, (), (), None),  # too short to tell
    ],
)
def test_a_time_that_the_machine_cannot_keep(claimed, found, unlike, noise, said):
    compared = Compared(block(claim(1, claimed), seconds=found), unlike, noise)
    assert [each.severity for each in takes_its_time(compared)] == ([said] if said else [])


@pytest.mark.parametrize(("first", "begin", "said"), [(90.0, 0, []), (90.0, 4000, ["fail"]), (None, 0, [])])
def test_a_block_from_the_seed_is_held_to_the_time_of_all_blocks_before_it(first, begin, said):
    compared = Compared(block(claim(1, first), claim(2, 10.0), begin=begin, seconds=100.0), ())
    assert [each.severity for each in takes_its_time(compared)] == said


@pytest.mark.parametrize(
    ("unlike", "repeats", "severity"),
    [((), True, "fail"), ((), None, "fail"), ((), False, "error"), (THREADS, True, "error")],
)
def test_only_a_machine_like_the_run_s_condemns(unlike, repeats, severity):
    """State and metric are beyond the bounds: where honest training may end anywhere that leaves the question open."""
    before, kept, trained = ({"a": np.array(values)} for values in ([0.0, 0.0], [1.0, 0.0], [0.0, 1.0]))
    predicted = Predicted("1" * 64, [1, 2], {"accuracy": 0.5})
    made = {"before": before, "kept": kept, "after": trained, "samples": 4000, "kept_predicted": predicted}
    compared = Compared(block(claim(1, 1.0), repeats=repeats, **made), unlike)
    for rule in (leads_to_its_state, predicts_from_its_state):
        assert [each.severity for each in rule(compared)] == [severity]


@pytest.mark.parametrize(
    ("unlike", "repeats", "severities"), [((), True, ["fail"]), ((), False, ["note"]), (THREADS, True, [])]
)
def test_the_same_bits_predict_the_same_on_a_machine_like_the_run_s(unlike, repeats, severities):
    """Elsewhere the last digit may be another."""
    state = {"a": np.zeros(2)}
    claimed = replace(claim(1, 1.0), after_sha256=state_sha256(state), metrics={"accuracy": 0.5})
    predicted = Predicted("1" * 64, [1, 2], {"accuracy": 0.5})
    compared = Compared(block(claimed, after=state, repeats=repeats, predicted=predicted), unlike)
    assert [each.severity for each in predicts_from_its_state(compared)] == severities


def test_the_same_predictions_have_the_same_metrics():
    """A quality lowered in the log hides that the target was met before."""
    state = {"a": np.zeros(2)}
    claimed = replace(
        claim(1, 1.0), after_sha256=state_sha256(state), predictions_sha256="1" * 64, metrics={"accuracy": 0.5}
    )
    for accuracy, said in ((0.5, []), (0.501, ["fail"])):
        predicted = Predicted("1" * 64, [1, 2], {"accuracy": accuracy})
        compared = Compared(block(claimed, after=state, repeats=True, predicted=predicted), ())
        assert [each.severity for each in predicts_from_its_state(compared)] == said


def test_trials_in_a_format_whose_bounds_nobody_measured_tell_nothing():
    held = Trial(trial="a step", precision="fp32", found=0.001, bound=0.01)
    trials = (held, held.model_copy(update={"precision": "tf32"}))
    found = HELD.findings(Comparison(benchmark="speech/mini", trials=trials))
    assert [(each.severity, each.found) for each in found] == [("error", "bounds not measured for tf32")]


def test_old_evidence_cannot_be_audited(tmp_path, monkeypatch):
    isolate(monkeypatch, tmp_path)
    run = write_run(tmp_path / "run")
    run.forget_states()
    with pytest.raises(UserError, match=r"audit\.1"):
        main([str(run.folder)])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["blocks=0"], "blocks=0 is not a whole number"),
        (["blocks=two"], "blocks=two is not a whole number"),
        (["run_code=yes"], "run_code=yes is neither true nor false"),
        (["precision=fp64"], "unknown precision 'fp64'"),
        (["framework=torhc"], "did you mean 'torch'"),
        (["framework=jax"], "unknown framework for \\w+ 'jax'.* Allowed: tensorflow, torch"),
        (["states=nowhere"], "no such folder"),
        (["block=1"], "unknown option 'block'"),
        (["draw=xyz"], "hexadecimal"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, monkeypatch, words, said):
    isolate(monkeypatch, tmp_path)
    run = write_run(tmp_path / "run")
    with pytest.raises(UserError, match=said) as raised:
        main([str(run.folder), *words])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("words", "lacked"), [((), "a-torch"), (("framework=tensorflow",), "a-flow")])
def test_an_audit_without_the_framework_is_one_line_before_anything_trains(tmp_path, monkeypatch, words, lacked):
    isolate(monkeypatch, tmp_path)
    run = write_run(tmp_path / "run")
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "site")
    distributions.install(tmp_path / "site", "time-to-accuracy", torch=["a-torch"], tensorflow=["a-flow"])
    with pytest.raises(UserError, match=f"needs {lacked}: pip install"):
        main([str(run.folder), "run_code=true", *words])


def test_what_trained_one_s_own_code_is_not_audited_with_the_reference_in_its_place(tmp_path, monkeypatch):
    isolate(monkeypatch, tmp_path)
    run = write_run(tmp_path / "run", own=True)
    with pytest.raises(UserError, match=r"^framework=tensorflow is for the reference, and ours trained: leave it out$"):
        main([str(run.folder), "framework=tensorflow"])


@pytest.mark.parametrize(("division", "held"), [("closed", True), ("open", False)])
def test_only_the_closed_division_s_code_is_held_to_the_reference(tmp_path, monkeypatch, division, held):
    isolate(monkeypatch, tmp_path)
    run = write_run(tmp_path / "run", own=True)
    run.edit("submission_division", lambda record: record.update(value=division))
    asked = Asked(blocks=1, entropy="01", equivalence=True)
    plan = planned(run.folder, asked)
    assert plan.parts[0].strange == held
    console = Console(file=io.StringIO())
    showing.show(console, Audited(plan), asked)
    assert ("the open division frees the model" in console.file.getvalue()) != held


def test_a_command_in_a_finding_is_shown_whole(tmp_path, monkeypatch):
    isolate(monkeypatch, tmp_path)
    asked, mend = Asked(blocks=1, entropy="01"), "pip install '.[torch,reinforcement-learning]'"
    made = Audited(planned(write_run(tmp_path / "run").folder, asked))
    made.findings.append(Finding("results/system/benchmark/run_1/log.txt", 1, "a", "b", mend, "error", rule="audit.4"))
    console = Console(file=io.StringIO(), width=80)
    showing.show(console, made, asked)
    assert "…" not in console.file.getvalue()


def test_arrays_that_the_disk_has_no_room_for_are_a_mistake_before_they_are_copied(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "free_bytes", lambda folder: 0)
    with pytest.raises(UserError, match=r"^0\.1 GB of arrays are copied to .*, which has 0\.0 GB free: name a folder"):
        give_evaluation(SimpleNamespace(given=tmp_path), {"test_images": np.broadcast_to(0.0, 10**7)})


def test_a_full_disk_of_temporary_folders_is_named_with_its_mend(tmp_path, monkeypatch):
    isolate(monkeypatch, tmp_path)
    run = write_run(tmp_path / "run")
    monkeypatch.setattr(Code, "install", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(UserError, match=r"suite-audit-code-\S+: No space left on device; name a folder .* as TMPDIR$"):
        main([str(run.folder), "run_code=true", "isolated=true"])
