"""Checks of what else decided a run: the environment that it was started with, and what a restart found changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from suite.config.logkeys import RESTART
from suite.errors import shown
from suite.record.evidence import LOG, SYSTEM
from suite.record.parsing import differences, whole
from suite.rules.finding import FILE_AS_WRITTEN, MAX_FINDINGS, Finding
from suite.rules.reading import RESULT, RUN, Evidence
from suite.rules.runs import OF_ONE_RUN, path_of

MAX_FACTS = 2000  # that decided a result
_DECIDES = ("detected", "software", "git", "environment")  # of system.json
_NAMES_ONLY = ("run_id", "result_id", "seeds", "runs")  # of config.yaml: what does not decide how a run goes


def decided(run: Evidence) -> dict[str, str]:
    """Each value that decided the run, by its place in `config.yaml` and `system.json`; `MAX_FACTS` at most."""
    config = {name: value for name, value in run.config.items() if name not in (*OF_ONE_RUN, *_NAMES_ONLY)}
    system = {part: run.described(part) for part in _DECIDES}
    return dict(islice(_facts({"config": config, "system": system}), MAX_FACTS))


@RUN.rule("system.7")
def told_and_kept(run: Evidence) -> Iterator[Finding]:
    """A note where the environment is not described, or a restart found it, the machine or the code changed."""
    variables, cpus = (run.described("environment", name) for name in ("variables", "cpus"))
    if run.parsed(SYSTEM) and not (isinstance(variables, dict) and whole(cpus)):
        where, found = run.system_line("environment"), run.described("environment") or "none"
        mend = FILE_AS_WRITTEN
        yield Finding(SYSTEM, where, "an environment with variables and cpus", found, mend, "note")
    for line in run.lines_of.get(RESTART, []):
        changed = line.metadata.get("changed")
        if isinstance(changed, list) and changed:
            mend = "none: read the time as one of both"
            yield Finding(
                LOG, line.number, f"what {SYSTEM} says", f"changed: {', '.join(map(str, changed))}", mend, "note"
            )


@RESULT.rule("system.7")
def one_environment(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """The runs of a result had the same environment."""
    first = runs[0]
    for run in runs[1:]:
        if not (first.parsed(SYSTEM) and run.parsed(SYSTEM)):
            continue
        apart = differences(first.described("environment"), run.described("environment"))
        for path, expected, found in apart[:MAX_FINDINGS]:  # a stranger's file may have any number
            name = ".".join(map(str, ("environment", *path)))
            where = run.system_line(str(path[-1]) if path else "environment")
            mend = "none: where the variable decides how the runs went, their mean is of different things"
            yield Finding(path_of(run, SYSTEM), where, f"{name}: {expected}, as in {first.label}", found, mend, "note")


def _facts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _facts(inner, f"{path}.{name}" if path else str(name))
    else:
        yield shown(path), shown(value)
