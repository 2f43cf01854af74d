"""What the strict review finds."""

from __future__ import annotations

from pathlib import Path

from suite import mlperf
from tests.mlperf.maker import RULESET


def strict_findings(path: Path) -> list[tuple[str, str, int | None]]:
    return [
        (finding.rule.removeprefix("mlperf-strict/"), Path(finding.file).name, finding.line)
        for finding in mlperf.review(path, RULESET, strict=True).all_findings
        if finding.severity == "fail"
    ]
