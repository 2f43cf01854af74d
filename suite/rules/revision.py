"""Checks of the git revision that ran, against log, system description and the reviewer's own repository."""

from __future__ import annotations

from collections.abc import Iterator

from suite.config.logkeys import CONFIG as LOGGED_CONFIG
from suite.record import git
from suite.record.evidence import LOG, SYSTEM
from suite.record.parsing import same
from suite.rules.finding import FILE_AS_WRITTEN, Finding
from suite.rules.reading import RUN, Evidence


def revision_of(run: Evidence) -> str | None:
    """The revision that the system description names, None if it is not a full git hash."""
    revision = run.described("git", "revision")
    return revision if isinstance(revision, str) and git.REVISION.match(revision) else None


@RUN.rule("model.3")
def known_code(run: Evidence) -> Iterator[Finding]:
    """The code that ran is that of a git revision without changes; else there is a note."""
    revision, dirty = run.described("git", "revision"), run.described("git", "dirty")
    if run.parsed(SYSTEM) and not (isinstance(revision, str) and dirty is False):
        found = f"revision {revision} with changes" if isinstance(revision, str) else "code of no known revision"
        mend = "run it from a clean checkout, so that a reviewer can read what ran"
        yield Finding(SYSTEM, run.system_line("git"), "code of a git revision", found, mend, "note")


@RUN.rule("model.4")
def one_revision(run: Evidence) -> Iterator[Finding]:
    """Log and system description agree on the revision and whether it had changes. A changed file has its own rule.

    A revision that the reviewer's checkout does not descend from gets a note: it may be a fork's, or invented.
    """
    line = run.line(LOGGED_CONFIG)
    if line is None or not run.intact(SYSTEM):
        return
    for name in ("revision", "dirty"):
        described, logged = run.described("git", name), line.metadata.get(f"git_{name}")
        if not same(described, logged):
            yield Finding(LOG, line.number, f"git_{name} {described}, as in {SYSTEM}", logged, FILE_AS_WRITTEN)
    revision, where = run.described("git", "revision"), run.system_line("revision")
    if revision is not None and revision_of(run) is None:
        yield Finding(SYSTEM, where, "a revision of 40 or 64 hexadecimal digits", revision, FILE_AS_WRITTEN)
    elif revision is not None and git.has_history() and not git.descends_from(revision):
        mend = "none: fetch the submitter's repository to read what ran"
        yield Finding(SYSTEM, where, "a revision that the reviewer's checkout descends from", revision, mend, "note")
