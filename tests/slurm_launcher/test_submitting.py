"""What a login node asks of SLURM, and what it refuses before."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from suite import config
from suite.config.plan import Plan
from suite.errors import UserError
from suite.forecast.memory import Footprint
from suite.run import slurm
from suite.run.__main__ import main as run_main
from tests.slurm_launcher.conftest import launched

pytestmark = pytest.mark.skipif(find_spec("submitit") is None, reason="submitit is not installed")


def typed(*words):
    usual = {"task": "translation", "scale": "mini", "hw": "cpu"}
    options = usual | dict(word.split("=") for word in words)
    return run_main(["-m", "hydra/launcher=slurm", *(f"{name}={value}" for name, value in options.items())])


def test_several_commands_are_no_job(login):
    with pytest.raises(UserError, match="-m makes 2 commands, and a job of SLURM is one"):
        typed("seed=1,2")


def test_a_comma_in_a_name_makes_no_second_command(login, monkeypatch):
    monkeypatch.setattr("suite.forecast.memory.needed", lambda *given: Footprint(None, "not asked"))
    assert typed("submitter=Universität, Inc.", "dry_run=true") == 0


def test_a_dry_run_is_made_here(login, capsys, monkeypatch):
    """What this machine lacks is nothing to the machines of the job."""
    monkeypatch.setattr("suite.forecast.memory.needed", lambda *given: Footprint(None, "not asked"))
    assert typed("dry_run=true", "hw=v100") == 0
    said = capsys.readouterr().out
    assert "translation/mini" in said
    assert "could not be run" not in said
    assert not (login / "script").exists()


def test_what_could_never_be_run_is_not_queued(login):
    (login / "full").mkdir()
    (login / "full/kept").touch()
    with pytest.raises(UserError, match="out=full is not empty: choose another out="):
        typed("out=full")
    with pytest.raises(UserError, match="precision=mxfp8: the reference in torch trains in"):
        typed("hw=h100", "precision=mxfp8")
    assert not (login / "script").exists()


def test_the_numeric_format_is_left_to_the_machines_of_the_job(login):
    (login / "ours.py").write_text('import torch\n\nACCELERATORS = 1\nPRECISIONS = ("fp16",)\nbuild = print\n')
    assert typed("implementation=ours.py") == 3
    with pytest.raises(UserError, match="precision=bf16: ours trains in fp16"):
        typed("implementation=ours.py", "precision=bf16")


def test_the_logs_of_a_job_are_not_written_beside_the_code_that_trains(login, monkeypatch, capsys):
    (login / "ours").mkdir()
    (login / "ours/__init__.py").write_text('import torch\n\nACCELERATORS = 1\nPRECISIONS = ("fp32",)\nbuild = print\n')
    words = ("implementation=.", "mlflow=false", f"out={login}/out", f"data_dir={login}")
    monkeypatch.chdir(login / "ours")
    with pytest.raises(UserError, match=r"^runs/slurm would be written into .*: start it from another folder$"):
        typed(*words)
    assert not (login / "script").exists()
    assert typed(*words, "dry_run=true") == 0
    assert "runs/slurm would be written into" in " ".join(capsys.readouterr().out.split())


def test_a_job_has_the_time_that_its_partition_gives_unless_it_is_told(login):
    launched()
    assert "--time" not in (login / "script").read_text()
    launched(time="90")
    assert "#SBATCH --time=90\n" in (login / "script").read_text()


@pytest.mark.parametrize(
    "option", ["array_parallelism", "gpus_per_task", "nodes", "signal_delay_s", "stderr_to_stdout", "use_srun"]
)
@pytest.mark.parametrize("dry", [False, True])
def test_what_the_run_sets_itself_is_refused(login, option, dry):
    with pytest.raises(UserError, match=f"unknown option of slurm '{option}'"):
        typed(f"slurm.{option}=1", f"dry_run={str(dry).lower()}")
    assert not (login / "script").exists()


def test_processors_are_asked_for_again_of_srun_and_what_has_no_value_gets_none(login):
    launched(cpus_per_task="8", exclusive="true")
    script = (login / "script").read_text()
    assert "#SBATCH --exclusive\n" in script
    assert "--cpus-per-task=8 " in next(line for line in script.splitlines() if line.startswith("srun"))


@pytest.mark.filterwarnings("error")
def test_what_submitit_advises_is_not_told(login):
    launched(cpus_per_gpu="8")
    assert "#SBATCH --cpus-per-gpu=8\n" in (login / "script").read_text()


@pytest.mark.parametrize(
    ("gres", "asked"), [("gpu:v100:8", "--gres=gpu:v100:8"), ("lscratch:100", "--gpus-per-node=8")]
)
def test_accelerators_are_asked_for_once(login, gres, asked):
    launched("v100x8", gres=gres)
    lines = (login / "script").read_text().splitlines()
    assert [line.split()[1] for line in lines if "gpu" in line] == [asked]


@pytest.mark.parametrize(
    ("hw", "options", "told"),
    [("v100x8", {}, 1), ("v100x8", {"cpus_per_task": "8"}, 0), ("v100x8", {"exclusive": "true"}, 0), ("cpu", {}, 0)],
)
def test_workers_of_accelerators_that_get_one_processor_each_are_told(login, capsys, hw, options, told):
    launched(hw, **options)
    said = "none of slurm.cpus_per_task=, slurm.cpus_per_gpu=, slurm.exclusive= is given"
    assert capsys.readouterr().out.count(said) == told


def test_the_system_is_not_that_of_the_login_node(login):
    for words in ((), ("dry_run=true",)):
        with pytest.raises(UserError, match="hw=auto would be this machine, not those of the job"):
            typed("hw=auto", *words)
    assert not (login / "script").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("slurm.time=5", "slurm.time= is of a SLURM job: add -m hydra/launcher=slurm"),
        ("hydra/launcher=lsf", "unknown launcher 'lsf': Allowed: slurm."),
        ("hydra/launcher=slurm slurm.partition=", "slurm.partition= has no value: give one, or leave it out"),
        (
            "hydra/launcher=slurm slurm.partition",
            "'slurm.partition' is not of the form option=value; for example slurm.time=60",
        ),
        ("hydra/launcher=slurm slurm.time=5 slurm.time=10", "slurm.time= is given twice"),
    ],
)
def test_a_job_is_asked_for_by_the_launcher_s_name_and_options_with_values(login, words, said):
    with pytest.raises(UserError) as error:
        run_main(["-m", "task=translation", "scale=mini", "hw=cpu", "dry_run=true", *words.split()])
    assert str(error.value) == said
    assert not (login / "script").exists()


def test_a_job_has_the_nodes_and_workers_of_its_system_and_time_to_seal_its_evidence(login, capsys):
    for nodes in (1, 2):
        launched("v100x8", nodes)
    said = capsys.readouterr().out
    assert "job       7, 1 node of 8; its log" in said
    assert "job       7, 2 nodes of 8; its log" in said
    asked = {line.split()[1] for line in (login / "script").read_text().splitlines() if line.startswith("#SBATCH")}
    assert {"--nodes=2", "--ntasks-per-node=8", "--signal=TERM@60"} <= asked


def test_what_sbatch_does_not_take_is_told_in_its_words(login):
    refusing = (
        "#!/bin/sh\necho sbatch: error: invalid partition specified: gpu >&2\necho the site has moved >&2\nexit 1\n"
    )
    (login / "sbatch").write_text(refusing)
    with pytest.raises(UserError, match=r"^SLURM does not take the job: sbatch: error: invalid partition .*: gpu$"):
        launched()


def test_a_job_writes_to_a_folder_that_is_chosen_before_it_waits(login):
    def folders(*words):
        typed(*words)
        return re.findall(r"(?:out|resume)=\S+", (login / "script").read_text().splitlines()[-1])

    (chosen,) = folders()
    assert re.fullmatch(r"out=runs/translation-mini-torch-cpu-\d{8}-\d{6}-[0-9a-f]{4}", chosen)
    assert folders("out=mine") == ["out=mine"]


def test_a_job_that_goes_on_with_a_run_is_on_the_system_of_that_run(login):
    of = (config.benchmark("translation", "mini"), config.system("v100x8"), config.framework("torch"))
    plan = Plan(*of, "fp16", (1,), None, "0" * 32, "someone", "closed", "research", None, Path("cut"))
    (login / "cut").mkdir()
    (login / "cut/config.yaml").write_text(yaml.safe_dump(plan.resolved(1)))
    assert run_main(["-m", "hydra/launcher=slurm", "resume=cut"]) == 3
    script = (login / "script").read_text()
    assert "#SBATCH --ntasks-per-node=8\n" in script
    assert script.splitlines()[-1].endswith("suite.run resume=cut")


def test_a_job_submitted_from_another_has_none_of_its_settings(login, monkeypatch):
    sbatch = (login / "sbatch").read_text()
    (login / "sbatch").write_text(f"{sbatch}\nenv > environment\n")
    given = {"SLURM_CONF": "slurm.conf", "SLURM_CPU_BIND": "none", "SBATCH_ACCOUNT": "ours"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)

    def passed():
        launched()
        told = dict(line.split("=", 1) for line in (login / "environment").read_text().splitlines() if "=" in line)
        return {name: value for name, value in told.items() if name.startswith(("SLURM_", "SBATCH_"))}

    assert passed() == given
    monkeypatch.setenv("SLURM_JOB_ID", "6")
    del given["SLURM_CPU_BIND"]
    assert passed() == given


def test_a_job_imports_nothing_from_the_current_folder_that_the_command_would_not(login, monkeypatch):
    (login / "rich.py").write_text("raise SystemExit('a stranger')")
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])  # '' is the current folder
    slurm.launch(["--help"], config.system("v100x8"), {})
    (login / "srun").write_text('#!/bin/sh\nshift 3\nexec "$@"\n')
    done = subprocess.run(["sh", "script"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("python -m suite.run ")


@pytest.mark.parametrize("name", ["50%j x", "100%%", r"a\b"])
def test_a_folder_whose_name_is_a_pattern_of_slurm_s_is_refused(login, monkeypatch, name):
    (login / name).mkdir()
    monkeypatch.chdir(login / name)
    with pytest.raises(
        UserError, match=r"SLURM takes the % or \\ in .*, the folder of its logs, for a pattern: start in"
    ):
        launched()
    assert not (login / name / "script").exists()
