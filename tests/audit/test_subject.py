"""What of a run's evidence an audit holds its blocks to."""

import os

import numpy as np
from mlperf_logging.mllog import constants as keys

from suite.audit.subject import run_of
from suite.config import logkeys
from suite.record import states
from suite.rules.reading import Evidence
from tests.rules.evidence_maker import isolate, write_run
from tests.rules.mutants.registry import index_of
from tests.rules.restarted import restarted


def subject(folder):
    return run_of(Evidence.read(folder), folder, "", None)


def test_a_block_that_a_restart_repeated_counts_from_its_first_beginning(tmp_path, monkeypatch):
    isolate(monkeypatch, tmp_path)
    run = write_run(tmp_path / "run")
    restarted(run, logkeys.TRACKED)
    records = run.records()
    began, again = index_of(records, keys.BLOCK_STOP) + 1, index_of(records, logkeys.RESTART) + 1
    ended = again + index_of(records[again:], keys.EVAL_ACCURACY)
    assert records[began]["time_ms"] < records[again]["time_ms"]
    claims = subject(run.folder).claims
    assert [claim.before for claim in claims] == [0, 4000, 5000]
    assert claims[1].seconds == (records[ended]["time_ms"] - records[began]["time_ms"]) / 1000


def test_only_the_last_evaluation_s_predictions_are_at_hand(tmp_path, monkeypatch):
    isolate(monkeypatch, tmp_path)
    claims = subject(write_run(tmp_path / "run").folder).claims
    assert [claim.predictions is not None for claim in claims] == [False, False, True]


def test_no_link_to_a_state_is_followed(tmp_path, monkeypatch):
    isolate(monkeypatch, tmp_path)
    folder = write_run(tmp_path / "run").folder
    kept = states.path_of(folder, 4000)
    kept.parent.mkdir()
    states.write(kept, {"a": np.zeros(1)}, 4000)
    assert subject(folder).kept(4000) == kept
    os.rename(kept, tmp_path / "elsewhere.npz")
    kept.symlink_to(tmp_path / "elsewhere.npz")
    assert subject(folder).kept(4000) is None
    kept.unlink()
    os.rename(tmp_path / "elsewhere.npz", kept)
    os.rename(kept.parent, tmp_path / "states")
    kept.parent.symlink_to(tmp_path / "states")
    assert subject(folder).kept(4000) is None
