"""What tells the auditor's machine from a run's, so that the same bits cannot be asked for."""

from dataclasses import replace

import pytest
from mlperf_logging.mllog import constants as keys

from suite.audit.likeness import unlike
from suite.audit.replaying import Means
from suite.audit.subject import run_of
from suite.config.folder import ROOT
from suite.record.environment import environment
from suite.rules.reading import Evidence
from tasks import image_classification
from tests.rules.mutants.restarts import restarted
from tests.rules.subject import CONTESTANT, CPU_ONLY


@pytest.fixture
def told(run):
    """Return how a machine differs from that of the run, with the run's own packages."""
    made = run_of(Evidence.read(run.folder), run.folder, "", None)
    means = Means(ROOT, image_classification, {}, "cpu")
    return lambda machine: unlike(made, means, machine, made.evidence.described("software"))


def test_the_machine_of_the_run_is_like_it(told):
    assert told(CPU_ONLY) == ()


def test_a_processor_that_lacks_native_bf16_is_unlike_one_that_has_it(told):
    assert told(replace(CPU_ONLY, cpu_bf16=False)) == ("native bf16 True, here False",)


def test_another_number_of_threads_is_unlike_the_run_s(told, monkeypatch):
    ours = environment()
    monkeypatch.setattr("suite.audit.likeness.environment", lambda: {**ours, "threads": ours["threads"] + 1})
    assert told(CPU_ONLY) == (f"threads {ours['threads']}, here {ours['threads'] + 1}",)


def test_a_run_of_two_workers_is_unlike_what_one_trains(run):
    run.edit_config(lambda values: values["system"].update(workers=2))
    made = run_of(Evidence.read(run.folder), run.folder, "", None)
    software = made.evidence.described("software")
    assert unlike(made, Means(ROOT, image_classification, {}, "cpu"), CPU_ONLY, software) == ("workers 2, here 1",)


def test_variables_decide_bits_but_not_those_that_choose_accelerators_or_name_caches(told, monkeypatch):
    ours = environment()
    more = {
        "CUDA_VISIBLE_DEVICES": "0",
        "NVIDIA_VISIBLE_DEVICES": "GPU-1",
        "GPU_DEVICE_ORDINAL": "0",
        "TRITON_CACHE_DIR": "/scratch",
        "CUDA_CACHE_PATH": "/scratch",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
    here = {**ours, "variables": {**ours["variables"], **more}}
    monkeypatch.setattr("suite.audit.likeness.environment", lambda: here)
    assert told(CPU_ONLY) == ("CUBLAS_WORKSPACE_CONFIG None, here :4096:8",)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        (["detected.cpu_model", "detected.kernel"], ("changed at a restart: detected.cpu_model",)),
        (["environment.variables.CUDA_VISIBLE_DEVICES", "description.host_storage_capacity"], ()),
        ("detected.cpu_model", ()),
    ],
)
def test_a_run_that_went_on_on_another_machine_is_like_none(run, changed, found):
    restarted(run, keys.EVAL_STOP, changed=changed)
    assert unlike_with(run, {}) == found


@pytest.mark.parametrize(
    ("package", "differs"),
    [("jaxlib", True), ("nvidia-cudnn-cu13", True), ("keras", True), ("certifi", False), ("nvidia-ml-py", False)],
)
def test_a_library_of_another_version_may_compute_other_bits(run, package, differs):
    run.edit_system(lambda values: values["software"].update({package: "1.0"}))
    assert unlike_with(run, {package: "1.1"}) == ((f"{package} 1.0, here 1.1",) if differs else ())


@pytest.mark.parametrize("package", ["flash-attn", "flash_attn"])
def test_so_may_what_a_submitter_s_own_code_imports(run, package):
    own = CONTESTANT.model_copy(update={"imports": {**CONTESTANT.imports, "flash_attn": "1.0"}})
    run.edit_config(lambda values: values.update(implementation=own.model_dump()))
    run.edit_system(lambda values: values["software"].update({package: "1.0"}))
    assert unlike_with(run, {package: "1.1"}) == (f"{package} 1.0, here 1.1",)


def unlike_with(evidence, versions):
    made = run_of(Evidence.read(evidence.folder), evidence.folder, "", None)
    software = {**made.evidence.described("software"), **versions}
    return unlike(made, Means(ROOT, image_classification, {}, "cpu"), CPU_ONLY, software)
