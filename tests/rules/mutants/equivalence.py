"""Mutants of what holds an implementation of one's own to the reference."""

from __future__ import annotations

from suite.record.equivalence import FILE, Equivalence
from tests.rules.evidence_maker import held_to_the_reference
from tests.rules.mutants.implementation import own
from tests.rules.mutants.registry import breaks


def compared(run, made: Equivalence) -> None:
    (run.folder / FILE).write_text(made.model_dump_json())


@breaks("equivalence.1")
@own
def held_to_nothing(run):
    (run.folder / FILE).unlink()


@breaks("equivalence.1")
@own
def a_learning_rate_that_is_off(run):
    compared(run, held_to_the_reference("bf16", found=0.05))


def bounded(bound, found=0.001):
    made = held_to_the_reference("bf16", found)
    trials = tuple(each.model_copy(update={"bound": bound}) for each in made.comparisons[0].trials)
    comparison = made.comparisons[0].model_copy(update={"trials": trials})
    return made.model_copy(update={"comparisons": (comparison,)})


@breaks("equivalence.1")
@own
def held_to_a_bound_that_nothing_exceeds(run):
    compared(run, bounded(1e9, found=5.0))


@breaks("equivalence.1")
@own
def held_to_no_bound(run):
    compared(run, bounded(None))


@breaks("equivalence.1")
@own
def not_held_in_the_format_of_the_run(run):
    compared(run, held_to_the_reference("fp32"))


@breaks("equivalence.1")
@own
def other_files_held_to_the_reference(run):
    compared(run, held_to_the_reference("bf16").model_copy(update={"sha256": "0" * 64}))


@breaks("equivalence.1")
@own
def another_benchmark_held_to_the_reference(run):
    made = held_to_the_reference("bf16")
    other = made.comparisons[0].model_copy(update={"benchmark": "translation/mini"})
    compared(run, made.model_copy(update={"comparisons": (other,)}))
