"""Mutants of rule runs.11: rounds and their tokens."""

from __future__ import annotations

import pytest
from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from suite.harness import seeds
from tests.rules.mutants.registry import breaks, rewrite
from tests.rules.mutants.runs import reseeded
from tests.rules.subject import BENCHMARK, DECLARED


def token(run, to):
    """Let log and configuration name another token."""
    run.edit(logkeys.CONFIG, lambda record: record["metadata"].update(token=to))
    run.edit_config(lambda values: values.update(token=to))


@breaks("runs.11")
def a_token_that_did_not_draw_the_seed(run):
    token(run, "round 1")


@breaks("runs.11")
def a_seed_chosen_in_a_round(run):
    rewrite(run, token="round 1")
    reseeded(run, 5)


@breaks("runs.11")
def the_seed_of_another_run_of_the_round(run):
    rewrite(run, token="round 1")
    reseeded(run, seeds.from_token("round 1", "someone", BENCHMARK.name, "cpu", keys.CLOSED, 2))


@breaks("runs.11")
def a_token_in_the_log_alone(run):
    rewrite(run, token="round 1")
    run.edit_config(lambda values: values.update(token=None))


@breaks("runs.11")
def a_round_left_in_the_configuration(run):
    rewrite(run, token="round 1")
    run.edit(logkeys.CONFIG, lambda record: record["metadata"].pop("token"))


@breaks("runs.11")
def a_token_of_nobody_s(run):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(DECLARED, "submitter", "unknown")
        rewrite(run, token="round 1")
    run.edit_system(lambda values: values["description"].update(submitter="unknown"))


@breaks("runs.11")
def a_token_of_a_million_letters(run):
    token(run, "x" * 60_000)


@breaks("runs.11")
def a_token_that_another_looks_like(run):
    token(run, "round 1\u034f")


@breaks("runs.11")
def a_token_that_is_no_text(run):
    token(run, [1])
