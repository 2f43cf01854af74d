"""`python -m suite.run`, tried with a task, a framework and a machine that `suite/` has never heard of."""

import json
import re
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest
import yaml

import reference_impls
import tasks
from suite.config import folder
from suite.errors import UserError
from suite.record.evidence import SEALED
from suite.run.__main__ import main
from tests.command import ENVIRONMENT, eighth, run, start
from tests.eighth_task import install
from tests.measure import fakes
from tests.parity_runs import RUN, SLOW, keys, lines, wait_for
from tests.waiting import FOREVER_S


def test_reaches_the_target_and_leaves_sealed_evidence(tmp_path):
    done = run(tmp_path, "tests.eighth_task", "run", *RUN, "seed=1", "out=evidence")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "evidence"
    assert {path.name for path in folder.iterdir()} == {*SEALED, "manifest.json"}
    log = lines(folder)
    assert not any(line.problem for line in log)
    stop = next(line for line in log if line.key == "run_stop")
    last = [line for line in log if line.key == "eval_accuracy"][-1]
    assert stop.metadata["status"] == "success"
    assert last.value >= 0.97 > max([0, *(line.value for line in log if line.key == "eval_accuracy")][:-1])
    assert stop.metadata["samples_count"] == last.metadata["samples_count"]
    assert yaml.safe_load((folder / "config.yaml").read_text())["seed"] == 1
    assert "review    python -m suite.review evidence\n" in done.stdout
    assert "mlflow    python -m suite.sync evidence\n" in done.stdout
    assert "verdict   pass" in done.stdout
    assert "estimated" in done.stdout


def test_review_passes_what_run_leaves(tmp_path):
    eighth(tmp_path, "run", *RUN, "seed=1", "out=evidence")
    done = eighth(tmp_path, "review", "evidence")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_open_division_frees_the_hyperparameters(tmp_path):
    faster = (*RUN, "seed=1", "hyperparameters.opt_base_learning_rate=0.1")
    closed = eighth(tmp_path, "run", *faster, "out=closed")
    assert "verdict   fail" in closed.stdout
    opened = eighth(tmp_path, "run", *faster, "out=open", "division=open", "category=cloud", "submitter=example-org")
    assert "verdict   pass" in opened.stdout, opened.stdout
    said = {"submitter": "example-org", "division": "open", "status": "cloud"}
    logged = {line.key: line.value for line in lines(tmp_path / "open")}
    assert {name: logged[f"submission_{name}"] for name in ("division", "status")} | {
        "submitter": logged["submission_org"]
    } == said
    assert said.items() <= json.loads((tmp_path / "open/system.json").read_text())["description"].items()
    again = eighth(tmp_path, "run", *RUN, "resume=open", "division=closed")
    assert "division=closed contradicts resume=open, which is a run of division=open" in again.stderr


def test_says_so_when_the_budget_ends_first(tmp_path):
    done = eighth(tmp_path, "run", *RUN, "seed=1", "out=evidence", "target=1.5")
    assert done.returncode == 3
    stop = next(line for line in lines(tmp_path / "evidence") if line.key == "run_stop")
    assert (stop.metadata["status"], stop.metadata["reason"]) == ("aborted", "budget")
    assert stop.metadata["samples_count"] == 20000


@pytest.fixture(scope="module")
def eighth_task():
    """The eighth task in this process, and gone again afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder, "CONF", folder.CONF)
        for package in (tasks, reference_impls):
            patch.setattr(package, "__path__", list(package.__path__))
        install()
        yield


@pytest.fixture
def here(eighth_task, tmp_path, monkeypatch):
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


P = ("task=parity", "framework=numpy", "hw=cpu")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("task=partiy", "framework=numpy"), "'partiy': did you mean 'parity'"),
        (("task=parity", "scale=mimi"), "'mimi': did you mean 'mini'"),
        ((*P, "scale=[mini]"), "unknown scale of parity \"['mini']\""),
        (("task=parity", "framework=nunpy"), "'nunpy': did you mean 'numpy'"),
        (("task=parity", "framework=torch", "hw=cpu"), "unknown framework for parity 'torch': Allowed: ghost, numpy."),
        (("task=parity", "hw=toster"), "'toster': did you mean 'toaster'"),
        (("task=parity", "sede=1"), "'sede': did you mean 'seed'"),
        ((*P, "hydra.verbose=true"), "unknown option 'hydra'"),
        ((*P, "framework.module=os"), "unknown option 'framework.module': did you mean 'framework'"),
        ((*P, "hw.price_per_hours=1"), "'price_per_hours': did you mean 'price_per_hour'"),
        ((*P, "hw.price.provder=1"), "did you mean"),
        ((*P, "hw.accelerator='['"), "hw.accelerator is '[': not a regular expression"),
        ((*P, "hw.title=${nobody}"), "Interpolation key 'nobody' not found"),
        ((*P, "hw.price_per_hour=inf"), "price_per_hour is inf: Input should be a finite number"),
        ((*P, "seed=-1"), "seed=-1 is not from 0"),
        ((*P, "seed=one"), "seed=one is not a whole number"),
        ((*P, "seed=" + "1" * 5000), "cannot be read"),
        ((*P, "seed=${seed}"), "Recursive interpolation detected"),
        ((*P, "seed=1,2"), "'seed=1,2' gives several values: add -m"),
        ((*P, "runs=0"), "runs=0 is not from 1 to 1000"),
        ((*P, "runs=true"), "runs=True is not a whole number"),
        (
            (*P, "runs=3000000000", "seed=0"),
            "runs=3000000000 is not from 1 to 1000; for more runs give several commands",
        ),
        (
            (*P, "runs=2", "seed=2147483647"),
            "seed=2147483647 is not from 0 to 2147483646, the last from which 2 runs can count on",
        ),
        ((*P, "target=high"), "target is 'high'"),
        ((*P, "targt=1"), "'targt': did you mean 'target'"),
        ((*P, "budget_samples=0"), "budget_samples is 0: Input should be greater than 0"),
        ((*P, "precision=int8"), "precision is 'int8': Input should be 'fp32', 'bf16' or 'fp16'"),
        ((*P, "evaluation.frist=1"), "unknown value in evaluation of parity/mini 'frist': did you mean 'first'?"),
        ((*P, "evaluation=5"), "evaluation is 5"),
        (
            (*P, "hyperparameters.opt_base_lerning_rate=1"),
            "unknown hyperparameter of parity/mini 'opt_base_lerning_rate': did you mean 'opt_base_learning_rate'? "
            "Allowed: global_batch_size, milliseconds_per_step, opt_base_learning_rate.",
        ),
        ((*P, "+hyperparameters.global_batch_siz=3"), "did you mean 'global_batch_size'?"),
        ((*P, "hyperparameters={seed: 1}"), "unknown hyperparameter of parity/mini 'seed'"),
        ((*P, "hyperparameters=null"), "hyperparameters is None"),
        ((*P, "hyperparameter.global_batch_size=3"), "'hyperparameter': did you mean 'hyperparameters'?"),
        ((*P, "global_batch_size=3"), "did you mean 'hyperparameters.global_batch_size'?"),
        ((*P, "hyperparameters.global_batch_size.low=3"), "is 20 and has no values of its own"),
        ((*P, "hyperparameters.opt_base_learning_rate=fast"), "is 'fast': parity/mini has a number there, 0.05"),
        ((*P, "hyperparameters.opt_base_learning_rate=nan"), "is nan: parity/mini has a number there, 0.05"),
        ((*P, "hyperparameters.opt_base_learning_rate=[1"), "cannot be read"),
        ((*P, "hyperparameters.global_batch_size=2.5"), "is 2.5: parity/mini has a whole number there, 20"),
        ((*P, "hyperparameters.global_batch_size=true"), "is True: parity/mini has a whole number there, 20"),
        (
            (*P, "hyperparameters.global_batch_size=0"),
            "global_batch_size 0 of parity/mini is not a whole number from 1",
        ),
        (
            (*P, "hyperparameters.global_batch_size=300"),
            "global_batch_size 300 of parity/mini is more than the 200 samples between two evaluations",
        ),
        ((*P, "task.scales.mini.target=0.9"), "write target=0.9 with scale=mini"),
        ((*P, "resume=nowhere"), "resume=nowhere holds no run"),
        ((*P, "out=/dev/null/x"), "out="),
        (("framework=numpy",), "which task? Give task= one of: detection, image_classification, "),
        ((*P, "division=opne"), "'opne': did you mean 'open'? Allowed: closed"),
        ((*P, "category=availible"), "did you mean 'available'?"),
        ((*P, "dry_run=no"), "dry_run=no is neither true nor false"),
        ((*P, "dry_run=flase"), "dry_run=flase is neither true nor false"),
        ((*P, "--dry_run"), "options have no dashes; write dry_run=VALUE"),
        ((*P, "--cfg"), "unknown option '--cfg'"),
        (("-m", *P, "hw.bogus=1,2"), "bogus"),
        (("-m", *P, "seed=interval(0,1)"), "'seed=interval(0,1)' cannot be run one value after the other"),
        (("task=parity", "quickly"), "'quickly' is not of the form option=value"),
        (("task=parity", "framework=ghost", "hw=cpu"), "'.[ghost]'"),
        (("--help", "task=parity", "scale=mimi"), "'mimi': did you mean 'mini'"),
        ((), "which task?"),
    ],
)
def test_answers_a_mistake_with_one_line(here, arguments, said):
    with pytest.raises(UserError) as error:
        main(list(arguments))
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("task=partiy",), "'partiy': did you mean 'parity'"),
        ((*P, "hyperparameters.foo=3"), "unknown hyperparameter of parity/mini 'foo'"),
        (("-m", *P, "seed=one,two"), "seed=one is not a whole number"),
    ],
)
def test_a_mistake_is_exit_code_2_and_no_traceback(tmp_path, arguments, said):
    done = eighth(tmp_path, "run", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert all(line.startswith("error: ") for line in done.stderr.splitlines())
    assert not (tmp_path / "runs").exists()


def test_refuses_a_machine_that_is_not_the_system(tmp_path):
    done = eighth(tmp_path, "run", "task=parity", "framework=numpy", "hw=toaster", "mlflow=false")
    assert done.returncode == 2
    assert re.search(r"hw=toaster asks for 2 .*Heating Coil.* hw=cpu", done.stderr)
    assert not (tmp_path / "runs").exists()


def test_help_lists_tasks_scales_and_systems(here, capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for text in ("parity: Which side", "scale=mini", "toaster", "h200x8", "NumPy", "resume=FOLDER", "Exit code"):
        assert text in shown


def test_help_lists_the_hyperparameters_of_a_benchmark(here, capsys):
    assert main(["--help", "task=parity", "scale=mini"]) == 0
    assert "hyperparameters.opt_base_learning_rate=0.05\n" in capsys.readouterr().out


def test_dry_run_prints_the_plan_and_touches_nothing(here, capsys):
    assert main([*RUN, "seed=5", "runs=2", "dry_run=true"]) == 0
    shown = capsys.readouterr().out
    for text in ("parity/mini", "5, 6", "USD per logical CPU", "at most", "runs/parity-mini-numpy-cpu-"):
        assert text in shown
    assert "could not run" not in shown
    assert list(here.iterdir()) == []


def test_dry_run_plans_for_a_machine_that_is_elsewhere(here, capsys, monkeypatch):
    monkeypatch.setattr("suite.run.__main__.detect", fakes.machine)
    assert main(["task=parity", "framework=numpy", "hw=v100", "scale=mini", "seed=5", "dry_run=true"]) == 0
    shown = capsys.readouterr().out
    for text in (
        "NumPy, fp16 on gpu",
        "3.06 USD per hour",
        "at most 300 W",
        "seeds      5",
        "runs/parity-mini-numpy-v100",
    ):
        assert text in shown
    assert "This machine could not run it: hw=v100 asks for 1 accelerator" in shown
    assert main(["task=parity", "framework=numpy", "hw=v100", "scale=mini", "hw.precision=null", "dry_run=true"]) == 0
    assert "bf16 where its accelerators have it, else fp16" in capsys.readouterr().out


def test_dry_run_names_what_is_not_installed(here, capsys):
    assert main(["task=parity", "framework=ghost", "hw=cpu", "dry_run=true"]) == 0
    shown = capsys.readouterr().out
    assert "This machine could not run it: parity needs no_such_framework: pip install -c constraints.txt" in shown
    assert "-e '.[ghost]'" in shown


def test_dry_run_plans_for_more_accelerators_than_the_reference_trains_on(here, capsys):
    assert main(["task=parity", "framework=numpy", "hw=toaster", "dry_run=true"]) == 0
    shown = capsys.readouterr().out
    assert "parity/mini" in shown
    assert "No machine could run it yet: hw=toaster has 2 accelerators; parity in NumPy trains on 1" in shown


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


def test_makes_several_runs_with_distinct_seeds(tmp_path):
    done = eighth(tmp_path, "run", *RUN, "runs=3", "out=result")
    assert done.returncode == 0, done.stderr
    seeds = {line.value for i in (1, 2, 3) for line in lines(tmp_path / "result" / f"run_{i}") if line.key == "seed"}
    assert len(seeds) == 3
    assert "time to quality, olympic mean of 3 runs: " in done.stdout
    assert eighth(tmp_path, "review", "result").returncode == 0


def test_hydra_multirun_makes_one_command_line_for_each_value(tmp_path):
    done = eighth(tmp_path, "run", "-m", *RUN, "seed=1,2", "out=of_${seed}")
    assert done.returncode == 0, done.stderr
    assert [line.value for i in (1, 2) for line in lines(tmp_path / f"of_{i}") if line.key == "seed"] == [1, 2]
    assert not (tmp_path / "multirun.yaml").exists()


def test_a_mistake_in_one_of_several_commands_leaves_the_others(here, capsys):
    assert main(["-m", *RUN, "dry_run=true", "seed=1,one,3", "out=of_${seed}"]) == 2
    printed = capsys.readouterr()
    assert ["of_1" in printed.out, "of_3" in printed.out] == [True, True]
    assert printed.err == "error: seed=one is not a whole number\n"


def test_one_seed_gives_one_log_apart_from_times(tmp_path):
    def facts(name: str) -> list:
        eighth(tmp_path, "run", *RUN, "seed=7", f"out={name}")
        measured = {"suite_environment", "suite_energy", "suite_cost", "suite_config"}
        return [
            (
                line.key,
                line.value if line.key != "tracked_stats" else line.value["loss"],
                {k: v for k, v in line.metadata.items() if k != "prev"},
            )
            for line in lines(tmp_path / name)
            if line.key not in measured
        ]

    assert facts("a") == facts("b")
    assert (tmp_path / "a/predictions.jsonl").read_bytes() == (tmp_path / "b/predictions.jsonl").read_bytes()


def test_ctrl_c_ends_the_run_with_sealed_evidence(tmp_path):
    process = start(tmp_path, "tests.eighth_task", "run", *SLOW, "out=evidence", "target=1.5")
    wait_for(tmp_path / "evidence", "eval_accuracy")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=FOREVER_S)
    assert process.returncode == 130
    stop = next(line for line in lines(tmp_path / "evidence") if line.key == "run_stop")
    assert (stop.metadata["status"], stop.metadata["reason"]) == ("aborted", "interrupt")
    assert (tmp_path / "evidence/manifest.json").exists()


def test_ctrl_c_ends_all_of_several_commands(tmp_path):
    process = start(tmp_path, "tests.eighth_task", "run", "-m", *SLOW, "out=of_1,of_2", "target=1.5")
    wait_for(tmp_path / "of_1", "eval_accuracy")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=FOREVER_S)
    assert process.returncode == 130
    assert not (tmp_path / "of_2").exists()


def test_a_full_disk_is_found_before_the_clock_starts(tmp_path):
    done = run(
        tmp_path,
        "tests.eighth_task",
        "run",
        *RUN,
        "out=evidence",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
    )
    assert done.returncode == 2
    assert "MiB of room" in done.stderr
    assert "run_start" not in keys(tmp_path / "evidence")


def test_an_own_price_decides_the_cost(tmp_path):
    done = eighth(tmp_path, "run", *RUN, "seed=1", "out=evidence", "hw.price_per_hour=3600")
    assert done.returncode == 0, done.stderr
    log = {line.key: line for line in lines(tmp_path / "evidence")}
    seconds = (log["run_stop"].time_ms - log["run_start"].time_ms) / 1000
    assert np.isclose(log["suite_cost"].value, seconds)


def test_a_diverged_run_ends_at_once_with_sealed_evidence(tmp_path):
    wild = ("hyperparameters.opt_base_learning_rate=1.0e+308", "division=open")
    done = eighth(tmp_path, "run", *RUN, "seed=1", "out=wild", *wild)
    assert done.returncode == 3, done.stderr
    stop = next(line for line in lines(tmp_path / "wild") if line.key == "run_stop")
    assert (stop.metadata["status"], stop.metadata["reason"]) == ("aborted", "diverged")
    assert stop.metadata["samples_count"] < 400
    assert "verdict   pass" in done.stdout, done.stdout


@pytest.mark.parametrize("name", ["ünï", "it's", "a b", "1_000", "a=b", "${seed}"])
def test_a_folder_may_have_any_name(tmp_path, name):
    done = eighth(tmp_path, "run", *RUN, "seed=1", f"out={name}", "submitter=Universität, Inc.")
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load((tmp_path / name / "config.yaml").read_text())["submitter"] == "Universität, Inc."
