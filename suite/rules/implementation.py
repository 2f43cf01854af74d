"""Checks of an implementation other than the reference: it is the same everywhere, and its code is what trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from suite import config as suite_config
from suite.config.contestant import Contestant
from suite.config.logkeys import IMPLEMENTATION, IMPLEMENTATION_AFTER
from suite.record.evidence import CONFIG, LOG, SYSTEM
from suite.record.mllog import since_restart
from suite.record.names import is_implementation
from suite.record.parsing import differences, is_sha256
from suite.rules.finding import FOLDER_AS_WRITTEN, Finding
from suite.rules.reading import PACKAGE, RUN, Evidence
from suite.rules.runs import path_of
from suite.store.code import CODE, MAX_FILES, differing, is_path


def contestant_of(run: Evidence) -> Contestant | None:
    """The implementation that trained, by the configuration; None for the reference or an entry that is not valid."""
    try:
        told = Contestant.model_validate(run.configured("implementation"))
    except (ValidationError, RecursionError):
        return None
    named = is_implementation(told.name) and told.entry in told.files and len(told.files) <= MAX_FILES
    summed = all(is_path(name) and is_sha256(sha256) for name, sha256 in told.files.items())
    return told if named and summed else None


@RUN.rule("implementation.1")
def named_alike(run: Evidence) -> Iterator[Finding]:
    """Log, configuration and system description agree on the implementation, which imports the run's framework."""
    line, configured = run.line(IMPLEMENTATION), run.configured("implementation")
    told, where = contestant_of(run), run.config_line("implementation")
    if not run.parsed(CONFIG):
        return
    if told is None:
        if configured is not None:
            expected = "name, entry, files with their sha256, imports, revision and dirty of an implementation"
            yield Finding(CONFIG, where, expected, configured, FOLDER_AS_WRITTEN)
        elif line:
            yield Finding(LOG, line.number, f"the reference, as in {CONFIG}", line.value, FOLDER_AS_WRITTEN)
        elif (found := run.described("implementation")) is not None:
            where = run.system_line("implementation")
            yield Finding(SYSTEM, where, f"the reference, as in {CONFIG}", found, FOLDER_AS_WRITTEN)
        return
    values = told.model_dump()
    if line is None:
        if run.readable:
            yield Finding(LOG, None, f"a line {IMPLEMENTATION}", "none", FOLDER_AS_WRITTEN)
    else:
        logged = {"name": line.value, **{name: line.metadata.get(name) for name in values if name != "name"}}
        yield from _differing(LOG, line.number, values, logged)
    if run.parsed(SYSTEM):
        at = run.system_line("implementation")
        yield from _differing(SYSTEM, at, values, run.described("implementation"))
        yield from _installed(run, told)
    framework = run.configured("framework")
    if framework in suite_config.names("framework"):
        module = suite_config.framework(framework).module
        if module not in told.imports:
            found = ", ".join(told.imports) or "no package"
            yield Finding(CONFIG, where, f"code that imports {module}, of {framework}", found, FOLDER_AS_WRITTEN)


def _differing(file: str, line: int | None, values: dict[str, Any], found: Any) -> Iterator[Finding]:
    for path, right, wrong in differences(values, found):
        name = ".".join(["implementation", *map(str, path)])
        yield Finding(file, line, f"{name} {right}, as in {CONFIG}", wrong, FOLDER_AS_WRITTEN)


def _installed(run: Evidence, told: Contestant) -> Iterator[Finding]:
    """Where an import's version is not the installed one. A module not named like its package is not compared."""
    for name, version in told.imports.items():
        installed = run.described("software", name)
        if installed is not None and installed != version:
            expected, where = f"{name} {installed}, as installed", run.config_line("implementation", "imports", name)
            yield Finding(CONFIG, where, expected, version, FOLDER_AS_WRITTEN)


@RUN.rule("implementation.2")
def kept(run: Evidence) -> Iterator[Finding]:
    """The code that lies with the evidence is the code that trained."""
    told = contestant_of(run)
    if told and run.code:
        for name in differing(told.files, run.code):
            expected = f"sha256 {told.files[name]}" if name in told.files else "only files that trained"
            yield Finding(f"{CODE}/{name}", None, expected, run.code.get(name, "no such file"), FOLDER_AS_WRITTEN)


@PACKAGE.rule("implementation.2")
def there(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """The code lies with the evidence. In a package, package.9 is its rule instead."""
    for run in runs:
        if run.package is None and not run.code and contestant_of(run):
            yield Finding(path_of(run, CODE), None, "the code that trained", "no such folder", FOLDER_AS_WRITTEN)


@RUN.rule("implementation.3")
def unchanged(run: Evidence) -> Iterator[Finding]:
    """The files were the same after the run as before it."""
    told, lines = contestant_of(run), run.lines_of.get(IMPLEMENTATION_AFTER, [])
    if told is None:
        return
    if run.readable and not any(line.key == IMPLEMENTATION_AFTER for line in since_restart(run.lines)):
        yield Finding(LOG, None, f"a line {IMPLEMENTATION_AFTER}", "none", FOLDER_AS_WRITTEN)
    for line in lines:
        if line.value != told.name:
            yield Finding(LOG, line.number, f"{told.name}, as in {CONFIG}", line.value, FOLDER_AS_WRITTEN)
        if line.metadata.get("changed") != []:
            mend = "run it again, and leave the code alone meanwhile"
            yield Finding(
                LOG, line.number, "code that stays as it is", f"changed: {line.metadata.get('changed')}", mend
            )
