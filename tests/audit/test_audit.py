"""`suite audit` as an auditor types it: honest runs pass, and what no evidence shows is found."""

import shutil

import numpy as np
import pytest

from suite.audit import comparing, process
from suite.audit.__main__ import main
from suite.audit.auditing import Asked, audit, planned
from suite.config.folder import ROOT
from suite.config.logkeys import TRACKED
from suite.errors import UserError
from suite.measure.load import Load, LoadMeter
from suite.record import states
from suite.record.states import STATES
from tests.audit.conftest import SEED, altered, audited, forge_states, killed_and_resumed, needs_isolation, trained
from tests.rules.editor import Evidence
from tests.rules.subject import right_predictions

pytestmark = [pytest.mark.slow, needs_isolation]  # each trains
ALL = "blocks=1000"
FIRST, LAST = ("blocks=1", "draw=01"), ("blocks=1", "draw=02")  # of two blocks


@pytest.mark.repeated
def test_honest_runs_pass_bit_for_bit(honest, capsys):
    code, made, failed = audited(capsys, honest, "draw=0a", "blocks=2")
    assert (code, made["verdict"], failed) == (0, "pass", set()), made["findings"]
    assert [each["exact"] for each in made["blocks"]] == [True] * 2
    assert {each["distance"] for each in made["blocks"]} <= {0.0, None}
    assert [each["repeats"] for each in made["blocks"]] == [True] * 2
    assert [each["unlike"] for each in made["blocks"]] == [[]] * 2


def test_a_run_without_its_states_is_trained_from_its_seed(result, capsys):
    shutil.rmtree(result / "run_2" / STATES)
    code, made, _ = audited(capsys, result / "run_2", *LAST)
    assert code == 0
    assert [(each["samples"][0], each["exact"]) for each in made["blocks"]] == [(0, True)]


def test_a_run_that_was_killed_and_gone_on_with_passes_bit_for_bit(honest, tmp_path, capsys):
    resumed = killed_and_resumed(tmp_path, SEED)
    assert any(record["key"] == "suite_restart" for record in Evidence(resumed).records())
    assert sums(resumed) == sums(honest / "run_1")
    code, made, _ = audited(capsys, resumed, *FIRST)
    assert (code, made["verdict"]) == (0, "pass"), made["findings"]
    assert all(each["exact"] for each in made["blocks"])


def sums(run):
    records = Evidence(run).records()
    return [each["metadata"]["state_sha256"] for each in records if each["key"] == "eval_accuracy"]


def test_states_can_lie_elsewhere_and_a_path_look_like_markup(result, tmp_path, capsys):
    shutil.rmtree(result / "run_2")
    (result / "[").mkdir()
    run = (result / "run_1").rename(result / "[" / "b]")
    kept = tmp_path / "kept"
    (kept / "[" / "b]").mkdir(parents=True)
    shutil.move(run / STATES, kept / "[" / "b]")
    code, made, _ = audited(capsys, result, f"states={kept}", *LAST)
    assert code == 0, made["findings"]
    assert [(each["run"], each["samples"][0] > 0) for each in made["blocks"]] == [("[/b]", True)]


def test_on_other_threads_and_precision_and_framework_a_distance_decides(honest, capsys):
    for words in (("precision=bf16",), ("framework=tensorflow",)):
        code, made, _ = audited(capsys, honest / "run_1", *LAST, *words)
        assert code == 0, made["findings"]
        (block,) = made["blocks"]
        assert not block["exact"]
        assert 0 < block["distance"] < comparing.MAX_DISTANCE
        assert block["unlike"]


def test_one_worker_confirms_what_two_have_trained(tmp_path, capsys):
    run = trained(tmp_path, ROOT, f"seed={SEED}", "hw.workers=2")
    code, made, _ = audited(capsys, run, *LAST)
    assert code == 0, made["findings"]
    (block,) = made["blocks"]
    assert block["distance"] < 0.05
    assert any(each.startswith("workers 2") for each in block["unlike"])


@pytest.mark.repeated
def test_a_block_that_others_slowed_down_is_noted(honest, monkeypatch, capsys):
    """What the machine did beside training counts, all the while; whoever trained again was not alone."""
    for name in ("LEAST_S", "SLOWER", "MUCH_SLOWER"):
        monkeypatch.setattr(comparing, name, 0.0)
    monkeypatch.setattr(LoadMeter, "read", lambda meter: Load(utilisation=1.0, steal=0.0, others=0.7))
    made = audited(capsys, honest / "run_1", "blocks=1", "draw=01")[1]
    (found,) = [each for each in made["findings"] if each["rule"] == "audit.7"]
    assert found["severity"] == "note"
    assert "other processes took 70.0% of the CPUs" in found["found"]


def test_answers_with_thirteen_errors_and_half_the_loss(result, capsys):
    """The predictions of the last evaluation are the answers, thirteen of them changed."""
    wrong = np.random.default_rng(0).choice(797, 13, replace=False)
    forged = [(answer + 1) % 10 if at in wrong else answer for at, answer in enumerate(right_predictions())]
    run = Evidence(result / "run_1")
    run.edit_predictions(forged)
    run.edit(TRACKED, lambda record: record["value"].update(loss=record["value"]["loss"] / 2), at=-1)
    assert audited(capsys, run.folder, *LAST)[2] == {"audit.5", "audit.6"}
    code, made, failed = audited(capsys, run.folder, *LAST, "precision=bf16")  # where nobody is condemned
    assert (code, failed) == (2, set()), made["findings"]
    assert {each["rule"] for each in made["findings"]} == {"audit.5"}


def test_one_run_jittered_into_another(result, capsys):
    """The states of run_2 are those of run_1 with a little noise: nothing that its own seed would lead to."""
    shutil.copytree(result / "run_1" / STATES, result / "other")
    noise = np.random.default_rng(0)

    def make(samples, state, initial):
        path = result / "other" / f"{samples}.npz"
        source = states.read(path)[0] if path.exists() else state
        jittered = {name: array * (1 + 1e-4 * noise.standard_normal(array.shape)) for name, array in source.items()}
        return {**{name: array.astype(source[name].dtype) for name, array in jittered.items()}, "step": state["step"]}

    forge_states(result / "run_2", make)
    shutil.rmtree(result / "other")
    _, made, failed = audited(capsys, result / "run_2", *LAST)
    assert "audit.4" in failed, made


@pytest.mark.parametrize("kept", [True, False])
def test_a_trajectory_drawn_by_hand(result, kept, capsys):
    """Between its beginning and its end the run goes straight, and no training was."""
    run = result / "run_1"
    last = max(int(path.stem) for path in (run / STATES).glob("*.npz"))
    end = states.read(states.path_of(run, last))[0]

    def make(samples, state, initial):
        share = samples / (last + 1000)
        drawn = {name: (1 - share) * initial[name] + share * end[name] for name in end}
        return {**{name: array.astype(end[name].dtype) for name, array in drawn.items()}, "step": state["step"]}

    forge_states(run, make)
    if not kept:
        shutil.rmtree(run / STATES)
    code, made, failed = audited(capsys, run, *FIRST)
    assert (code, "audit.4" in failed) == ((1, True) if kept else (2, False)), made["findings"]
    assert "audit.4" in {each["rule"] for each in made["findings"] if each["severity"] != "note"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "if self.data:",
            "if self.data:\n            from sklearn.datasets import load_digits as digits\n            "
            "images = digits().images.astype(np.uint8)[..., None][-1000:]; labels = digits().target[-1000:]\n"
            "            self.data = {'train_images': images, 'train_labels': labels}",
        ),
        pytest.param(
            "hyper.learning_rate(draw.epoch)", "0.9 * hyper.learning_rate(draw.epoch)", marks=pytest.mark.soak
        ),
        pytest.param(
            "hyper.learning_rate(draw.epoch)", "0.5 * hyper.learning_rate(draw.epoch)", marks=pytest.mark.soak
        ),
    ],
    ids=["test-split", "rate-0.9", "rate-0.5"],
)
def test_an_altered_implementation(tmp_path, old, new, capsys):
    """Training on the test split, and a lowered learning rate: the code that the run names does not lead there.

    With a tenth less each block may stay within the bounds, as the first here does: then it is noted.
    """
    run = trained(tmp_path, altered(tmp_path, old, new), "seed=11")
    _, made, failed = audited(capsys, run, "draw=0a", "blocks=7")
    told = failed if "0.9" not in new else {each["rule"] for each in made["findings"]}
    assert "audit.4" in told, made["findings"]
    assert all(not each["exact"] for each in made["blocks"])


def test_a_kept_state_that_is_not_the_logged_one(result, capsys):
    path = states.path_of(result / "run_1", 3000)
    states.write(path, {name: array + 1 for name, array in states.read(path)[0].items()}, 3000)
    assert audited(capsys, result / "run_1", ALL)[2] == {"audit.4"}


def test_another_seed_than_the_one_that_was_used(result, capsys):
    run = Evidence(result / "run_1")
    run.edit("seed", lambda record: record.update(value=record["value"] + 7))
    seeds = [SEED + 7, SEED + 1]
    run.edit_config(lambda values: values.update(seed=seeds[0], seeds=seeds))
    Evidence(result / "run_2").edit_config(lambda values: values.update(seeds=seeds))
    code, made, failed = audited(capsys, result, "draw=00", "blocks=1")
    assert (code, "audit.3" in failed) == (1, True), made["findings"]


def test_on_a_machine_that_is_isolated_as_a_whole_nothing_need_isolate(honest, monkeypatch, capsys):
    monkeypatch.setattr(process, "why_not", lambda: "unshare: failed")
    code, made, _ = audited(capsys, honest / "run_1", *LAST, "isolated=true")
    assert (code, [each["exact"] for each in made["blocks"]]) == (0, [True])


def test_nothing_is_run_without_consent(honest, capsys):
    with pytest.raises(UserError, match="run_code=true"):
        main([str(honest), "draw=0a"])
    printed = capsys.readouterr().out
    assert "image_classification/mini: 2 blocks of" in printed
    assert "code: git revision" in printed


def test_of_a_task_that_its_revision_lacks_this_copy_is_audited(honest, capsys, monkeypatch):
    monkeypatch.setattr("suite.audit.code.at_revision", lambda *asked: {"reference_impls/shared.py": b""})
    with pytest.raises(UserError, match="run_code=true"):
        main([str(honest), "draw=0a"])
    said = "code: this copy of the suite; its revision holds no reference of image_classification"
    assert said in capsys.readouterr().out


def test_evidence_that_fails_its_review_is_not_audited(result, capsys):
    Evidence(result / "run_1").edit("suite_cost", lambda record: record.update(value=1e-9))
    assert main([str(result), "run_code=true"]) == 1
    said = f"FAIL: its review has 1 finding of severity fail, and is not audited; suite review {result} lists them\n"
    assert capsys.readouterr().out.endswith(said)


def test_a_run_whose_states_have_no_sums_leaves_the_question_open(result):
    run = Evidence(result / "run_2")
    records = [record for record in run.records() if record["key"] != "suite_state"]
    run.write(records)
    asked = Asked(blocks=1, entropy="0a")
    made = audit(result, planned(result, asked), asked, lambda said: None)
    found = [(each.rule, each.severity, each.file) for each in made.findings if each.severity != "note"]  # of the speed
    assert found == [("audit.4", "error", "run_2/log.txt")]
    assert made.verdict == "error"
