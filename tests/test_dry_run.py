"""The plan that `python -m suite.run dry_run=true` prints."""

import re
import subprocess
import sys
from dataclasses import replace

import pynvml
import pytest

from suite.errors import UserError
from suite.forecast.memory import Footprint
from suite.measure.accelerators import nvidia
from suite.measure.accelerators.devices import Accelerator
from suite.run.__main__ import main
from tests.command import ENVIRONMENT
from tests.measure import fakes
from tests.parity_runs import RUN


@pytest.fixture(autouse=True)
def memory_is_not_told(monkeypatch):
    """To tell it, a process imports the framework; tests/forecast/test_memory.py has it told."""
    monkeypatch.setattr("suite.forecast.memory.needed", lambda *given: Footprint(None, "not asked"))


@pytest.fixture
def planned(capsys):
    """What a command would do, as it prints it; of its words several may stand in one text, between blanks."""

    def plan(*words):
        assert main([*" ".join(words).split(), "dry_run=true"]) == 0
        return capsys.readouterr().out

    return plan


def test_dry_run_prints_the_plan_and_touches_nothing(here, planned):
    shown = planned(*RUN, "seed=5 runs=2")
    for text in ("parity/mini", "5, 6", "USD per logical CPU", "at most", "runs/parity-mini-numpy-cpu-"):
        assert text in shown
    assert "could not be run" not in shown
    assert list(here.iterdir()) == []
    (here / "kept").touch()
    assert "It could not be run here: out=. is not empty: choose another out=" in planned(*RUN, "out=.")


def test_the_plan_tells_target_cadence_and_steps(here, planned):
    shown = " ".join(planned(*RUN, "hyperparameters.global_batch_size=30").split())
    assert "target accuracy >= 0.97, evaluated after 400 samples and then every 200; budget 20,000 " in shown
    assert "steps at most 667 of 30 samples " in shown
    shown = " ".join(planned("task=speech scale=mini framework=torch hw=cpu").split())
    assert "target wer <= 0.01, evaluated " in shown


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("hw.power_ceiling_w=null", "price not known; give it with hw.price_per_hour= power ceiling not known; "),
        ("hw.price_per_hour=2", "price 2 USD per hour: set by hand power "),
    ],
)
def test_the_plan_of_a_system_that_nobody_prices(here, planned, word, said):
    assert said in " ".join(planned("task=parity framework=numpy hw=a100_80gb scale=mini", word).split())


def test_the_plan_names_a_folder_that_is_longer_than_a_line_as_a_whole(here, planned):
    out = f"{'a' * 100}/{'b' * 100}"
    assert out in "".join(planned(*RUN, f"out={out}").split())


@pytest.mark.parametrize(
    ("words", "broken"),
    [
        ("hyperparameters.global_batch_size=16", []),
        ("hyperparameters.global_batch_size=64", []),
        ("hyperparameters.global_batch_size=256", ["hyperparameters.2", "convergence.4"]),
        ("hyperparameters.opt_base_learning_rate=1 target=0.5", ["division.2", "hyperparameters.3"]),
        ("hyperparameters.dropout=0.3 evaluation.first=1000", ["division.2", "hyperparameters.1"]),
        ("hyperparameters.dropout=0.3 evaluation.first=1000 division=open", []),
        ("target=0.5 division=open", ["division.2"]),
        ("hw.price_per_cpu_hour=0.1 hw.workers=2 hw.nodes=2 hw.precision=fp32", []),
        ("hw.power_ceiling_w=200 division=open", ["system.3"]),
    ],
)
def test_the_plan_says_what_could_not_be_submitted(planned, words, broken):
    shown = planned("task=speech scale=small framework=torch hw=cpu", words)
    said = re.findall(r"It could not be submitted to the (?:closed|open) division: (\S+):", shown)
    assert said == broken


@pytest.mark.parametrize(
    ("told", "said"), [((None, None), "none: why"), (("0" * 40, True), "changes"), (("0" * 40, False), "")]
)
def test_the_plan_of_a_submitter_says_that_the_code_is_of_no_revision(here, planned, monkeypatch, told, said):
    monkeypatch.setattr("suite.record.git.state", lambda: dict(zip(("revision", "dirty"), told, strict=True)))
    monkeypatch.setattr("suite.record.git.without_revision", lambda: "why")
    for submitter in ("someone", "unknown"):
        expected = "package.9: expected the suite as a git revision has it, found (none: why|changes)"
        found = re.findall(expected, planned(*RUN, f"submitter={submitter}"))
        assert found == ([said] if said and submitter == "someone" else [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("scale=small runs=5", True),
        ("scale=small runs=5 submitter=someone", False),
        ("scale=small runs=4", False),
        ("scale=mini runs=5", False),
    ],
)
def test_the_plan_of_enough_runs_asks_for_a_submitter(planned, words, said):
    shown = planned("task=speech framework=torch hw=cpu", words)
    assert ("package.7: expected submitter=NAME, found none" in shown) == said


def test_dry_run_plans_for_a_machine_that_is_elsewhere(here, planned, monkeypatch):
    monkeypatch.setattr("suite.run.__main__.detect", fakes.machine)
    shown = planned("task=parity framework=numpy hw=v100 scale=mini seed=5")
    for text in (
        "NumPy, fp16 on gpu",
        "3.06 USD per hour",
        "at most 300 W",
        "seeds      5",
        "runs/parity-mini-numpy-v100",
    ):
        assert text in shown
    assert "It could not be run here: hw=v100 asks for 1 accelerator" in shown
    shown = planned("task=parity framework=numpy hw=v100 scale=mini hw.precision=null")
    assert "bf16 where its accelerators have it, else fp16" in shown


def test_the_plan_of_several_nodes_says_what_is_of_each(here, planned, monkeypatch):
    monkeypatch.setattr("suite.run.__main__.detect", fakes.machine)
    shown = planned("task=parity framework=numpy hw=v100 hw.nodes=4 scale=mini")
    for text in ("v100: 4 nodes of 1 x NVIDIA", "3.06 USD per hour and node:", "at most 300 W of each node"):
        assert text in shown


@pytest.mark.parametrize(("size", "each"), [(16, "2"), (20, "2.5")])
def test_the_plan_of_several_workers_tells_their_share_of_a_step(planned, size, each):
    words = ("task=recommendation", "scale=mini", "hw=v100x8", f"hyperparameters.global_batch_size={size}")
    assert f" of {size} samples, {each} for each of 8 workers" in planned(*words)


def test_the_plan_of_several_nodes_asks_for_the_network_between_them(planned):
    shown = " ".join(planned("task=recommendation scale=mini hw=v100x8 hw.nodes=2").split())
    assert "time not known without a probe: hw=v100x8 hw.nodes=2: the link of conf/hw/ is that within a node" in shown


@pytest.mark.parametrize(("nodes", "said"), [(1, False), (2, True)])
def test_the_plan_of_several_nodes_says_how_they_are_started(planned, nodes, said):
    shown = " ".join(planned(f"task=recommendation scale=mini hw=cpu hw.workers=3 hw.nodes={nodes}").split())
    start = "trains with 6 workers, 2 nodes of 3: start them all, with torchrun --nnodes=2 --nproc-per-node=3 --rdzv-"
    assert (f"It could not be run here: hw=cpu {start}" in shown) == said
    assert ("or with srun --nodes=2 --ntasks-per-node=3 python -m suite.run ..." in shown) == said


def test_dry_run_names_what_is_not_installed(here, planned):
    shown = planned("task=parity framework=ghost hw=cpu")
    assert "not be run here: parity in A framework that nobody has installed needs no_such_framework: " in shown
    assert "pip install -c constraints.txt -e '.[ghost]'" in shown


def test_dry_run_names_a_compiler_that_a_gpu_wants_and_is_not_there(here, planned, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr("suite.run.__main__.detect", lambda: fakes.machine("NVIDIA H200"))
    why = "PyTorch compiles for accelerators with a C compiler, and CC=no-such-compiler is none: apt-get install gcc"
    for hw, wants in (("h200", True), ("cpu", False)):
        shown = planned(f"task=recommendation scale=mini framework=torch hw={hw}")
        assert (f"It could not be run here: {why}" in shown) == wants


def test_the_plan_says_that_a_driver_is_there_and_no_accelerator_was_found(here, planned, monkeypatch):
    fakes.install(monkeypatch)
    monkeypatch.setattr(pynvml, "nvmlInit", fakes.failing(pynvml.NVML_ERROR_DRIVER_NOT_LOADED))
    monkeypatch.setattr(nvidia, "DRIVER", (here,))
    for hw, said in (("auto", True), ("cpu", False)):
        shown = planned(f"task=parity framework=numpy hw={hw}")
        assert ("none, for NVML does not answer (Driver Not Loaded)" in shown) == said


@pytest.mark.parametrize(
    ("precision", "architecture", "allowed", "refused"),
    [
        ("tf32", "sm_75", "0", True),
        ("fp32", "sm_75", "0", False),
        ("tf32", "sm_80", "0", False),
        ("tf32", "sm_120", "0", False),
        ("tf32", "gfx942", "0", True),
        ("tf32", "gfx942", "1", False),
        ("tf32", "gfx1100", "1", True),
        ("tf32", "example", "0", False),
    ],
)
def test_tf32_is_refused_where_it_would_be_fp32(here, planned, monkeypatch, precision, architecture, allowed, refused):
    monkeypatch.setenv("HIPBLASLT_ALLOW_TF32", allowed)
    found = replace(fakes.machine(), accelerators=(Accelerator("A", 80.0, architecture, True),))
    monkeypatch.setattr("suite.run.__main__.detect", lambda: found)
    said = f"It could not be run here: precision=tf32: A ({architecture}) multiplies fp32 as it is; tf32 takes sm_80"
    assert (said in planned("task=translation hw=auto scale=mini", f"precision={precision}")) == refused


def test_dry_run_plans_for_more_accelerators_than_the_reference_trains_on(here, planned):
    shown = planned("task=parity framework=numpy hw=toaster")
    assert "parity/mini" in shown
    assert "No machine could run it yet: hw=toaster trains with 2 workers; parity in NumPy with 1" in shown
    assert "choose fewer accelerators with CUDA_VISIBLE_DEVICES=0 and hw=auto" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "task=image_classification scale=full hw.nodes=2",
            "16 workers cannot share the 8 parts of a step: take 8 workers at most",
        ),
        ("task=translation scale=full hw.nodes=4", "32 workers cannot share the 24 parts of a step"),
        ("task=language_modeling scale=full hw.nodes=65", "520 workers cannot share the 512 parts of a step"),
        ("task=detection scale=small hw.nodes=2", "16 workers cannot share the 8 parts of a step"),
        ("task=translation scale=full hw.nodes=3", None),
    ],
)
@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_dry_run_refuses_more_workers_than_a_step_has_parts(planned, framework, words, said):
    shown = planned(words, f"framework={framework}", "hw=h100x8")
    assert f"No machine could run it yet: {said}" in shown if said else "No machine" not in shown


def test_dry_run_plans_for_a_format_that_the_reference_does_not_train_in(here, planned):
    shown = planned("task=translation hw=h100 precision=mxfp8")
    assert "No machine could run it yet: precision=mxfp8: the reference in torch trains in fp32, tf32, bf16" in shown


def test_dry_run_of_what_is_not_written_is_a_mistake(here):
    with pytest.raises(UserError, match="unknown framework for parity 'torch'"):
        main(["task=parity", "framework=torch", "hw=v100", "scale=mini", "dry_run=true"])


def test_dry_run_imports_no_framework(tmp_path):
    program = (
        "import sys; from suite.run.__main__ import main; code = main(sys.argv[1:]); "
        "sys.exit(code or bool({'torch', 'tensorflow', 'keras'} & sys.modules.keys()))"
    )
    words = ("task=translation", "hw=v100", "framework=tensorflow", "dry_run=true")
    assert subprocess.run([sys.executable, "-c", program, *words], cwd=tmp_path, env=ENVIRONMENT).returncode == 0
