"""The HTML page: self-contained, works offline and without scripts, and holds nothing of a submission but text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from suite.plots import charts
from suite.plots.templates import jointed, page
from suite.review.difference import differences
from suite.review.drawn import groups
from suite.review.excerpt import excerpts
from suite.review.kinds import Kind, kinds
from suite.review.model import Report
from suite.review.rulebook import rule_texts
from suite.review.terminal import plain, said

MAX_FINDINGS = 2000  # kinds of them on the page
MAX_PLACES = 100  # of one kind
WORDS = {"fail": "not compliant", "error": "could not be checked", "note": "note"}


def html(report: Report, root: Path) -> str:
    """The page of a report on what lies at `root`.

    The page's content security policy allows only scripts and styles of known hashes, and nothing to be loaded.
    """
    chosen = _chosen(kinds(report))
    texts, by_rule = rule_texts(), Counter(finding.rule for finding in report.findings)
    return page(
        "page.html",
        "suite.review",
        report=report,
        said=said(report),
        shown=chosen,
        left_out=len(report.findings) - sum(kind.count for kind in chosen),
        lines=excerpts(root, [kind.first for kind in chosen]),
        rules={rule: text.split("`") for rule, text in texts.items()},
        said_by={rule: texts[rule].partition(" Why: ")[0].replace("`", "") for rule in by_rule.keys() & texts.keys()},
        by_rule=by_rule,
        words=WORDS,
        runs=[run for result in report.results for run in result.runs],
        verdicts={log.path: log.verdict for log in report.logs},
        firsts={kind.first.rule: at for at, kind in reversed(list(enumerate(chosen, 1)))},
        most_places=MAX_PLACES,
        groups=[
            (group, [charts.chart(group, "seconds"), charts.chart(group, "samples")]) for group in groups(report, root)
        ],
        bars=charts.bars,
        differing=differences(report, root),
        cell=_cell,
    )


def _chosen(found: Sequence[Kind]) -> list[Kind]:
    """At most `MAX_FINDINGS` in their order. If there are more, the first of every rule, then the second, and so on."""
    seen: Counter[str] = Counter()
    ranks = []
    for at, kind in enumerate(found):
        ranks.append((seen[kind.first.rule], at))
        seen[kind.first.rule] += 1
    return [found[at] for at in sorted(at for _, at in sorted(ranks)[:MAX_FINDINGS])]


def _cell(value: Any) -> Markup:
    """A table cell with a plain value; what is not known is empty."""
    if isinstance(value, list | tuple):
        return Markup('<td class="words">{}</td>').format(" ".join(plain(item) for item in value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Markup('<td class="number" data-sort="{}">{}</td>').format(value, plain(value))
    return Markup('<td class="path">{}</td>').format(jointed(plain(value)))
