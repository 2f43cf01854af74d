"""What a login node makes of what SLURM says of a job that it has taken."""

import time
from importlib.util import find_spec
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from suite.run import slurm
from tests.slurm_launcher.conftest import ANSWERS, launched

pytestmark = pytest.mark.skipif(find_spec("submitit") is None, reason="submitit is not installed")


@pytest.mark.parametrize(
    ("problem", "code"),
    [("Unable to contact slurm controller (connect failure)", 3), ("Invalid job id specified", 1)],
)
def test_a_job_has_ended_when_slurm_says_so_or_has_forgotten_it(login, monkeypatch, problem, code):
    monkeypatch.setenv("PROBLEM", problem)
    assert launched() == code


def test_slurm_is_asked_less_often_the_longer_a_job_takes(login, monkeypatch):
    slept = []
    monkeypatch.setattr(slurm, "time", SimpleNamespace(monotonic=time.monotonic, sleep=slept.append))
    monkeypatch.setattr(slurm, "_EVERY_S", 3.0)
    (login / "scontrol").write_text(f"#!/bin/sh\n{ANSWERS.replace('  1)', '  [1-5])')}")
    assert launched() == 3
    assert slept == [1, 2, 3, 3, 3]


def test_what_a_job_said_that_failed_at_once_is_waited_for(login, capsys):
    late = "echo x >> asked\n[ $(grep -c x asked) = 3 ] && echo no such partition > runs/slurm/7_0_log.out\n"
    (login / "scontrol").write_text(f"#!/bin/sh\n{late}echo JobState=FAILED ExitCode=1:0 NodeList=node1\n")
    assert launched() == 1
    assert capsys.readouterr().out.endswith("job 7   FAILED\nno such partition\n")


def test_the_words_of_a_name_or_a_comment_are_no_state(login, capsys):
    told = "PENDING Reason=Priority Comment=a b JobState=COMPLETED x"
    answers = ANSWERS.replace("RUNNING ExitCode=0:0", told)
    (login / "scontrol").write_text(f"#!/bin/sh\necho JobId=7 JobName=a JobState=COMPLETED x\n{answers}")
    assert launched() == 3
    assert capsys.readouterr().out.endswith("job 7   PENDING (Priority)\njob 7   FAILED\n")


@pytest.mark.parametrize("state", ["SIGNALING", "REQUEUED", "STOPPED", "STAGE_OUT", "RESIZING", "SPECIAL_EXIT"])
def test_a_job_in_any_state_but_an_end_is_waited_for(login, state, capsys):
    answers = ANSWERS.replace("RUNNING", state).replace("  2) ", "  0) ")
    (login / "scontrol").write_text(f"#!/bin/sh\n{answers}")
    assert launched() == 3
    assert capsys.readouterr().out.endswith(f"job 7   {state}\njob 7   FAILED\n")


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        ("COMPLETED ExitCode=0:0", 0),
        ("FAILED ExitCode=3:0", 3),
        ("CANCELLED ExitCode=0:15", 143),
        ("NODE_FAIL ExitCode=0:0", 1),
    ],
)
def test_the_exit_code_is_the_job_s(login, ended, code):
    (login / "scontrol").write_text(f"#!/bin/sh\necho JobState={ended}\n")
    assert launched() == code


def test_ctrl_c_leaves_the_job_and_says_how_to_end_it(login, monkeypatch, capsys):
    asleep = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(slurm, "time", SimpleNamespace(monotonic=time.monotonic, sleep=asleep))
    assert launched() == 130
    said = "job 7 goes on. To see it: tail -F runs/slurm/7_*_log.out; to end it: scancel 7\n"
    assert capsys.readouterr().out.endswith(said)


def test_why_a_job_waits_and_what_each_of_its_workers_says_is_shown_once(login, capsys):
    answers = ANSWERS.replace("RUNNING", "PENDING Reason=Resources")
    says = 'for each in 0 1; do echo "$each: $(grep -c x asked)" >> runs/slurm/7_${each}_log.out; done\n'
    (login / "scontrol").write_text("#!/bin/sh\n" + answers.replace("case", says + "case"))
    assert launched() == 3
    shown = capsys.readouterr().out.splitlines()[1:]
    words = [f"{worker}: {time}" for time in (1, 2, 3) for worker in (0, 1)]
    assert shown == ["job 7   PENDING (Resources)", *words[:4], "job 7   FAILED", *words[4:]]
