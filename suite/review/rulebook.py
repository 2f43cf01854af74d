"""The text of each rule, from rules.md."""

from __future__ import annotations

import re
from functools import cache

from suite.config.folder import ROOT

RULES_MD = ROOT / "rules.md"
_RULE = re.compile(r"^\*\*(?P<id>[a-z]+\.\d+)\*\*(?P<text>.*?)`machine: (?P<machine>yes|audit|no)`$", re.M | re.S)


def rule_texts() -> dict[str, str]:
    """What each rule says and why, by its id, as one line of plain text; empty where rules.md is not installed."""
    return {rule["id"]: " ".join(rule["text"].split()) for rule in _rules()}


def beyond_review() -> list[str]:
    """The ids of the rules that only an audit or a person checks."""
    return [rule["id"] for rule in _rules() if rule["machine"] != "yes"]


@cache
def _rules() -> tuple[re.Match[str], ...]:
    return tuple(_RULE.finditer(RULES_MD.read_text())) if RULES_MD.exists() else ()
