"""Tell, before anything is trained, why the runs of a plan could not be submitted."""

from __future__ import annotations

import json
from collections.abc import Iterator

from mlperf_logging.mllog import constants as keys

from suite import config
from suite.config.models import Formula, Range
from suite.config.plan import Plan
from suite.errors import shown
from suite.measure.machine import Machine
from suite.record import git
from suite.record.evidence import SYSTEM, to_begin
from suite.record.parsing import MalformedError, differences, json_object
from suite.record.system import describe, versions
from suite.rules import convergence
from suite.rules.benchmark import OF_CADENCE
from suite.rules.claims import UNNAMED
from suite.rules.hyperparameters import misfit
from suite.rules.runs import apart
from suite.rules.system import free_of


def breaches(plan: Plan, machine: Machine | None) -> Iterator[str]:
    """Yield a line for each breach in a submission of the plan's runs. `machine` is None where it is not known."""
    if plan.submitter != UNNAMED and (code := git.state())["dirty"] is not False:
        found = "changes: git status" if code["revision"] else f"none: {shown(git.without_revision())}"
        yield f"package.9: expected the suite as a git revision has it, found {found}"
    if plan.system.name in config.names("hw"):  # a resumed run may name one that is no longer listed
        systems, theirs = (config.system(plan.system.name), plan.system), free_of(plan.system.name)
        listed, wanted = (each.model_dump(mode="json", exclude=theirs) for each in systems)
        for path, right, wrong in differences(listed, wanted):
            yield f"system.3: expected hw.{'.'.join(map(str, path))} {right}, found {wrong}"
    yield from _begun_otherwise(plan, machine)
    made, in_open = plan.benchmark, plan.division == keys.OPEN
    if plan.submitter == UNNAMED and made.submittable and len(plan.seeds) >= made.runs:
        yield "package.7: expected submitter=NAME, found none"
    usual = config.benchmark(made.task, made.scale)
    deciding = {"metric", "target", "direction", *(() if in_open else OF_CADENCE)}
    for path, right, wrong in differences(usual.model_dump(include=deciding), made.model_dump(include=deciding)):
        yield f"division.2: expected {'.'.join(map(str, path))} {right}, found {wrong}"
    if in_open:
        return
    values = made.hyperparameters
    for (name, *_), right, wrong in differences(usual.hyperparameters, values):
        free = usual.free.get(str(name))
        if free is None:
            yield f"hyperparameters.1: expected {name} {right}, found {wrong}"
        elif isinstance(free, Range) and (expected := misfit(usual, str(name), wrong, None)):
            yield f"hyperparameters.2: expected {expected}, found {wrong}"
        elif isinstance(free, Formula) and (
            expected := misfit(usual, str(name), wrong, values.get(free.proportional_to))
        ):
            yield f"hyperparameters.3: expected {expected}, found {wrong}"
    points = [convergence.of_point(point, usual) for point in convergence.counting(usual)]
    size = values.get(keys.GLOBAL_BATCH_SIZE, 1)
    if points and convergence.at(points, size) is None:
        largest = max(point.batch_size for point in points)
        yield f"convergence.4: expected a reference convergence point at batch size {size} or above, found {largest}"


def _begun_otherwise(plan: Plan, machine: Machine | None) -> Iterator[str]:
    """Where runs that have yet to begin will differ from the first in machine, code or packages."""
    try:
        first = json_object((plan.folder(1) / SYSTEM).read_bytes())
    except (OSError, MalformedError):  # there is no first run yet, or resuming it reports this
        return
    if not to_begin(plan):
        return
    if machine:
        described = describe(plan.system, machine, plan.framework, plan.declared, plan.contestant)
    else:
        described = {"software": versions(), "git": git.state()}
    now = json.loads(json.dumps(described))
    for part, path, right, wrong in apart({name: first.get(name) for name in now}, now):
        yield f"system.5: expected {(part, *path)[-1]} {shown(right)}, as in run_1, found {shown(wrong)}"
