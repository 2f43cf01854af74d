"""The plan of a new result: which benchmark, system, framework and seeds."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import cast, get_args

from suite import config
from suite.config.models import Benchmark
from suite.config.plan import Checkpointing, Plan
from suite.errors import UserError, one_of, shown
from suite.harness import seeds
from suite.harness.contestant import OwnImplementation
from suite.measure import systems
from suite.measure.machine import Machine
from suite.record import names
from suite.record.system import DIVISIONS, STATUSES
from suite.rules.claims import UNNAMED
from suite.run.options import Options
from suite.run.overriding import overridden
from suite.store.packages import missing
from suite.store.task import check_first, check_metric, check_target, load_task


def from_options(options: Options, found: Machine, own: OwnImplementation | None) -> Plan:
    """The plan of a new result, of the implementation `own` or of the reference.

    Raises UserError for a value that is not allowed.
    """
    if type(options.runs) is not int:
        raise UserError(f"runs={options.runs} is not a whole number")
    if options.seed is not None and type(options.seed) is not int:
        raise UserError(f"seed={options.seed} is not a whole number")
    one_of("division", options.division, DIVISIONS)
    one_of("checkpoints", options.checkpoints, get_args(Checkpointing))
    one_of("category", options.category, STATUSES)
    if problem := names.problem(options.submitter):
        raise UserError(f"submitter={options.submitter} {problem}: write it in plain letters")
    if options.witness is not None and names.host_of(options.witness) is None:
        raise UserError(
            f"witness={shown(options.witness)} is not an address http://HOST/... or https://HOST/... "
            f"without a password, of at most {names.MAX_URL} characters"
        )
    system = systems.resolve(config.system(options.hw, options.system), found)
    if not options.scale and system.default_scale not in (scales := config.scales(options.task)):
        default = f"{system.default_scale}, which hw={system.name} runs by default"
        raise UserError(f"{options.task} has no scale {default}: give scale=, one of {', '.join(scales)}")
    benchmark = overridden(config.benchmark(options.task, options.scale or system.default_scale), options.benchmark)
    if options.subset is not None:
        benchmark = benchmark.of_subset(options.subset)
    _attainable(benchmark)
    framework = own.framework if own else config.framework(options.framework)
    result_id = uuid.uuid4().hex
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{result_id[:4]}"  # keeps commands of the same second apart
    what = own.told.name if own else framework.name
    out = options.out or f"runs/{benchmark.task}-{benchmark.scale}-{what}-{system.name}-{stamp}"
    return Plan(
        benchmark=benchmark,
        system=system,
        framework=framework,
        precision=systems.precision_of(system, found, benchmark),
        seeds=_seeds(options, benchmark.name, system.name),
        token=options.token,
        result_id=result_id,
        submitter=options.submitter,
        division=options.division,
        status=STATUSES[options.category],
        witness=options.witness,
        out=Path(out),
        checkpoints=cast(Checkpointing, options.checkpoints),
        contestant=own.told if own else None,
    )


def _attainable(benchmark: Benchmark) -> None:
    """Raise UserError unless a run could be evaluated and could meet the target. If packages of the task are missing,
    which is reported elsewhere, only the first evaluation is checked."""
    check_first(benchmark)
    if not missing(benchmark.task):
        task = load_task(benchmark.task)
        check_metric(benchmark, task)
        check_target(benchmark, task)


def _seeds(options: Options, benchmark: str, system: str) -> tuple[int, ...]:
    """The seeds of the runs: the round's, if a token was given. Raises UserError for options that give none."""
    if (token := options.token) is None:
        return seeds.draw(options.runs, options.seed)
    if options.seed is not None:
        raise UserError(f"seed={options.seed} and token= exclude each other: a round's token gives the seeds")
    if options.submitter == UNNAMED:
        raise UserError("token= needs submitter=NAME: the seeds are derived from both")
    return seeds.of_round(token, options.submitter, benchmark, system, options.division, options.runs)
