"""The findings as SARIF 2.1.0, which CI systems show at file and line."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from suite.review.model import Report
from suite.review.rulebook import rule_texts
from suite.rules.finding import Finding

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"fail": "error", "error": "warning", "note": "note"}
ROOT = "SUBMISSION"  # what the paths are relative to

_OF_LINKS = re.compile(r"[\\\[\]]")  # the characters that make a link of [text](target) in a message


def sarif(report: Report) -> dict[str, Any]:
    """The log object of one run of the review. A waived finding is a suppressed result."""
    rules = sorted({finding.rule for finding in report.findings})
    texts = rule_texts()
    driver = {
        "name": "time-to-accuracy review",
        "rules": [{"id": rule, "shortDescription": {"text": texts.get(rule, rule)}} for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"description": {"text": "What was given to the review."}}},
        "invocations": [{"executionSuccessful": report.verdict != "error"}],
        "results": [_result(report, finding, rules.index(finding.rule)) for finding in report.findings],
        "properties": {"verdict": report.verdict, "ruleset": report.ruleset, "provenance": report.provenance},
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(report: Report, finding: Finding, index: int) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(finding.file), "uriBaseId": ROOT}}
    if finding.line is not None:
        place["region"] = {"startLine": max(1, finding.line)}
    said = f"expected {finding.expected}; found {finding.found}. To mend: {finding.mend}"
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": LEVELS[finding.severity],
        "message": {"text": _OF_LINKS.sub(r"\\\g<0>", said)},
        "locations": [{"physicalLocation": place}],
    }
    if waiver := report.waived.get(finding):
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": waiver.granted}]
    return result
