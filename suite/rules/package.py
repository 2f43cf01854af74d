"""Checks of the chapter "Packaging": the folder's files and their sealing."""

from __future__ import annotations

from collections.abc import Iterator

from suite.record.equivalence import FILE as EQUIVALENCE
from suite.record.evidence import CHECKPOINT, CONFIG, LOG, MANIFEST, POWER, PREDICTIONS, SYSTEM
from suite.rules.chain import broken_lines
from suite.rules.finding import FOLDER_AS_WRITTEN, Finding
from suite.rules.reading import RUN, Evidence
from suite.store.code import CODE

_ALWAYS = (LOG, CONFIG, SYSTEM, POWER, MANIFEST)


@RUN.rule("package.1")
def plain_files(run: Evidence) -> Iterator[Finding]:
    """No link, no special file, nothing of an unreasonable size."""
    yield from run.unsafe


@RUN.rule("package.2")
def complete(run: Evidence) -> Iterator[Finding]:
    """Every file of an evidence folder is there; predictions.jsonl is needed only if the run came to an evaluation."""
    predicted = run.timeline.evaluations or PREDICTIONS in (run.sealed or {})
    refused = {finding.file for finding in run.unsafe}
    for name in (*_ALWAYS, PREDICTIONS) if predicted else _ALWAYS:
        if not {name, "."} & (run.contents.keys() | refused):
            yield Finding(name, None, "a file of this name", "no such file", FOLDER_AS_WRITTEN)


@RUN.rule("package.3")
def well_formed(run: Evidence) -> Iterator[Finding]:
    """Each file is what its format asks for; the log has its own rule."""
    yield from run.malformed


@RUN.rule("package.4")
def sealed(run: Evidence) -> Iterator[Finding]:
    """Each file is the one that the manifest seals. A broken chain already names the changed lines of the log."""
    if run.sealed is None:
        return
    for name, content in run.contents.items():
        if name in (MANIFEST, EQUIVALENCE):  # suite.check may write the latter at any time
            continue
        if name not in run.sealed:
            yield Finding(MANIFEST, None, f"a seal of {name}", "none", FOLDER_AS_WRITTEN)
        elif name in run.changed and not (name == LOG and broken_lines(run)):
            expected = f"sha256 {run.sealed[name].sha256}"
            found = f"sha256 {run.digests[name].sha256}"
            line = run.sealed[name].changed_line(content)
            yield Finding(name, line, expected, found, f"restore {name} as it was sealed")


@RUN.rule("package.5")
def nothing_else(run: Evidence) -> Iterator[Finding]:
    """A note for what is not evidence, since it is not reviewed."""
    stray = [CODE] if run.code and run.configured("implementation") is None else []
    for path in (*run.others, *stray):
        mend = "go on from it by python -m suite.run resume=FOLDER, or leave it out of a submission"
        mend = mend if path == CHECKPOINT else "leave it out"
        yield Finding(path, None, "only evidence", "another entry, not reviewed", mend, "note")
