"""Real submissions: the verdict on every log is the official one, and so is every score."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from suite import mlperf
from tests.mlperf.official import VERDICTS, recorded

GIVEN = os.environ.get("MLPERF_LOGS", "")
SCORES = "official_scores.csv"
ROUNDS = [name for name in ("v0.7", "v4.0", "v5.1") if GIVEN and (Path(GIVEN) / name).is_dir()]

pytestmark = pytest.mark.skipif(
    not (ROUNDS and (Path(GIVEN) / VERDICTS).exists()),
    reason=f"needs MLPERF_LOGS: a folder with real submissions (v0.7, v4.0, v5.1), {VERDICTS} and {SCORES}",
)


@pytest.mark.parametrize("name", ROUNDS or ["none"])
def test_verdicts_and_scores(name: str) -> None:
    with (Path(GIVEN) / SCORES).open() as file:
        scores = {
            (row["submitter"], row["system"], row["benchmark"]): float(row["official_score_min"])
            for row in csv.DictReader(file)
            if f"v{row['round']}" == name
        }
    review = mlperf.review(Path(GIVEN) / name, name)
    assert {log.path: log.verdict == "pass" for log in review.logs} == recorded(Path(GIVEN), name)
    found = {(score.org, score.system, score.benchmark): score.minutes for score in review.scores if score.benchmark}
    assert found == pytest.approx(scores, abs=1e-6)
