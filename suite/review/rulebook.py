"""The text of each rule, from rules.md."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

RULES_MD = Path(__file__).resolve().parent.parent.parent / "rules.md"
_RULE = re.compile(r"^\*\*(?P<id>[a-z]+\.\d+)\*\*(?P<text>.*?)`machine: (?:yes|no)`$", re.M | re.S)


@cache
def rule_texts() -> dict[str, str]:
    """What each rule says and why, by its id, as one line of plain text; empty where rules.md is not installed."""
    if not RULES_MD.exists():
        return {}
    return {rule["id"]: " ".join(rule["text"].split()) for rule in _RULE.finditer(RULES_MD.read_text())}
