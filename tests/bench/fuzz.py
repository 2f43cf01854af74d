"""Reviews of mutated evidence, each watched: `python -m tests.bench.fuzz [SECONDS] [SEED] [FOLDER]`.

Prints inputs, rate, and the worst time (of the processor) and memory. Each input that raised, took more than 10 s or
1 GiB, or passed although a byte of it was changed and nothing sealed again, is kept in FOLDER.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from suite.errors import UserError
from suite.review.__main__ import main as review
from tests.bench.mutations import mutate_file, mutate_run
from tests.rules.evidence_maker import write_run

MAX_S, MAX_MIB = 10.0, 1024
KILLED_S = 120.0  # of the clock: other work may be on the machine
EXAMPLES = Path(__file__).resolve().parents[2] / "submissions" / "example-org"
RUN = EXAMPLES / "results" / "one_core_torch" / "reinforcement_learning-small" / "run_1"


@dataclass
class Input:
    """What is reviewed: `path` with further `words`. `untouched` if a seal still stands over what was changed."""

    kind: str
    path: Path
    words: tuple[str, ...] = ()
    untouched: bool = False


@dataclass
class Outcome:
    """Of one review. `code` is its exit code, `error` its traceback or why it was ended."""

    code: int | None
    seconds: float
    mib: float
    error: str = ""

    @property
    def bad(self) -> bool:
        return bool(self.error) or self.seconds > MAX_S or self.mib > MAX_MIB


@dataclass
class Tally:
    """What was found. `kept` names the inputs that were kept."""

    kinds: Counter[str] = field(default_factory=Counter)
    worst: dict[str, tuple[float, str]] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)

    def add(self, given: Input, outcome: Outcome) -> None:
        self.kinds[given.kind] += 1
        for name, value in (("seconds", outcome.seconds), ("MiB", outcome.mib)):
            self.worst[name] = max(self.worst.get(name, (0.0, "")), (value, given.kind))


def reviewed(given: Input, scratch: Path) -> int:
    """The exit code of a review of every output. Raises what a review must not."""
    page, report = scratch / "page.html", scratch / "report.sarif"
    words = [str(given.path), "--json", "--html", str(page), "--sarif", str(report), *given.words]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            return review(words)
        except (UserError, OSError):
            return 2


def _worker(pipe: Connection, scratch: Path) -> None:
    most = psutil.Process().memory_info().vms + (8 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    while True:
        given = pipe.recv()
        Path("/proc/self/clear_refs").write_text("5")  # the peak of the memory begins anew
        began, code, error = time.process_time(), None, ""
        try:
            code = reviewed(given, scratch)
            if code == 0 and given.untouched:
                error = "passed, although a byte was changed"
        except BaseException:
            error = traceback.format_exc()
        peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
        pipe.send(Outcome(code, time.process_time() - began, int(peak.split()[1]) / 1024, error))


class Worker:
    """A process that reviews, replaced where it hangs or dies."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._start()

    def _start(self) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=_worker, args=(theirs, self._scratch), daemon=True)
        self._process.start()
        theirs.close()

    def review(self, given: Input) -> Outcome:
        self._pipe.send(given)
        error = f"no end after {KILLED_S:g} s"
        try:
            if self._pipe.poll(KILLED_S):
                outcome: Outcome = self._pipe.recv()
                return outcome
        except EOFError:
            error = "the process died"
        self.close()
        self._start()
        return Outcome(None, KILLED_S, 0.0, error)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def logs() -> list[tuple[Path, str]]:
    """Real logs of MLPerf below MLPERF_LOGS, each with its rules."""
    root = Path(os.environ.get("MLPERF_LOGS", "/nowhere"))
    paths = (
        (path, next((part for part in path.parts if part.startswith("v")), "")) for path in root.rglob("result_*.txt")
    )
    return sorted((path, f"mlperf-{round_[1:]}") for path, round_ in paths if path.is_file() and round_)


def inputs(draw: random.Random, scratch: Path) -> Iterator[Input]:
    """Mutated inputs without end, each in a folder of its own."""
    made = write_run(scratch / "made" / "run_1").folder
    real = logs()
    kinds: list[Callable[[Path], Input]] = [
        lambda at: _run(draw, made, at),
        lambda at: _run(draw, RUN, at),
        lambda at: _result(draw, at),
        lambda at: _package(draw, at),
        lambda at: _archive(draw, made, at),
    ]
    if real:
        kinds += [lambda at: _log(draw, real, at)] * 2
    for number in itertools.count():
        folder = scratch / f"input-{number}"
        folder.mkdir()
        yield draw.choice(kinds)(folder)


def _run(draw: random.Random, source: Path, at: Path) -> Input:
    shutil.copytree(source, at / "run")
    before = _contents(at / "run")
    sealed = mutate_run(draw, at / "run")
    return Input("run", at / "run", untouched=not sealed and _contents(at / "run") != before)


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _result(draw: random.Random, at: Path) -> Input:
    for index in (1, 2, 3):
        shutil.copytree(RUN.parent / f"run_{index}", at / f"run_{index}")
    mutate_run(draw, at / f"run_{draw.randint(1, 3)}")
    return Input("result", at)


def _package(draw: random.Random, at: Path) -> Input:
    """A package of one result, of which any file was changed: also the seal, or a description."""
    for name in ("systems", "benchmarks/reinforcement_learning-small", RUN.parent.relative_to(EXAMPLES)):
        shutil.copytree(EXAMPLES / name, at / name)
    shutil.copy(EXAMPLES / "submission.json", at)
    others = [at / "submission.json", *(at / "systems").iterdir()]
    mutate_file(draw, draw.choice([*others, *others, *(path for path in at.rglob("*") if path.is_file())]))
    return Input("package", at)


def _archive(draw: random.Random, source: Path, at: Path) -> Input:
    """A run in an archive, of which the content was changed, or the archive itself."""
    shutil.copytree(source, at / "run")
    mutate_run(draw, at / "run")
    name = draw.choice(("given.tar", "given.tar.gz", "given.tar.xz", "given.zip"))
    if name.endswith(".zip"):
        with zipfile.ZipFile(at / name, "w", zipfile.ZIP_DEFLATED) as zipped:
            for path in (at / "run").iterdir():
                zipped.write(path, f"run/{path.name}")
    else:
        mode = {"gz": "w:gz", "xz": "w:xz"}.get(name.rpartition(".")[2], "w")
        with tarfile.open(at / name, mode) as tar:  # type: ignore[call-overload]
            tar.add(at / "run", "run")
    if draw.random() < 0.7:
        mutate_file(draw, at / name)
    return Input("archive", at / name)


def _log(draw: random.Random, real: list[tuple[Path, str]], at: Path) -> Input:
    path, ruleset = draw.choice(real)
    shutil.copy(path, at / path.name)
    mutate_file(draw, at / path.name)
    return Input("log", at / path.name, ("--ruleset", ruleset, *["--strict"] * draw.randrange(2)))


def fuzz(seconds: float, seed: int, kept: Path) -> Tally:
    """Review mutated inputs for so long; keep in the folder `kept` each that a review must not meet so."""
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="suite-fuzz-") as name:
        scratch = Path(name)
        worker, until = Worker(scratch), time.monotonic() + seconds
        for given in inputs(random.Random(seed), scratch):
            outcome = worker.review(given)
            tally.add(given, outcome)
            if outcome.bad:
                at = kept / f"{len(tally.kept):03}-{given.kind}"
                shutil.copytree(given.path.parent if given.path.is_file() else given.path, at, symlinks=True)
                told = f"{outcome.seconds:.1f} s, {outcome.mib:.0f} MiB, {' '.join(given.words)}\n{outcome.error}"
                (kept / f"{at.name}.txt").write_text(told)
                tally.kept.append(f"{at}: {(outcome.error.strip() or told).splitlines()[-1]}")
            shutil.rmtree(scratch / given.path.relative_to(scratch).parts[0])
            if time.monotonic() > until:
                return tally
    raise AssertionError


def main(argv: Sequence[str]) -> int:
    """Print what was found; 1 where an input was kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fuzz", description=str(__doc__).splitlines()[0])
    parser.add_argument("seconds", nargs="?", type=float, default=600.0, help="default 600")
    parser.add_argument("seed", nargs="?", type=int, default=1, help="default 1")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("fuzz-kept"), help="default fuzz-kept")
    given = parser.parse_args(argv)
    found = fuzz(given.seconds, given.seed, given.folder)
    print(f"{found.kinds.total()} inputs ({dict(found.kinds)}), {found.kinds.total() / given.seconds:.1f} a second")
    print("worst:", ", ".join(f"{value:.1f} {unit} ({kind})" for unit, (value, kind) in found.worst.items()))
    print(f"{len(found.kept)} kept", *found.kept, sep="\n")
    return int(bool(found.kept))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
