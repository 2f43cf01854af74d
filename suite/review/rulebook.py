"""The text of each rule, from rules.md."""

from __future__ import annotations

import re
from functools import cache

from suite.config.folder import ROOT
from suite.record.summary import format_count

RULES_MD = ROOT / "rules.md"
_RULE = re.compile(r"^\*\*(?P<id>[a-z]+\.\d+)\*\*(?P<text>.*?)`machine: (?P<machine>yes|audit|no)`$", re.M | re.S)


def rule_texts() -> dict[str, str]:
    """What each rule says and why, by its id, as one line of plain text; empty where rules.md is not installed."""
    return {rule["id"]: " ".join(rule["text"].split()) for rule in _rules()}


def beyond_review() -> str:
    """How many rules only an audit or a person checks, and where they stand."""
    count = sum(rule["machine"] != "yes" for rule in _rules())
    if not count:
        return "the rules that only a person or an audit can tell: rules.md, which is not installed here"
    return f"{format_count(count, 'rule')} that only a person or an audit can tell: rules.md"


@cache
def _rules() -> tuple[re.Match[str], ...]:
    return tuple(_RULE.finditer(RULES_MD.read_text())) if RULES_MD.exists() else ()
