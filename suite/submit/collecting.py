"""Find the results to be submitted in the folders that their owner names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mlperf_logging.mllog import constants as keys

from suite.config.contestant import Contestant
from suite.config.models import Benchmark
from suite.errors import UserError, shown
from suite.record.evidence import CONFIG, LOG, SYSTEM
from suite.review.archive import refuse_packed
from suite.rules.claims import folder_of
from suite.rules.implementation import contestant_of
from suite.rules.reading import Evidence
from suite.rules.revision import revision_of
from suite.rules.seals import NAME
from suite.rules.submission import survey


@dataclass(frozen=True)
class Collected:
    """One result. `folder` holds it, `runs` are the folders of its runs.

    `revision` is the git revision that it was made from, None if it names none; `dirty` says whether that had changes
    or may have had. `contestant` is the implementation that trained, None for the reference. `description` is the
    system description that was detected.
    """

    folder: Path
    runs: tuple[Path, ...]
    benchmark: Benchmark
    system: str
    framework: str
    result_id: str
    revision: str | None
    dirty: bool
    contestant: Contestant | None
    description: dict[str, str]

    @property
    def place(self) -> str:
        """Where it lies in the submission."""
        return f"results/{self.system}/{folder_of(self.benchmark.name)}"


def collect(folders: Iterable[Path], system: str | None) -> list[Collected]:
    """The results in `folders` and below. `system` names the system; else it is named by its hw= and framework.

    Raises UserError for a folder without evidence or with too little to be submitted, and for two results of one
    benchmark and system.
    """
    found: dict[str, Collected] = {}
    for folder in folders:
        if not folder.exists():
            raise UserError(f"cannot submit {folder}: no such folder")
        refuse_packed(folder)
        root = folder.resolve()
        for result in survey(root).results:
            made = _collected(root / result.path, result.runs, system)
            other = found.setdefault(made.place, made)
            if other.result_id != made.result_id:
                raise UserError(
                    f"{shown(str(other.folder))} and {shown(str(made.folder))} are two results of "
                    f"{made.benchmark.name} on {made.system}: submit one, of several the one with the median score "
                    "(rule runs.9); another machine or other code takes a command and a name of its own, system=NAME"
                )
    return list(found.values())


def _collected(folder: Path, labels: tuple[str, ...], system: str | None) -> Collected:
    first = Evidence.read(folder / labels[0])
    if first.benchmark is None or not first.parsed(LOG, CONFIG, SYSTEM):
        raise UserError(
            f"{shown(str(folder))} is no complete evidence of one of the suite's benchmarks: suite review says why"
        )
    platform, framework = first.value(keys.SUBMISSION_PLATFORM), first.configured("framework")
    name = system or f"{platform}_{framework}"
    if not NAME.match(name):
        raise UserError(f"system={shown(name)} is no name of letters, digits, dots, dashes and underscores")
    description = first.described("description")
    return Collected(
        folder=folder,
        runs=tuple(folder / label for label in labels),
        benchmark=first.benchmark,
        system=name,
        framework=str(framework),
        result_id=str(first.configured("result_id")),
        revision=revision_of(first),
        dirty=first.described("git", "dirty") is not False,
        contestant=contestant_of(first),
        description={k: v for k, v in description.items() if isinstance(v, str)} if description else {},
    )
