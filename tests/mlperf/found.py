"""What the strict review finds."""

from __future__ import annotations

from pathlib import Path

from suite import mlperf
from tests.mlperf.maker import RULESET


def strict_findings(path: Path) -> list[tuple[str, str, int | None]]:
    made = mlperf.review(path, RULESET, strict=True)
    return [
        (finding.rule.removeprefix("mlperf-strict/"), Path(finding.file).name, finding.line)
        for finding in (*made.findings, *(each for log in made.logs for each in log.findings))
        if finding.severity == "fail"
    ]
