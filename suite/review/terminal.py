"""The review in the terminal: a table of findings, one line for each run or score, and the verdict."""

from __future__ import annotations

from collections import Counter

from mlperf_logging.mllog import constants as keys
from rich.console import Console
from rich.table import Table
from rich.text import Text

from suite.config.contestant import Contestant
from suite.record.scoring import mean_of
from suite.record.summary import format_cost, format_count, format_energy, format_restarts, format_seconds
from suite.record.tables import show_table
from suite.review.kinds import kinds
from suite.review.model import SUITE, Report
from suite.rules.finding import Verdict
from suite.rules.verdict import ResultReview, RunReview

STYLES = {"pass": "green", "fail": "red", "error": "magenta", "note": "cyan", "waived": "yellow"}
MAX_ROWS = 20  # of one rule in the table
MAX_PLACES = 4  # of one row
MAX_LINES = 100  # of runs


def said(report: Report) -> str:
    """The verdict in words."""
    holds = "no rule is broken" if report.ruleset == SUITE else f"complies with {report.ruleset}"
    return {
        "pass": holds + (", but for what is waived" if report.waived else ""),
        "fail": f"{format_count(report.counted('fail'), 'finding')} against the rules",
        "error": f"{format_count(report.counted('error'), 'check')} could not be made",
    }[report.verdict]


def show(console: Console, report: Report) -> None:
    """Print a report."""
    if report.findings:
        show_table(console, _findings(report))
    verdicts = {log.path: log.verdict for log in report.logs}
    runs = [run for result in report.results for run in result.runs]
    for run in runs[:MAX_LINES]:
        console.print(_run(run, verdicts[run.path]), soft_wrap=True)
    if len(runs) > MAX_LINES:
        console.print(f"{len(runs) - MAX_LINES} more runs: --json lists all")
    for result in report.results:
        if len(result.runs) > 1:
            console.print(_result(result), soft_wrap=True)
        if result.contestant:
            console.print(_implementation(result, result.contestant), soft_wrap=True)
    if not report.results:
        _others(console, report)
    if report.verdict == "pass":
        console.print(f"not checked: {'; '.join(report.not_checked)}", soft_wrap=True)
    line = Text(f"{report.verdict.upper()}: {said(report)}", STYLES[report.verdict])
    if report.converged is not None:
        line.append("; converged: yes" if report.converged else "; converged: no, the target was not reached")
    errors = report.counted("error") if report.verdict == "fail" else 0
    for name, count in (("errors", errors), ("waived", len(report.waived)), ("notes", report.counted("note"))):
        line.append(f"; {name}: {count}" if count else "")
    console.print(line, soft_wrap=True)


def _findings(report: Report) -> Table:
    """The findings by kind, `MAX_ROWS` of each rule. As Text objects a submission's strings are never markup."""
    table = Table("rule", "file:line", "what", show_lines=True)
    seen: Counter[str] = Counter()
    for kind in kinds(report):
        first = kind.first
        seen[first.rule] += 1
        if seen[first.rule] > MAX_ROWS:
            continue
        entries = [("expected", first.expected), ("found", kind.found), ("mend", first.mend)]
        if kind.waiver:
            entries.append(("waived", kind.waiver.granted))
        what = Text()
        for name, text in entries:
            what.append("\n" if what else "").append(f"{name:>8}  ", style="dim").append(text)
        places = kind.places
        more = [f"and {len(places) - MAX_PLACES:,} more places"] if len(places) > MAX_PLACES else []
        marked = "waived" if kind.waiver else first.severity
        rule = Text(f"{first.rule}\n").append(marked, style=STYLES[marked])
        rule.append(f"\n{kind.count:,} times" if kind.count > 1 else "")
        table.add_row(rule, Text("\n".join(places[:MAX_PLACES] + more), overflow="fold"), what)
    for name, count in seen.items():
        if count > MAX_ROWS:
            table.add_row(name, "", f"{count - MAX_ROWS} more kinds of finding of this rule: --json lists all")
    return table


def _run(run: RunReview, verdict: Verdict) -> Text:
    """A run's claims in one line."""
    summary = run.summary
    parts = (
        f"seed {'not known' if run.seed is None else run.seed}",
        f"ended at {summary.reason or 'an unknown point'}",
        f"quality {'none' if summary.quality is None else format(summary.quality, '.4g')}",
        f"{'not known' if summary.samples is None else format(summary.samples, ',')} samples",
        f"time {format_seconds(summary.seconds)}",
        f"cost {format_cost(summary.cost, summary.currency)}",
        f"energy {format_energy(summary.joules, summary.energy_source, summary.coverage)}",
        *filter(None, [format_restarts(summary.restarts, summary.aborted)]),
        *(["NOISY machine"] if summary.noise else []),
    )
    return Text(run.path).append(f"  {verdict}", STYLES[verdict]).append(f"  {', '.join(parts)}")


def score(result: ResultReview) -> str:
    """The time to quality of a result, how it follows from its runs, and that it is of the open division if so."""
    mean = mean_of(len(result.runs))
    factor = result.normalisation
    if result.score_s is not None and factor != 1:
        mean += f", {format_seconds(result.score_s / factor)}, times {factor:.5g} for its few samples: convergence.2"
    if result.unheld:
        mean += f"; {result.unheld}"
    if result.division == keys.OPEN:
        mean += "; open division"
    return f"{format_seconds(result.score_s)} ({mean})"


def _result(result: ResultReview) -> Text:
    said = f"time to quality: {score(result)}"
    converged = f"{sum(run.converged for run in result.runs)} converged"
    seeds = f"; seeds drawn by token {result.token}" if result.token else ""
    return Text(f"{result.path}  " if result.path else "").append(f"{said}; {converged}{seeds}")


def _implementation(result: ResultReview, contestant: Contestant) -> Text:
    said = f"trained by {contestant.name} in {result.framework}, {format_count(len(contestant.files), 'file')}"
    where = f"{result.path}  " if result.path else ""
    shows = "--html FILE shows how it differs from the reference"
    if result.division == keys.CLOSED:
        shows += ", suite audit PATH run_code=true equivalence=true measures by how much"
    return Text(f"{where}{said}: {shows}")


def _others(console: Console, report: Report) -> None:
    """The scores and logs of another ruleset."""
    table = Table("result", "benchmark", "division", caption="minutes: the olympic mean, as submitted")
    for name in ("logs", "comply", "minutes"):
        table.add_column(name, justify="right")
    for score in report.scores[:MAX_LINES]:
        asked = f" of {score['needed']}" if score["needed"] else ""
        minutes = "none" if score["minutes"] is None else f"{score['minutes']:.3f}"
        named = (Text(plain(score[name]), overflow="fold") for name in ("path", "benchmark", "division"))
        table.add_row(*named, f"{score['logs']}{asked}", plain(score["compliant"]), minutes)
    show_table(console, table)
    if len(report.scores) > MAX_LINES:
        console.print(f"{len(report.scores) - MAX_LINES} more results: --json lists all")
    count = Counter(log.verdict for log in report.logs)
    words = ", ".join(f"{count[verdict]} {verdict}" for verdict in ("pass", "fail", "error") if count[verdict])
    console.print(f"{format_count(len(report.logs), 'log')}: {words}", soft_wrap=True)


def plain(value: object) -> str:
    """A value in a table; one that is not known is empty."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value)
