"""The evidence folder of a run: its files and their sealing.

log.txt            MLLOG lines, hash-chained (`suite.record.mllog`)
config.yaml        the resolved configuration
system.json        MLPerf's system description and what was detected
power.csv          power and load samples
predictions.jsonl  one JSON value per evaluation example, in the split's order, of the last evaluation
implementation/    the files of an implementation that is not the suite's
equivalence.json   how it compares with the reference, if that was checked (`suite.record.equivalence`)
states/            the state at each evaluation, if the run kept them
checkpoint.npz     the state that an interrupted run resumes from, until it has ended
run_start.tsr, run_stop.tsr
                   time-stamps of the log's lines with these keys, if a witness gave them (`suite.record.witness`)
manifest.json      sha256 and size of each file, and short hashes that locate a changed line
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite.config.plan import Plan
from suite.store import sums
from suite.store.disk import partial, sync, write_atomically

LOG = "log.txt"
CONFIG = "config.yaml"
SYSTEM = "system.json"
POWER = "power.csv"
PREDICTIONS = "predictions.jsonl"
MANIFEST = "manifest.json"
CHECKPOINT = "checkpoint.npz"  # until the run has ended, unless by a signal
STAMPS = {keys.RUN_START: "run_start.tsr", keys.RUN_STOP: "run_stop.tsr"}
MAX_STAMP_BYTES = 16 << 10  # including the authority's certificates
OF_EACH_RUN = (LOG, CONFIG, SYSTEM, POWER, PREDICTIONS)
SEALED = (*OF_EACH_RUN, *STAMPS.values())

_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_LOCATOR = 4  # hex digits of a line's sha256 that stand in the manifest


class NotFinite(ValueError):
    """A prediction that holds NaN or infinity: the model has diverged."""


def to_begin(plan: Plan) -> bool:
    """Whether a run of the plan has yet to begin."""
    return not all((plan.folder(index) / CONFIG).exists() for index in range(1, len(plan.seeds) + 1))


def write_predictions(path: Path, predictions: Iterable[Any]) -> str:
    """Write one JSON value per line to the partial file that `keep_predictions` renames, and return its sha256.

    Raises NotFinite for NaN or infinity, TypeError or RecursionError for what is not JSON; then nothing is written.
    """
    try:
        lines = list(_lines(predictions))
    except ValueError as error:
        raise NotFinite(str(error)) from error
    content = "".join(line + "\n" for line in lines).encode()
    partial(path).write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def _lines(predictions: Iterable[Any]) -> Iterator[str]:
    """Each prediction as JSON. Numbers in a row are encoded at once: an encoder takes longer to start than for one."""
    for numbers, group in groupby(predictions, lambda each: type(each) in (int, float)):
        block = list(group)
        yield from _ENCODER.encode(block)[1:-1].split(",") if numbers else map(_ENCODER.encode, block)


def keep_predictions(path: Path, sha256: object) -> None:
    """Rename the partial file to `path` if it has this sha256, that of an evaluation in the log; else delete it."""
    part = partial(path)
    if part.exists():
        if sums.sha256(part) == sha256:
            part.replace(path)
        part.unlink(missing_ok=True)


@dataclass(frozen=True)
class Digest:
    """What the manifest says of a file; `size` is in bytes.

    `lines` joins the first hex digits of each line's sha256: it locates a change, `sha256` proves there is none.
    """

    sha256: str
    size: int
    lines: str

    @property
    def short(self) -> Digest:
        """The same with one hash for all lines, which tells files apart but locates no change."""
        return replace(self, lines=hashlib.sha256(self.lines.encode()).hexdigest())

    def changed_line(self, content: bytes) -> int | None:
        """The first line of `content`, from 1, that differs from the sealed file; None if no line can be named."""
        found = digest(content).lines
        for at in range(0, max(len(found), len(self.lines)), _LOCATOR):
            if found[at : at + _LOCATOR] != self.lines[at : at + _LOCATOR]:
                return at // _LOCATOR + 1
        return None


def digest(content: bytes) -> Digest:
    """The digest of a file's content."""
    lines = (hashlib.sha256(line).hexdigest()[:_LOCATOR] for line in content.split(b"\n"))
    return Digest(hashlib.sha256(content).hexdigest(), len(content), "".join(lines))


def seal(folder: Path, log_head: str, files: Sequence[str] = SEALED) -> None:
    """Write the manifest over the files that exist. `log_head` is the hash of the log's last line."""
    sealed = [name for name in files if (folder / name).exists()]
    for name in sealed:
        sync(folder / name)
    found = {name: vars(digest((folder / name).read_bytes())) for name in sealed}
    manifest = {"version": 1, "log_head": log_head, "files": found}
    write_atomically(folder / MANIFEST, json.dumps(manifest, indent=1).encode())
