"""Each rule is found broken by its own id, and by no other's; rules.md and the checks name the same rules."""

import re
from pathlib import Path

import pytest
from mlperf_logging.mllog import constants as keys

from suite import config
from suite.audit.comparing import AUDIT
from suite.audit.equivalence import HELD
from suite.config import logkeys
from suite.config.dataset import File, Shards
from suite.config.formats import closed
from suite.config.models import Formula
from suite.measure.systems import resolve
from suite.rules import reading
from suite.rules.claims import SEALED
from suite.rules.reading import PACKAGE, RESULT, RUN
from suite.rules.seals import SEAL
from suite.rules.submission import FOLDERS
from suite.rules.verdict import review
from suite.rules.waivers import WAIVERS
from tests import distributions
from tests.rules import evidence_maker
from tests.rules.editor import Evidence
from tests.rules.evidence_maker import isolate, write_run
from tests.rules.found import ALWAYS, NOTES, rules_of
from tests.rules.mutants import MUTANTS, RESULT_MUTANTS
from tests.rules.mutants.benchmark import hyperparameters, open_division
from tests.rules.mutants.outcome import priced
from tests.rules.mutants.systems import trained_in
from tests.rules.subject import BENCHMARK, CPU_ONLY, WITH_H200

TESTS = Path(__file__).resolve().parent.parent
RULES_MD = TESTS.parent / "rules.md"
ELSEWHERE = (AUDIT, HELD, FOLDERS, SEALED, WAIVERS)  # their breaches are tried beside their commands


def test_sound_run_passes(run):
    made = review(run.folder)
    assert (made.verdict, made.converged) == ("pass", True)
    assert rules_of(made.findings) == ALWAYS
    assert {finding.severity for finding in made.findings} == {"note"}


def test_sound_result_passes_and_has_a_score(sound_result):
    made = review(sound_result)
    assert (made.verdict, made.converged) == ("pass", True)
    assert [run.path for run in made.runs] == [f"run_{index}/log.txt" for index in range(1, 6)]
    assert rules_of(made.findings) == {"division.4"}
    assert made.results[0].score_s == 30.0


def test_a_run_of_a_suite_that_lacked_a_field_passes(run):
    run.edit_config(lambda values: values["benchmark"].pop("metric_signature"))
    assert review(run.folder).verdict == "pass"


def test_predictions_that_lack_the_packages_to_score_them_are_an_error_with_the_command(run, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    distributions.install(tmp_path, "time-to-accuracy", image_classification=["a-package", "b-package"])
    made = review(run.folder)
    (finding,) = (finding for finding in made.findings if finding.rule not in ALWAYS)
    assert (made.verdict, finding.rule, finding.severity) == ("error", "quality.6", "error")
    assert finding.found == "a-package and b-package missing"
    assert finding.mend == "pip install -c constraints.txt -e '.[image-classification]'"


def test_predictions_that_the_reviewer_s_memory_does_not_suffice_to_score_are_an_error(run, monkeypatch):
    def lacking(*_):
        raise MemoryError

    monkeypatch.setattr("suite.rules.quality.score", lacking)
    made = review(run.folder)
    (finding,) = (finding for finding in made.findings if finding.rule not in ALWAYS)
    assert (made.verdict, finding.rule, finding.found) == ("error", "quality.6", "the memory is not enough")


def test_sound_run_on_an_accelerator_passes(tmp_path, monkeypatch):
    isolate(monkeypatch, tmp_path)
    made = review(write_run(tmp_path / "run", hw="h200", machine=WITH_H200).folder)
    assert made.verdict == "pass"


MUTATIONS = [(rule, mutate) for rule, mutations in MUTANTS.items() for mutate in mutations]
RESULT_MUTATIONS = [(rule, mutate) for rule, mutations in RESULT_MUTANTS.items() for mutate in mutations]


@pytest.mark.parametrize(("rule", "mutate"), MUTATIONS, ids=[f"{r}-{m.__name__}" for r, m in MUTATIONS])
def test_mutant_of_a_run_breaks_its_rule_alone(rule, mutate, run):
    mutate(run)
    made = review(run.folder)
    details = [f for f in made.findings if f.rule not in ALWAYS]
    assert rules_of(details, but=NOTES - {rule}) == {rule}, details
    assert made.verdict == ("pass" if rule in NOTES else "fail")
    for finding in details:
        assert finding.expected
        assert finding.found
        assert finding.mend


@pytest.mark.parametrize(("rule", "mutate"), RESULT_MUTATIONS, ids=[f"{r}-{m.__name__}" for r, m in RESULT_MUTATIONS])
def test_mutant_of_a_result_breaks_its_rule_alone(rule, mutate, result):
    mutate(result)
    made = review(result)
    assert rules_of(made.findings, but=ALWAYS | NOTES - {rule}) == {rule}, made.findings
    assert all(finding.expected and finding.found and finding.mend for finding in made.findings)
    assert made.verdict == ("pass" if rule in NOTES else "fail")


def test_each_check_has_a_mutant():
    checks = RUN.by_rule.keys() | RESULT.by_rule.keys() | PACKAGE.by_rule.keys()
    assert MUTANTS.keys() | RESULT_MUTANTS.keys() | ALWAYS == checks


def test_each_check_that_is_made_elsewhere_is_named_by_a_test():
    files = (path for name in ("audit", "review", "submit") for path in (TESTS / name).glob("*.py"))
    text = "".join(path.read_text() for path in files)
    assert [rule for each in ELSEWHERE for rule in each.by_rule if f'"{rule}"' not in text] == []


def test_rules_md_and_the_checks_name_the_same_rules():
    rules = re.findall(r"^\*\*([a-z]+\.\d+)\*\* .*?`machine: (yes|audit|no)`$", RULES_MD.read_text(), re.M | re.S)
    assert len(rules) == len({rule for rule, _ in rules}) == RULES_MD.read_text().count("\n**")
    registries = (RUN, RESULT, PACKAGE, *ELSEWHERE)
    assert {rule for rule, machine in rules if machine != "no"} == {r for each in registries for r in each.by_rule}
    assert {rule for rule, machine in rules if machine == "audit"} == AUDIT.by_rule.keys() | HELD.by_rule.keys()


def test_run_that_did_not_converge_is_compliant(run):
    MUTANTS["convergence.1"][0](run)
    made = review(run.folder)
    assert (made.verdict, made.converged) == ("pass", False)


def test_free_hyperparameters_move_together(run):
    rate = BENCHMARK.hyperparameters["muon_learning_rate"]
    for batch, learning_rate in ((50, rate / 2), (200, 2 * rate), (200, 2.015 * rate), (250, 2.5 * rate)):
        hyperparameters(run, global_batch_size=batch, muon_learning_rate=learning_rate)
        assert rules_of(review(run.folder).findings) == ALWAYS


def test_open_division_frees_hyperparameters_and_a_longer_initialisation(run):
    hyperparameters(run, muon_momentum=0.1, global_batch_size=10)

    def longer(records):
        for record in records[:2]:
            record["time_ms"] -= 200 * 60 * 1000

    run.edit_log(longer)
    closed = {"hyperparameters.1", "hyperparameters.2", "hyperparameters.3", "timing.2"}
    assert rules_of(review(run.folder).findings, but=ALWAYS) == closed
    open_division(run)
    made = review(run.folder)
    assert rules_of(made.findings) == ALWAYS | {"division.7"}
    notes = [finding for finding in made.findings if finding.rule == "division.7"]
    told = {note.expected.partition(" ")[0]: note.found for note in notes}
    assert told == {"hyperparameters.global_batch_size": "10", "hyperparameters.muon_momentum": "0.1"}


def test_closed_division_allows_every_format_that_is_open_to_it(run):
    for name in closed():
        trained_in(run, name)
        assert rules_of(review(run.folder).findings) == ALWAYS
    open_division(run)
    trained_in(run, "nvfp4")
    assert rules_of(review(run.folder).findings) == ALWAYS


def test_evidence_of_before_precision_and_cadence_were_logged_passes(run):
    run.edit(logkeys.CONFIG, lambda record: [record["metadata"].pop(name) for name in ("precision", "cadence")])
    assert rules_of(review(run.folder).findings) == ALWAYS


def test_other_scales_than_mini_are_submittable(run, monkeypatch):
    small = BENCHMARK.model_copy(update={"scale": "small"})
    monkeypatch.setattr("suite.config.benchmark", lambda task, scale: small)
    assert rules_of(RESULT.findings([reading.Evidence.read(run.folder)])) == {"runs.6"}


def test_data_without_declared_sums_is_told_by_sum(run, monkeypatch):
    dataset = BENCHMARK.dataset.model_copy(update={"arrays": dict.fromkeys(BENCHMARK.dataset.arrays)})
    monkeypatch.setattr(config, "benchmark", lambda task, scale: BENCHMARK.model_copy(update={"dataset": dataset}))

    def severities():
        return {finding.severity for finding in RUN.by_rule["data.1"](reading.Evidence.read(run.folder))}

    assert severities() == {"note"}
    for arrays in ({}, dict.fromkeys(BENCHMARK.dataset.arrays, "a sum")):
        run.edit(logkeys.DATASET, lambda record, arrays=arrays: record["metadata"].update(arrays=arrays))
        assert severities() == {"note", "fail"}


def test_predictions_are_not_scored_on_other_data_than_the_run_had(run, monkeypatch):
    dataset = BENCHMARK.dataset.model_copy(update={"arrays": dict.fromkeys(BENCHMARK.dataset.arrays)})
    monkeypatch.setattr(config, "benchmark", lambda task, scale: BENCHMARK.model_copy(update={"dataset": dataset}))
    assert "quality.6" not in rules_of(review(run.folder).findings)
    run.edit(logkeys.DATASET, lambda record: record["metadata"]["arrays"].update(answer_labels="0" * 64))
    (finding,) = (finding for finding in review(run.folder).findings if finding.rule == "quality.6")
    assert (finding.severity, finding.found) == ("error", "0" * 64)


def test_each_shard_without_a_declared_sum_is_logged_with_its_own(run, monkeypatch):
    shards = {"train_pixels": Shards(files="pixels_", dtype="uint8")}
    files = tuple(File(path=f"pixels_{at}", bytes=1, sha256=sha256) for at, sha256 in enumerate((None, "0" * 64, None)))
    dataset = BENCHMARK.dataset.model_copy(update={"files": files, "shards": shards})
    monkeypatch.setattr(config, "benchmark", lambda task, scale: BENCHMARK.model_copy(update={"dataset": dataset}))

    def failing():
        findings = RUN.by_rule["data.1"](reading.Evidence.read(run.folder))
        return [finding.found for finding in findings if finding.severity == "fail"]

    assert failing() == ["none of train_pixels_0000, train_pixels_0002"]
    sums = {f"train_pixels_{at:04d}": f"{at}" * 64 for at in (0, 2)}
    run.edit(logkeys.DATASET, lambda record: record["metadata"]["arrays"].update(sums))
    assert failing() == []


BENCHMARKS = list(config.benchmarks())


@pytest.mark.parametrize(
    "benchmark", [each for each in BENCHMARKS if "global_batch_size" in each.free], ids=lambda each: each.name
)
def test_batch_size_and_learning_rates_are_free_around_the_reference(benchmark):
    free, reference = benchmark.free, benchmark.hyperparameters
    sizes = free["global_batch_size"]
    formulas = {name: bound for name, bound in free.items() if isinstance(bound, Formula)}
    assert sizes.low <= reference["global_batch_size"] <= sizes.high
    assert sizes.high <= benchmark.evaluation.every
    assert sizes.divides(sizes.low)
    assert sizes.divides(sizes.high)
    rates = {name for name in reference if name.startswith(("muon_learning", "adam_learning", "opt_base_learning"))}
    assert rates <= {name for name, bound in formulas.items() if bound.proportional_to == "global_batch_size"}
    for name, bound in formulas.items():
        assert bound.of(reference[name], 64, 64) == reference[name]
        assert type(bound.of(reference[name], 64, 48)) is type(reference[name])


def test_submissions_and_results_of_two_submitters_lie_side_by_side(run, tmp_path):
    for name in ("ours", "theirs"):
        made = run.copy(tmp_path / "all" / name / "result")
        made.edit(keys.SUBMISSION_ORG, lambda record, name=name: record.update(value=name))
    assert "division.6" not in rules_of(review(tmp_path / "all").findings)
    (tmp_path / "all" / SEAL).write_text("{}")
    assert "division.6" in rules_of(review(tmp_path / "all").findings)
    (tmp_path / "all" / SEAL).unlink()
    for name in ("ours", "theirs"):
        (tmp_path / "all" / name / SEAL).write_text("{}")
    assert "division.6" not in rules_of(review(tmp_path / "all").findings)


def test_one_run_that_did_not_converge_is_the_dropped_slowest(result):
    for index in (2, 4):
        MUTANTS["convergence.1"][0](Evidence(result / f"run_{index}"))
        made = review(result)
        assert (made.verdict, made.converged) == ("pass", False)
        assert made.results[0].score_s == (30.0 if index == 2 else None)


@pytest.mark.parametrize("ceiling", [-5.0, 0, "much", True])
def test_a_power_ceiling_that_no_machine_has_is_found(run, ceiling):
    run.edit_config(lambda values: values["system"].update(power_ceiling_w_per_cpu=ceiling))
    found = [f for f in review(run.folder).findings if f.rule == "measurement.1"]
    assert "power_ceiling_w_per_cpu, a number above 0" in {f.expected for f in found}


def test_an_energy_of_two_nodes_names_what_it_covers(run):
    run.edit_config(lambda values: values["system"].update(nodes=2))
    run.edit(logkeys.ENERGY, lambda record: record["metadata"].pop("covers"))
    found = [f for f in review(run.folder).findings if f.rule == "measurement.1"]
    assert "covers [], derived from power.csv" in {f.expected for f in found}


def test_a_pause_in_a_short_run_is_noted(tmp_path, monkeypatch):
    isolate(monkeypatch, tmp_path)
    monkeypatch.setattr(evidence_maker, "RUN_MS", 10_000)
    made = review(write_run(tmp_path / "run", sample_ms=5000).folder)
    assert (made.verdict, rules_of(made.findings, but=ALWAYS)) == ("pass", {"measurement.6"})


def test_a_price_set_by_hand_passes_as_the_submitter_s_own(run):
    options = {**config.load("hw", "cpu"), "price_per_hour": 2.1}
    price = resolve(config.system("cpu", options), CPU_ONLY).price
    priced(run, 2.1, **price.model_dump())
    made = review(run.folder)
    assert (made.verdict, rules_of(made.findings, but=ALWAYS)) == ("pass", {"measurement.4"})


def test_findings_name_the_line_of_the_file(run):
    MUTANTS["division.2"][0](run)
    (finding,) = [f for f in review(run.folder).findings if f.rule == "division.2"]
    line = (run.folder / "config.yaml").read_text().splitlines()[finding.line - 1]
    assert line.strip() == "target: 0.5"
    assert finding.found == "0.5"


def test_all_independent_findings_are_reported(run):
    for rule in ("hyperparameters.1", "quality.2", "system.1", "measurement.3"):
        MUTANTS[rule][0](run)
    expected = {"hyperparameters.1", "quality.2", "system.1", "measurement.3"}
    assert rules_of(review(run.folder).findings, but=ALWAYS) == expected
