"""The trials as rows of a check, and as the file that a submission brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from suite import __version__, config
from suite.check.equivalence.trials import Subject, equivalence, here
from suite.check.ledger import Ledger, Row
from suite.config.contestant import Contestant
from suite.config.models import Benchmark
from suite.errors import UserError
from suite.harness.contestant import OwnImplementation
from suite.harness.implementation import Implementation, ImplementationModule, compared, load_implementation
from suite.measure import machine
from suite.record.equivalence import FILE, Comparison, Equivalence, Trial
from suite.store.disk import write_atomically

_RULE = "The implementation is the reference up to rounding (rules.md: model.1, model.6, equivalence.1)"
_MEND = "docs/equivalence.md says what each trial sees"


def against(
    ledger: Ledger,
    benchmark: Benchmark,
    own: OwnImplementation,
    module: ImplementationModule,
    data: Mapping[str, np.ndarray],
    precision: str,
) -> Comparison | None:
    """Hold `own`, loaded as `module`, to the reference in its framework, or to another one if there is none.

    Record what each trial found, and return it; None if one of them failed to finish.
    """
    beside = compared(benchmark.task, own.framework.name)
    reference = ledger.made(
        f"the reference in {beside} can be loaded",
        ImplementationModule,
        lambda: load_implementation(benchmark.task, config.framework(beside)),
    )
    if reference is None:
        return None
    subject = Subject(
        benchmark,
        here(reference, data),
        here(module, data),
        data,
        "cpu",
        machine.detect().logical_cpus,
        own_draws=own.declared.own_draws,
    )
    precisions = ("fp32", precision)
    made = ledger.made("it is held to the reference", Implementation, lambda: equivalence(subject, precisions))
    if made:
        ledger.rows[-1:] = [_row(ledger, trial) for trial in made.trials]
    return made


def _row(ledger: Ledger, trial: Trial) -> Row:
    promise = f"{trial.precision}: {trial.trial}"
    if trial.found is None or trial.bound is None:
        return Row(ledger.benchmark, ledger.framework, promise, "skipped", trial.remark)
    told = _apart(trial.found, trial.bound)
    if trial.holds:
        return Row(ledger.benchmark, ledger.framework, f"{promise}: {told}", "pass")
    said = "; ".join(filter(None, (told, trial.where, trial.remark)))
    return Row(ledger.benchmark, ledger.framework, promise, "fail", said, _RULE, _MEND)


def _apart(found: float, bound: float) -> str:
    """Both in the fewest digits that tell them apart, two at least."""
    digits = next((each for each in range(2, 18) if f"{found:.{each}g}" != f"{bound:.{each}g}"), 2)
    return f"{found:.{digits}g} of at most {bound:.{digits}g}"


def places(folder: Path) -> list[Path]:
    """The files to write below `folder`: one beside the evidence of each run, or one in `folder` if it has no runs."""
    runs = sorted(path for path in folder.glob("run_*") if path.is_dir() and not path.is_symlink())
    return [place / FILE for place in runs or [folder]]


def write(folder: Path, told: Contestant, comparisons: Sequence[Comparison]) -> None:
    """Write the comparisons of an implementation to the `places` of `folder`. Raises UserError if that fails."""
    made = Equivalence(suite_version=__version__, name=told.name, sha256=told.sha256, comparisons=tuple(comparisons))
    try:
        for place in places(folder):
            write_atomically(place, made.model_dump_json(indent=1).encode() + b"\n")
    except OSError as error:
        raise UserError(f"out={folder} cannot be written ({error.strerror})") from error
