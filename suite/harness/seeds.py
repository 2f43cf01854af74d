"""Seeds: one fixes a run's data order, initialisation and augmentation, another the evaluation arrays drawn for it."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import CONFIG, DATASET
from suite.errors import UserError, shown
from suite.record import names
from suite.record.mllog import Line, line_hash

LIMIT = 2**31
MAX_RUNS = 1000  # of one command
MAX_TOKEN = 200  # characters


def draw(runs: int, first: int | None) -> tuple[int, ...]:
    """`runs` distinct seeds: `first`, `first + 1`, ..., or from the system's entropy when `first` is None.

    Raises UserError for a number of runs, or a seed, out of its range.
    """
    _check(runs)
    if first is None:
        return tuple(secrets.SystemRandom().sample(range(LIMIT), runs))
    if not 0 <= first <= LIMIT - runs:
        why = f", the last from which {runs} runs can count on" if runs > 1 else ""
        raise UserError(f"seed={first} is not from 0 to {LIMIT - runs}{why}")
    return tuple(range(first, first + runs))


def problem_of(token: str) -> str:
    """Why a text cannot be a round's token, as which no other may look like it; empty if it can."""
    return names.problem(token, MAX_TOKEN)


def of_round(token: str, submitter: str, benchmark: str, system: str, division: str, runs: int) -> tuple[int, ...]:
    """The seeds of a result of `runs` runs in the round of `token`, derived so that nobody can choose them.

    Raises UserError for an invalid token, and for a number of runs out of its range.
    """
    _check(runs)
    if problem := problem_of(token):
        raise UserError(f"token={shown(token)} {problem}")
    return tuple(from_token(token, submitter, benchmark, system, division, run) for run in range(1, runs + 1))


def from_token(token: str, submitter: str, benchmark: str, system: str, division: str, run: int) -> int:
    """The seed of run number `run`, from 1."""
    return _hashed("seed", token, submitter, benchmark, system, division, run)


def evaluation_seed(lines: Iterable[Line]) -> int | None:
    """The seed, from 0 to 2^63 - 1, for drawing the evaluation arrays of the run that logs `lines`.

    It is derived from the run's seed and the round's token. Without a token it is derived from the seed and the last
    line of the log's head, so that nobody knows it before the run begins and a resumed run gets the same one. None if
    the lines do not contain these.
    """
    first: dict[str, Line] = {}
    for line in lines:
        first.setdefault(line.key, line)
    if not {CONFIG, keys.SEED, DATASET} <= first.keys():
        return None
    seed, token = first[keys.SEED].value, first[CONFIG].metadata.get("token")
    if type(seed) is not int or not isinstance(token, str | None):
        return None
    return _hashed("evaluation", token or line_hash(first[DATASET].raw), seed, below=2**63)


def _check(runs: int) -> None:
    if not 1 <= runs <= MAX_RUNS:
        raise UserError(f"runs={runs} is not from 1 to {MAX_RUNS}; for more runs give several commands")


def _hashed(*parts: str | int, below: int = LIMIT) -> int:
    """A number from the sha256 of the parts as compact JSON in ASCII."""
    content = json.dumps(parts, separators=(",", ":")).encode()
    return int.from_bytes(hashlib.sha256(content).digest()[:8], "big") % below
