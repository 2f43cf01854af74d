"""The text of each rule, from rules.md."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from suite.config.folder import ROOT
from suite.record.summary import format_count

RULES_MD = ROOT / "rules.md"
WHO = {"audit": "an audit", "no": "a person"}
_RULE = re.compile(r"^\*\*(?P<id>[a-z]+\.\d+)\*\*(?P<text>.*?)`machine: (?P<machine>yes|audit|no)`$", re.M | re.S)


def rule_texts() -> dict[str, str]:
    """What each rule says and why, by its id, as one line of plain text; empty where rules.md is not installed."""
    return {rule["id"]: " ".join(rule["text"].split()) for rule in _rules()}


def beyond_review() -> dict[str, str]:
    """What those rules say that only an audit or a person checks, by their ids; empty where rules.md is not installed.

    Each begins with who checks it.
    """
    return {
        rule["id"]: f"{WHO[rule['machine']]}: {' '.join(rule['text'].split()).partition(' Why: ')[0]}"
        for rule in _rules()
        if rule["machine"] != "yes"
    }


def counted(beyond: Mapping[str, str]) -> str:
    """How many rules a review leaves to audits and people, and where they stand."""
    if not beyond:
        return "the rules that only a person or an audit can tell: rules.md, which is not installed here"
    return f"{format_count(len(beyond), 'rule')} that only a person or an audit can tell: rules.md"


@cache
def _rules() -> tuple[re.Match[str], ...]:
    return tuple(_RULE.finditer(RULES_MD.read_text())) if RULES_MD.exists() else ()
