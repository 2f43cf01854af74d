"""MLCommons' own checker, as the judge of ours: asked now, or as it answered once for each log of a corpus."""

from __future__ import annotations

import contextlib
import csv
import io
import logging
import lzma
from pathlib import Path

from mlperf_logging.compliance_checker import mlp_compliance

VERDICTS = "official_verdicts.csv.xz"


def verdict(path: Path, ruleset: str) -> str:
    """PASS, FAIL or CRASH."""
    version = f"{ruleset.removeprefix('mlperf-')}.0"
    mlp_compliance.enqueued_configs.clear()  # a crash leaves some behind
    checker = mlp_compliance.make_checker("training", version, quiet=True, werror=False)
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            valid, *_ = mlp_compliance.main(str(path), f"training_{version}/common.yaml", checker)
    except Exception:
        return "CRASH"
    finally:
        logger.setLevel(level)
    return "PASS" if valid else "FAIL"


def recorded(folder: Path, name: str) -> dict[str, bool]:
    """Whether each log of round `name` (such as v5.1) passes, by its path below `folder / name`."""
    with lzma.open(folder / VERDICTS, "rt") as file:
        return {row["path"]: row["verdict"] == "PASS" for row in csv.DictReader(file) if row["round"] == name}
