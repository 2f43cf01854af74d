"""What the command line of `python -m suite.run` asks for: mistakes in one line, help, texts."""

import re
import shutil

import pytest

from suite.config import folder
from suite.errors import UserError
from suite.run import obstacles
from suite.run.__main__ import main
from suite.run.options import parse
from tests.command import eighth, refuses
from tests.parity_runs import RUN

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
        ((*P, "seed=1", "token=open"), "seed=1 and token= exclude each other: a round's token gives the seeds"),
        ((*P, "token=open"), "token= needs submitter=NAME: the seeds are derived from both"),
        ((*P, "submitter=ex\u0430mple"), "mixes letters that look alike, CYRILLIC and LATIN, in one word"),
        ((*P, "submitter=null"), "submitter=null: give a value, or leave it out"),
        ((*P, "division=null"), "division=null: give a value, or leave it out"),
        ((*P, "submitter=example-org", "token="), "token= has no value: give one, or leave it out"),
        ((*P, "submitter=example-org", "token=a\u200bb"), "holds a character that nobody sees, U+200B"),
        ((*P, "submitter=example-org", "token=" + "a" * 201), "is not of 1 to 200 characters"),
        ((*P, "submitter=example-org", "token=open", "runs=1001"), "runs=1001 is not from 1 to 1000"),
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
        ((*P, "target=true"), "target is True: Input should be a number, not true or false."),
        ((*P, "target='0.98'"), "target is '0.98': Input should be a number, written without quotes."),
        ((*P, "budget_samples=true"), "budget_samples is True: Input should be a number"),
        ((*P, "evaluation.every=true"), "evaluation.every is True: Input should be a number"),
        ((*P, "hw.nodes=true"), "hw.nodes is True: Input should be a number"),
        ((*P, "hw.nodes='1'"), "hw.nodes is '1': Input should be a number"),
        ((*P, "hw.workers=true"), "hw.workers is True: Input should be a number"),
        ((*P, "hw.memory_gb=true"), "hw.memory_gb is True: Input should be a number"),
        ((*P, "+hw.peak_tflops.fp32=true"), "hw.peak_tflops is {'fp32': True}: Input should be a number"),
        ((*P, "dataset.subset=0.5"), "dataset.subset is not to be given: write subset=0.5"),
        ((*P, "dataset={subset: 0.5}"), "dataset.subset is not to be given: write subset=0.5"),
        ((*P, "target=97", "dry_run=true"), "target 97 of parity/mini is out of reach"),
        (
            (*P, "evaluation.first=20001", "dry_run=true"),
            "evaluation.first 20001 of parity/mini is beyond budget_samples 20000",
        ),
        ((*P, "metric=acuracy", "dry_run=true"), "unknown metric of parity/mini 'acuracy': did you mean 'accuracy'?"),
        ((*P, "targt=1"), "'targt': did you mean 'target'"),
        ((*P, "budget_samples=0"), "budget_samples is 0: Input should be greater than 0"),
        (
            (*P, "precision=fp8"),
            "unknown precision 'fp8': did you mean 'mxfp8'? Allowed: bf16, fp16, fp32, fp8_blockwise",
        ),
        (
            ("task=translation", "hw=cpu", "precision=fp8_rowwise"),
            "precision=fp8_rowwise: the reference in torch trains in fp32, tf32, bf16, fp16",
        ),
        (
            ("task=reinforcement_learning", "framework=tensorflow", "hw=cpu", "precision=bf16"),
            "precision=bf16: the reference in tensorflow trains in fp32",
        ),
        (("task=translation", "hw=cpu", "precision=tf32"), "tf32 is arithmetic of GPUs: on processors take fp32"),
        ((*P, "hw.precision=bfloat16"), "unknown precision 'bfloat16': did you mean 'bf16'?"),
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
        ((*P, "global_batch_size=3"), "did you mean hyperparameters.global_batch_size?"),
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
            (*P, "hyperparameters.global_batch_size=-20"),
            "global_batch_size -20 of parity/mini is not a whole number from 1",
        ),
        (
            (*P, "hyperparameters.global_batch_size=300"),
            "global_batch_size 300 of parity/mini is more than the 200 samples between two evaluations",
        ),
        (
            (*P, "hyperparameters.global_batch_size=25"),
            "global_batch_size 25 of parity/mini is not a multiple of 10",
        ),
        (
            (*P, "hyperparameters.global_batch_size=50", "hyperparameters={global_batch_size: 100}"),
            "hyperparameters.global_batch_size= is given twice",
        ),
        ((*P, "task.scales.mini.target=0.9"), "write target=0.9 with scale=mini"),
        ((*P, "task.parity.scales.mini.evaluation.first=9"), "write evaluation.first=9 with scale=mini"),
        ((*P, "task.mini.evaluation.first=9"), "write hyperparameters.NAME=VALUE"),
        ((*P, "resume=nowhere"), "resume=nowhere holds no run"),
        ((*P, "out=/dev/null/x"), "out="),
        ((*P, "implementation="), "implementation= has no value: give one, or leave it out"),
        (("resume=",), "resume= has no value"),
        ((*P, "precision="), "precision= has no value"),
        ((*P, "hw.precision="), "hw.precision= has no value"),
        ((*P, "hw.title="), "hw.title= has no value"),
        (("-m", *P, "seed=1,2", "scale="), "scale= has no value"),
        (("framework=numpy",), "which task? Give task= one of: detection, image_classification, "),
        ((*P, "division=opne"), "'opne': did you mean 'open'? Allowed: closed"),
        ((*P, "category=availible"), "did you mean 'available'?"),
        ((*P, "dry_run=no"), "dry_run=no is neither true nor false"),
        ((*P, "dry_run=flase"), "dry_run=flase is neither true nor false"),
        ((*P, "--dry_run"), "options have no dashes; write dry_run=VALUE"),
        ((*P, "--cfg"), "unknown option '--cfg'"),
        (("-m", *P, "seed=1,2", "out=one"), "out=one is the folder of 2 commands, and each needs its own"),
        (("-m", *P, "seed=1,2", "target=0.8,0.9", "out=of_${seed}"), "as with out='of_1/${seed}-${target}'"),
        (("-m", *P, "out=one,one"), "out=one is the folder of a command that -m gives twice: give each value once"),
        (("-m", *P, "seed=1,2", "out=one,one"), "out=one is the folder of a command that -m gives twice"),
        (("-m", *P, "target=0.9,x", "dry_run=true"), "target is 'x'"),
        (("-m", *P, "hw.bogus=1,2"), "bogus"),
        ((*P, "seed=1", "seed=2"), "seed= is given twice"),
        ((*P, "+seed=1", "seed=2"), "seed= is given twice"),
        ((*P, "subset=half"), "subset=half is no number: it is the share of the training data that a pilot takes"),
        ((*P, "subset=true"), "subset=True is no number"),
        (
            ("task=parity", "framework=numpy", "hw=h100x8"),
            "parity has no scale small, which hw=h100x8 runs by default: give scale=, one of mini",
        ),
        (
            ("task=detection", "scale=mini", "hw=cpu", "hyperparameters.widths=[32,wide]"),
            "hyperparameters.widths is [32, 'wide']: detection/mini has a list there, [32, 64, 96]",
        ),
        (("-m", *P, "seed=interval(0,1)"), "'seed=interval(0,1)' cannot be run one value after the other"),
        (("task=parity", "quickly"), "'quickly' is not of the form option=value"),
        (("task=parity", "framework=ghost", "hw=cpu"), "'.[ghost]'"),
        (("--help", "task=parity", "scale=mimi"), "'mimi': did you mean 'mini'"),
        ((), "translation (--help explains)."),
    ],
)
def test_answers_a_mistake_with_one_line(here, arguments, said):
    refuses(main, arguments, said)
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


def test_hyperparameters_that_fit_no_network_are_a_mistake(here):
    words = ("task=recommendation", "scale=mini", "hw=cpu", "division=open", "mlflow=false")
    with pytest.raises(
        UserError, match=r"^recommendation/mini cannot be built with hyperparameters\.heads=3: \w+Error: "
    ):
        main([*words, "hyperparameters.heads=3"])


def test_refuses_a_machine_that_is_not_the_system(tmp_path):
    done = eighth(tmp_path, "run", "task=parity", "framework=numpy", "hw=toaster", "mlflow=false")
    assert done.returncode == 2
    assert re.search(r"hw=toaster asks for 2 .*Heating Coil.* hw=cpu", done.stderr)
    assert not (tmp_path / "runs").exists()


def test_refuses_a_clock_that_was_never_set(here, monkeypatch):
    monkeypatch.setattr(obstacles.time, "time", lambda: 1000.0)
    with pytest.raises(UserError, match="clock says 1970-01-01, before the suite was written: set it"):
        main([*RUN, "seed=5"])


def test_help_lists_tasks_scales_and_systems(here, capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for text in ("parity: Which side", "scale=mini", "toaster", "h200x8", "NumPy", "resume=FOLDER", "Exit code"):
        assert text in shown


def test_help_lists_the_hyperparameters_of_a_benchmark(here, capsys):
    assert main(["--help", "task=parity", "scale=mini"]) == 0
    shown = capsys.readouterr().out
    assert "hyperparameters.milliseconds_per_step=1\n" in shown
    assert "hyperparameters.global_batch_size=20  (free from 10 to 100, in multiples of 10)\n" in shown
    follows = "(follows global_batch_size ^ 0.5; free from 0.75 to 1.33 times that)"
    assert f"hyperparameters.opt_base_learning_rate=0.05  {follows}\n" in shown


def test_help_tells_what_follows_in_proportion(capsys):
    assert main(["--help", "task=reinforcement_learning", "scale=mini"]) == 0
    assert "hyperparameters.num_envs=16  (follows global_batch_size)\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        (("hyperparameters.global_batch_size=80",), "global_batch_size 80, opt_base_learning_rate 0.1"),
        (("hyperparameters={global_batch_size: 80}",), "global_batch_size 80, opt_base_learning_rate 0.1"),
        (
            ("hyperparameters.global_batch_size=80", "hyperparameters.opt_base_learning_rate=0.07"),
            "global_batch_size 80, opt_base_learning_rate 0.07",
        ),
        (("hyperparameters.global_batch_size=80", "hyperparameters.opt_base_learning_rate=0.05"), "batch_size 80"),
        (("hyperparameters.opt_base_learning_rate=0.07",), "opt_base_learning_rate 0.07"),
    ],
)
def test_what_follows_a_batch_size_follows_unless_it_is_set_itself(here, capsys, given, changed):
    assert main([*RUN, *given, "seed=5", "dry_run=true"]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("changed ")]
    assert row.rstrip().endswith(changed)


@pytest.mark.parametrize(("word", "out"), [("out='a b'", "a b"), ('out="a, b"', "a, b"), ("out=null", None)])
def test_a_text_in_quotes_and_null_are_what_they_are_in_hydra(here, word, out):
    (options,) = parse([*RUN, word])
    assert options.out == out


@pytest.mark.parametrize("name", ["3090", "rtx 3090"])
def test_a_machine_may_be_called_by_a_number(name, monkeypatch, tmp_path):
    shutil.copytree(folder.CONF, tmp_path / "conf")
    shutil.copy(folder.CONF / "hw/cpu.yaml", tmp_path / f"conf/hw/{name}.yaml")
    monkeypatch.setattr(folder, "CONF", tmp_path / "conf")
    made = parse(["-m", "task=image_classification", f"hw={name},cpu", "out='runs/${hw}'", "hw.price_per_hour=2"])
    assert [(each.hw, each.out, each.system["price_per_hour"]) for each in made] == [
        (name, f"runs/{name}", 2),
        ("cpu", "runs/cpu", 2),
    ]


def test_a_list_that_is_empty_may_get_any_values(capsys):
    words = ("task=language_modeling", "scale=mini", "hw=cpu", "framework=torch", "division=open", "dry_run=true")
    assert main([*words, "hyperparameters.cutoffs=[100]", "hyperparameters.tail_widths=[32]"]) == 0
    assert "cutoffs [100], tail_widths [32]" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", ["out", "implementation", "resume"])
def test_a_home_folder_is_expanded_where_no_shell_does(name, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    words = [*RUN, f"{name}=~/a"]
    (options,) = parse(words)
    assert getattr(options, name) == options.given[name] == f"{tmp_path}/a"
