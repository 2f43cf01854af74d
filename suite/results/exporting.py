"""Results as CSV, one row each, and as JSON, with every run and evaluation."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from suite import __version__
from suite.results.entry import Entry, remarks
from suite.results.links import place

COLUMNS = (
    *("number", "benchmark", "submitter", "division", "status", "system", "machine", "accelerators", "framework"),
    "implementation",
    *("precision", "ruleset", "verdict", "findings", "runs", "runs_needed", "reached", "seeds", "clock", "noisy"),
    *("seconds", "normalisation", "seconds_min", "seconds_max", "cost", "currency", "own_price"),
    *("joules", "energy_source", "coverage", "utilisation", "remarks", "evidence"),
)
FIGURES = (  # of a run
    *("quality", "samples", "seconds", "cost", "currency", "joules", "energy_source", "coverage", "noise"),
    *("restarts", "aborted"),
)
# Where a formula would begin for a spreadsheet that splits cells at any of its separators, or drops their quotes. After
# a mere space a lone sign is none: processors are called "Xeon @ 2.20GHz".
_FORMULA = re.compile(
    r"""((?:^|[,;|:\t\r\n])["'\s]*)(?=[=+@\-\uff1d\uff0b\uff0d\uff20])"""
    r"""|(\s["']*)(?=[=\uff1d]|[+@\-\uff0b\uff0d\uff20](?! ))"""
)


def row(number: int, entry: Entry, page: Path) -> dict[str, Any]:
    """A result's figures by `COLUMNS`, None if not known; `evidence` is where it lies, relative to the page."""
    times = entry.times
    made = dict.fromkeys(COLUMNS) | {name: getattr(entry, name) for name in COLUMNS if hasattr(entry, name)}
    return made | {
        "number": number,
        "runs": len(entry.runs),
        "seconds_min": times[0] if times else None,
        "seconds_max": times[-1] if times else None,
        "remarks": remarks(entry),
        "evidence": place(page, Path(entry.source), entry.path),
    }


def as_csv(entries: Sequence[Entry], page: Path) -> str:
    """A table for spreadsheets. An apostrophe precedes what one could take for a formula, with any separator."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for number, entry in enumerate(entries, 1):
        writer.writerow([_cell(value) for value in row(number, entry, page).values()])
    return text.getvalue()


def as_json(entries: Sequence[Entry], page: Path) -> str:
    """Everything that the page shows, the evaluations of each run, and each value that decided a result.

    Where a run has more evaluations or intervals than its history holds, `left_out` counts the others.
    """
    results = [
        {**row(number, entry, page), "decided": dict(entry.decided), "runs": _runs(entry)}
        for number, entry in enumerate(entries, 1)
    ]
    return json.dumps({"suite_version": __version__, "results": results}, indent=1, ensure_ascii=False) + "\n"


def _runs(entry: Entry) -> list[dict[str, Any]]:
    return [
        {
            "path": run.path,
            "verdict": run.verdict,
            "reached": run.converged,
            "seed": run.seed,
            **{name: getattr(run.summary, name) for name in FIGURES},
            "lost": None if run.converged else entry.lost,
            "evaluations": [asdict(point) for point in run.history.points],
            "left_out": run.history.left_out,
        }
        for run in entry.runs
    ]


def _cell(value: Any) -> Any:
    text = "; ".join(value) if isinstance(value, list) else value
    return _FORMULA.sub(r"\1\2'", text) if isinstance(text, str) else text
