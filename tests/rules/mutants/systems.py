"""Mutants of the chapter on systems, and of the code that ran."""

from __future__ import annotations

import json
from dataclasses import replace

from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from suite.measure.accelerators.devices import Accelerator
from suite.record import evidence
from tests.rules.mutants.registry import breaks, rewrite
from tests.rules.subject import WITH_H200


@breaks("system.1")
def framework_not_described(run):
    run.edit_system(lambda values: values["description"].update(framework=" "))


@breaks("system.1")
def description_lacks_a_key(run):
    run.edit_system(lambda values: values["description"].pop("cooling"))


@breaks("system.4")
def fewer_cpus_than_the_environment_has(run):
    run.edit_system(lambda values: values["environment"].update(cpus=values["detected"]["logical_cpus"] + 1))


@breaks("system.2")
def another_system_in_the_log(run):
    run.edit(keys.SUBMISSION_PLATFORM, lambda record: record.update(value="h200"))


@breaks("system.2")
def another_system_beside_the_configuration_s_sum(run):
    run.edit(logkeys.CONFIG, lambda record: record["metadata"].update(system="h200"))


@breaks("system.2")
def another_system_described(run):
    run.edit_system(lambda values: values["description"].update(system_name="h200"))


@breaks("model.3")
def changed_code(run):
    run.recode(dirty=True)


@breaks("model.3")
def code_of_no_revision(run):
    run.recode(revision=None, dirty=None)


@breaks("model.3")
def code_that_nothing_is_said_of(run):
    run.recode(revision=None, dirty=None)
    run.edit_system(lambda values: values.pop("git"))


@breaks("model.4")
def another_revision_in_the_description(run):
    run.edit_system(lambda values: values["git"].update(revision="f" * 40))


@breaks("model.4")
def changes_that_the_description_hides(run):
    run.edit(logkeys.CONFIG, lambda record: record["metadata"].update(git_dirty=True))


@breaks("model.4")
def a_revision_in_the_log_alone(run):
    run.edit_system(lambda values: values["git"].update(revision=None))


@breaks("model.4")
def a_revision_that_is_none(run):
    run.recode(revision="latest")


@breaks("system.2")
def another_framework_described(run):
    run.edit_system(lambda values: values["description"].update(framework="TensorFlow 2.0"))


@breaks("system.3")
def own_figures(run):
    run.edit_config(lambda values: values["system"].update(title="a faster machine"))


def renamed_system(run, name):
    run.edit(keys.SUBMISSION_PLATFORM, lambda record: record.update(value=name))
    run.edit(logkeys.CONFIG, lambda record: record["metadata"].update(system=name))
    run.edit_config(lambda values: values["system"].update(name=name))
    run.edit_system(lambda values: values["description"].update(system_name=name))


@breaks("system.3")
def unknown_system(run):
    renamed_system(run, "mine")


@breaks("system.3")
def own_figures_of_a_machine_that_nobody_knows(run):
    renamed_system(run, "auto")


@breaks("system.4")
def another_accelerator(run):
    made = rewrite(run, hw="h200", machine=WITH_H200)
    made.edit_system(lambda values: values["detected"]["accelerators"][0].update(name="NVIDIA A100"))


@breaks("system.4")
def more_accelerators_than_the_system_has(run):
    rewrite(run, hw="h200", machine=replace(WITH_H200, accelerators=2 * WITH_H200.accelerators))


@breaks("system.4")
def another_accelerator_beside_the_system_s_own(run):
    other = Accelerator("NVIDIA L4", 22.5, "sm_89", True)
    rewrite(run, hw="h200", machine=replace(WITH_H200, accelerators=(*WITH_H200.accelerators, other)))


@breaks("system.4")
def another_node_than_its_only_one(run):
    run.edit_system(lambda values: values.update(other_nodes=[values["detected"]]))


@breaks("system.4")
def more_processors_described(run):
    run.edit_system(lambda values: values["description"].update(host_processor_vcpu_count="64"))


@breaks("system.4")
def a_smaller_machine_described(run):
    run.edit_system(lambda values: values["description"].update(host_memory_capacity="1 GB"))


@breaks("system.4")
def an_accelerator_that_was_not_found(run):
    made = rewrite(run, hw="h200", machine=WITH_H200)
    made.edit_system(lambda values: values["description"].update(accelerator_model_name="NVIDIA T4"))


@breaks("system.4")
def an_accelerator_of_less_memory_described(run):
    made = rewrite(run, hw="h200", machine=WITH_H200)
    made.edit_system(lambda values: values["description"].update(accelerator_memory_capacity="80 GB"))


@breaks("system.4")
def an_accelerator_described(run):
    named = {"accelerators_per_node": "1", "accelerator_model_name": "a GPU", "accelerator_memory_capacity": "8 GB"}
    run.edit_system(lambda values: values["description"].update(named))


@breaks("system.4")
def another_kernel_described(run):
    run.edit_system(lambda values: values["detected"].update(kernel="9.9.9-mine"))


@breaks("system.4")
def another_operating_system_described(run):
    run.edit_system(lambda values: values["description"].update(operating_system="TempleOS"))


@breaks("system.4")
def another_python_described(run):
    run.edit_system(lambda values: values["description"].update(other_software_stack="Python 9.9"))


@breaks("system.4")
def a_driver_that_was_not_found(run):
    text = json.loads((run.folder / evidence.SYSTEM).read_text())["description"]["other_software_stack"]
    described = {"other_software_stack": f"{text}, NVIDIA driver 999.9, CUDA 99.9"}
    run.edit_system(lambda values: values["description"].update(described))


@breaks("system.8")
def nodes_as_text(run):
    run.edit_config(lambda values: values["system"].update(nodes="64"))
    run.edit_system(lambda values: values["description"].update(number_of_nodes="64"))


@breaks("system.8")
def no_nodes(run):
    run.edit_config(lambda values: values["system"].update(nodes=0))
    run.edit_system(lambda values: values["description"].update(number_of_nodes="0"))


@breaks("system.8")
def half_a_worker(run):
    run.edit_config(lambda values: values["system"].update(workers=0.5))


@breaks("system.8")
def another_device(run):
    run.edit_config(lambda values: values.update(device="cuda"))


@breaks("system.8")
def the_device_of_another_system(run):
    run.edit_config(lambda values: values.update(device="gpu"))


@breaks("system.8")
def a_precision_that_nobody_trains_in(run):
    run.edit_config(lambda values: values.update(precision="fp7"))


def trained_in(run, precision):
    run.edit_config(lambda values: values.update(precision=precision))
    run.edit(logkeys.CONFIG, lambda record: record["metadata"].update(precision=precision))


@breaks("model.5")
def whole_numbers_of_four_bits(run):
    trained_in(run, "int4")


@breaks("model.5")
def four_bits_with_scales(run):
    trained_in(run, "nvfp4")


@breaks("model.5")
def another_precision_in_the_log(run):
    run.edit(logkeys.CONFIG, lambda record: record["metadata"].update(precision="fp32"))


@breaks("system.8")
def a_version_of_its_own(run):
    run.edit_config(lambda values: values.update(suite_version="the good one"))


@breaks("system.8")
def no_version(run):
    run.edit_config(lambda values: values.pop("suite_version"))
