"""The check of a round's token: the runs have the seeds that are derived from it."""

from __future__ import annotations

from collections.abc import Iterator

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import CONFIG as LOGGED_CONFIG
from suite.errors import shown
from suite.harness import seeds
from suite.record.evidence import CONFIG, LOG
from suite.record.parsing import same, whole
from suite.rules.claims import UNNAMED
from suite.rules.finding import FOLDER_AS_WRITTEN, Finding
from suite.rules.reading import RUN, Evidence


@RUN.rule("runs.11")
def drawn(run: Evidence) -> Iterator[Finding]:
    """A run that names a round's token has the seed that is derived from it."""
    line, token = run.line(LOGGED_CONFIG), run.token
    if line is None:
        return
    if run.intact(CONFIG) and not same(token, run.configured("token")):
        expected = f"token {token}, as in log line {line.number}"
        yield Finding(CONFIG, run.config_line("token"), expected, run.configured("token"), FOLDER_AS_WRITTEN)
    if token is None:
        return
    problem = seeds.problem_of(token) if isinstance(token, str) else "is no text"
    if problem:
        expected = f"a token that no other looks like, of 1 to {seeds.MAX_TOKEN} characters"
        found = f"{shown(token)}, which {problem}"
        yield Finding(LOG, line.number, expected, found, FOLDER_AS_WRITTEN)
        return
    seed, submitter = run.line(keys.SEED), run.line(keys.SUBMISSION_ORG)
    if submitter and submitter.value == UNNAMED:
        yield Finding(LOG, submitter.number, "the submitter that the seeds rest on", UNNAMED, "run with submitter=")
    if seed and not same(derived := _derived(run, token), seed.value):
        mend = "let the suite derive the seeds: token= without seed="
        yield Finding(LOG, seed.number, f"seed {derived}, derived from token {token}", seed.value, mend)


def is_drawn(run: Evidence) -> bool:
    """Whether a round's token drew the seed of the run."""
    return run.token is not None and not any(drawn(run))


def _derived(run: Evidence, token: str) -> int | None:
    """The seed that the token draws for the run; None where its log does not say which run it is."""
    keyed = (keys.SUBMISSION_ORG, keys.SUBMISSION_BENCHMARK, keys.SUBMISSION_PLATFORM, keys.SUBMISSION_DIVISION)
    submitter, benchmark, system, division = map(run.value, keyed)
    line = run.line(LOGGED_CONFIG)
    index = whole(line.metadata.get("run_index")) if line else None
    if index is None or not all(isinstance(name, str) for name in (submitter, benchmark, system, division)):
        return None
    return seeds.from_token(token, submitter, benchmark, system, division, index)
