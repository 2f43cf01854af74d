"""Comparisons of altered implementations, and of the references with each other, on minis in this process."""

import importlib
from functools import cache

from suite import config
from suite.check.equivalence.trials import Subject, equivalence, here
from suite.store.arrays import prepared
from suite.store.task import for_run, load_task


@cache
def data_of(task):
    benchmark = config.benchmark(task, "mini")
    return for_run(benchmark, load_task(task), prepared(benchmark, load_task(task)), 1)


def compared(candidate, task, precision="fp32", own_draws=False):
    data = data_of(task)
    builders = [here(module, data) for module in (importlib.import_module(f"reference_impls.{task}.torch"), candidate)]
    subject = Subject(config.benchmark(task, "mini"), *builders, data, "cpu", 1, own_draws)
    return equivalence(subject, [precision])


def tensorflow(task):
    return importlib.import_module(f"reference_impls.{task}.tensorflow")


def equivalent(report):
    """Whether every trial holds."""
    return all(trial.holds for trial in report.trials)


def told(report):
    return "\n".join(
        f"{row.holds} {row.precision}, {row.trial}: {row.found} of {row.bound} {row.where} {row.remark}"
        for row in report.trials
    )
