"""What looks odd and is honest passes, with a note where a reader should know of it."""

import time

import pytest
from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from suite.config.formats import formats
from suite.measure.samples import HEADER_OF_NODES
from suite.record.evidence import POWER
from suite.record.mllog import samples_of
from suite.rules.measurement import unmetered
from suite.rules.plausible import CPU_PEAK, SAVED
from suite.rules.reading import RUN, Evidence
from suite.rules.verdict import review
from tests.rules import evidence_maker
from tests.rules.evidence_maker import described, isolate, write_run
from tests.rules.found import ALWAYS, rules_of
from tests.rules.mutants.benchmark import declared, hyperparameters, open_division
from tests.rules.mutants.log import insert
from tests.rules.mutants.outcome import noisy_by_its_samples
from tests.rules.subject import BENCHMARK, CPU_ONLY, RUN_MS, UNKNOWN_REVISION, WITH_H200


@pytest.fixture(autouse=True)
def isolated(monkeypatch, tmp_path_factory):
    isolate(monkeypatch, tmp_path_factory.mktemp("points"))


def notes(run):
    """The rules that inform of a run that passes."""
    made = review(run.folder)
    assert made.verdict == "pass", made.findings
    return rules_of(made.findings, but=ALWAYS)


def test_a_run_that_is_noisy_by_its_samples_alone_bears_the_mark(run):
    noisy_by_its_samples(run)
    assert review(run.folder).runs[0].summary.noise == ("other processes took 50.0% of the CPUs",)


def test_a_revision_that_the_reviewer_lacks_is_noted(run):
    run.recode(revision=UNKNOWN_REVISION)
    assert notes(run) == {"model.4"}


def test_a_run_of_no_revision_is_noted_by_one_rule(run):
    run.recode(revision=None, dirty=None)
    assert notes(run) == {"model.3"}


def test_a_revision_of_which_nobody_knows_whether_it_was_changed_is_noted(run):
    run.recode(dirty=None)
    assert notes(run) == {"model.3"}


@pytest.mark.parametrize("size", [50, 400])
def test_the_ends_of_a_range_are_in_it(run, size):
    hyperparameters(run, global_batch_size=size)
    assert [*RUN.by_rule["hyperparameters.2"](Evidence.read(run.folder))] == []


def test_a_format_that_is_not_open_to_the_closed_division_is_to_the_open_one(run):
    open_division(run)
    told = next(name for name, each in formats().items() if not each.closed)
    run.edit_config(lambda values: values.update(precision=told))
    run.edit(logkeys.CONFIG, lambda record: record["metadata"].update(precision=told))
    assert notes(run) <= {"division.7"}


@pytest.mark.parametrize(("quota", "least"), [(None, 2), (8.0, 2), (1.5, 2), (1.0, 1)])
def test_a_quota_bounds_the_cpus_of_a_run_from_above(run, quota, least):
    run.edit_system(lambda values: values["environment"].update(cpu_quota=quota))
    for cpus in (1, 2):
        run.edit_system(lambda values, cpus=cpus: values["detected"].update(logical_cpus=cpus))
        found = {each.expected for each in RUN.by_rule["system.4"](Evidence.read(run.folder))}
        assert (f"logical_cpus of at least {least}, which the environment has" in found) == (cpus < least)


def test_accelerators_of_which_only_the_names_were_detected_may_have_any_memory(tmp_path):
    run = write_run(tmp_path / "run", hw="h200", machine=WITH_H200)
    run.edit_system(lambda values: values["detected"].update(accelerators=["NVIDIA H200"]))
    assert notes(run) == set()


def test_a_machine_with_accelerators_may_run_without_them(run):
    run.edit_system(lambda values: values.update(detected=described("h200", WITH_H200)["detected"]))
    assert notes(run) == {"system.8"}


@pytest.mark.parametrize("version", ["0.0.9", "1.2.3rc1", "0.2.0.dev3"])
def test_another_version_of_the_suite_is_noted(run, version):
    run.edit_config(lambda values: values.update(suite_version=version))
    assert notes(run) == {"system.8"}


def test_the_driver_of_an_accelerator_is_described(tmp_path):
    run = write_run(tmp_path / "run", hw="h200", machine=WITH_H200)

    def change(values):
        values["detected"].update(driver="NVIDIA driver 580.1, CUDA 13.0")
        values["description"]["other_software_stack"] += ", NVIDIA driver 580.1, CUDA 13.0"

    run.edit_system(change)
    assert notes(run) == set()


def test_a_clock_some_hours_off_passes(run):
    run.move(-20 * 3_600_000)
    assert notes(run) == set()
    run.move(time.time_ns() // 1_000_000 + 20 * 3_600_000 - run.records()[0]["time_ms"])
    assert notes(run) == set()


def test_a_container_is_shown_the_energy_of_the_whole_machine(run):
    run.power(cpu_j=700.0, dram_j=90.0)
    assert notes(run) == set()


@pytest.mark.parametrize("watts", [8.0, 690.0])
def test_an_accelerator_draws_what_its_ceiling_allows(tmp_path, watts):
    run = write_run(tmp_path / "run", hw="h200", machine=WITH_H200)
    run.power(accelerator_j=watts, cpu_j=200.0)
    assert notes(run) == set()


def test_an_energy_without_the_accelerators_says_so(tmp_path):
    run = write_run(tmp_path / "run", hw="h200", machine=WITH_H200)
    run.power(cpu_j=200.0)
    assert notes(run) == {"measurement.2"}
    (made,) = review(run.folder).runs
    assert (made.summary.energy_source, made.summary.partial) == ("rapl without accelerators", True)
    run.edit(logkeys.ENERGY, lambda record: record["metadata"].pop("covers"))  # as older evidence, which lacks it
    assert notes(run) == {"measurement.2"}


def test_an_energy_of_which_a_part_is_estimated_lacks_nothing(tmp_path):
    """As that of two nodes, only one of which counts its accelerators' energy."""
    run = write_run(tmp_path / "run", hw="h200", machine=WITH_H200)
    for source, lacking in (("nvml+estimated", ""), ("estimated", ""), ("nvml+rapl", "accelerators")):
        told = {"source": source, "covers": []}
        run.edit(logkeys.ENERGY, lambda record, told=told: record["metadata"].update(told))
        assert unmetered(Evidence.read(run.folder)) == lacking


def test_a_run_of_the_open_division_may_compute_less_a_sample(run):
    open_division(run)
    run.squeeze(5)
    assert notes(run) <= {"division.7"}


def test_the_price_is_that_of_all_nodes(run):
    run.edit_config(lambda values: values["system"].update(nodes=2))
    priced = {each.found for each in review(run.folder).findings if each.rule == "measurement.3"}
    (cost,) = (record for record in run.records() if record["key"] == logkeys.COST)
    assert priced == {str(cost["value"]), str(cost["metadata"]["price_per_hour"])}


def test_a_node_of_which_nothing_was_measured_is_told_as_such(tmp_path):
    run = write_run(tmp_path / "run", hw="h200", machine=WITH_H200)
    run.power(accelerator_j=400.0)
    run.edit(logkeys.ENERGY, lambda record: record["metadata"].update(coverage=0.0, covers=[]))
    made = review(run.folder)
    told = [each.found for each in made.findings if each.rule == "measurement.2"]
    assert told == ["of 0%: nothing was measured of a node"]
    assert (made.runs[0].summary.energy_source, made.runs[0].summary.partial) == ("nvml", True)


@pytest.mark.parametrize(
    ("library", "source"),
    [("amdsmi", "amdsmi"), ("estimated", "nvml"), ("rapl", "nvml"), (["x"], "nvml"), (None, "nvml")],
)
def test_the_energy_of_accelerators_is_that_of_their_library(tmp_path, library, source):
    run = write_run(tmp_path / "run", hw="h200", machine=WITH_H200)
    run.edit_system(lambda values: values["detected"].update(library=library))
    run.power(accelerator_j=400.0)
    run.edit(logkeys.ENERGY, lambda record: record["metadata"].update(source=source))
    assert notes(run) == set()


def test_a_counter_may_stand_still_in_a_short_run(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence_maker, "RUN_MS", 4000)
    monkeypatch.setattr(evidence_maker, "BENCHMARK", BENCHMARK.model_copy(update={"train_flops_per_sample": None}))
    isolate(monkeypatch, tmp_path)
    run = write_run(tmp_path / "run", evaluations=1)
    run.power(cpu_j=0.0)
    assert notes(run) <= {"measurement.6"}


def test_losses_that_nobody_knows_are_noted(run):
    def change(records):
        for record in records:
            if record["key"] == logkeys.TRACKED:
                record["value"]["loss"] = None

    run.edit_log(change)
    assert notes(run) == {"quality.7"}


def test_a_log_that_tells_of_no_loss_is_noted(run):
    """Its samples are counted where a block ends."""
    steps = {keys.BLOCK_STOP: keys.INTERVAL_END, keys.BLOCK_START: keys.INTERVAL_START}
    records = []
    for record in run.records():
        told = steps if record["key"] == logkeys.TRACKED else {record["key"]: record["event_type"]}
        records += ({**record, "key": key, "event_type": kind} for key, kind in told.items())
    run.write(records)
    assert notes(run) == {"quality.7"}


def test_an_unknown_key_outside_the_head_is_noted(run):
    insert(run, keys.RUN_STOP, "thoughts", "it went well")
    assert notes(run) == {"log.7"}
    insert(run, keys.RUN_STOP, keys.WEIGHTS_INITIALIZATION)
    assert notes(run) == {"log.7"}


@pytest.mark.parametrize(("division", "found"), [("closed", True), ("open", False)])
def test_steps_of_the_open_division_may_differ(run, division, found):
    """As those of a batch size that does not divide the samples between two lines."""
    declared(run, keys.SUBMISSION_DIVISION, "division", division)
    run.edit(logkeys.TRACKED, lambda record: record["metadata"].update(samples_count=1010))
    assert ("log.5" in rules_of(review(run.folder).findings)) == found


def test_a_hyperparameter_of_the_open_division_is_logged(run):
    open_division(run)
    run.edit_config(lambda values: values["benchmark"]["hyperparameters"].update(ema_decay=0.99))
    insert(run, keys.SEED, "ema_decay", 0.99)
    assert notes(run) == {"division.7"}


@pytest.mark.parametrize(("nodes", "found"), [(1, 1), (2, 0)])
@pytest.mark.parametrize("hw", ["cpu", "h200"])
def test_the_least_time_is_that_of_all_nodes_at_their_fastest_arithmetic_of_16_bits_or_more(tmp_path, hw, nodes, found):
    """Half as much again as one node does in the run's time; a node does twice as much in 8 bits, if it has them."""
    run = write_run(tmp_path / "run", hw=hw, machine=WITH_H200 if hw == "h200" else CPU_ONLY)
    run.edit_config(lambda values: values["system"].update(nodes=nodes))
    peak = 989e12 if hw == "h200" else 2 * CPU_PEAK
    made = Evidence.read(run.folder)
    flops = 1.5 * SAVED * peak * RUN_MS / 1000 / samples_of(made.timeline.run_stop)
    made.benchmark = BENCHMARK.model_copy(update={"train_flops_per_sample": flops})
    assert len([*RUN.by_rule["quality.7"](made)]) == found


@pytest.mark.parametrize(("watts", "found"), [(1400.0, 0), (1600.0, 1)])
def test_each_node_may_draw_what_its_hardware_can(run, watts, found):
    """Both of a run's two nodes draw as much; one socket may draw 1500 W."""
    run.power(cpu_j=watts)
    run.edit_config(lambda values: values["system"].update(nodes=2))
    path = run.folder / POWER
    _, *rows = path.read_text().splitlines()
    path.write_text("\n".join([HEADER_OF_NODES, *(f"{row},{node}" for row in rows for node in (0, 1))]) + "\n")
    run.seal()
    assert len([*RUN.by_rule["measurement.7"](Evidence.read(run.folder))]) == found


@pytest.mark.parametrize(("sampled", "found"), [(1.0, True), (0.1, False)])
@pytest.mark.parametrize("counter", ["cpu_j", "estimate"])
def test_a_power_of_nothing_is_told_where_it_was_measured_for_five_seconds(tmp_path, counter, sampled, found):
    run = write_run(tmp_path / "run", sampled=sampled)
    if counter == "cpu_j":
        run.power(cpu_j=0.0)
    else:
        run.edit(logkeys.ENERGY, lambda record: record["metadata"].update(mean_w=0.0))
    told = [each.expected for each in RUN.by_rule["measurement.7"](Evidence.read(run.folder))]
    assert bool(told) == found
