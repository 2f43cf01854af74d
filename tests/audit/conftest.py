"""A result of two honest runs with their states, and editors that forge it; runs of altered implementations."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from suite.audit import replaying
from suite.audit.__main__ import main
from suite.audit.isolation import why_not
from suite.config.folder import ROOT
from suite.record import git, states
from suite.record.environment import STARTED
from suite.record.evidence import LOG
from suite.record.states import STATES, state_sha256
from tests.rules.conftest import run, sound_run
from tests.rules.editor import Evidence

__all__ = ["run", "sound_run"]

needs_isolation = pytest.mark.skipif(why_not() is not None, reason=f"no process can be isolated: {why_not()}")

RUN = ("task=image_classification", "scale=mini", "hw=cpu", "precision=fp32", "mlflow=false", "checkpoints=keep")
SEED = 23  # it and the next one reach the target at the second evaluation


@pytest.fixture(autouse=True)
def trained_once(request, monkeypatch):
    """A block is trained again once, but where a test is about how long that takes or whether it repeats itself."""
    if not request.node.get_closest_marker("repeated"):
        monkeypatch.setattr(replaying, "REPEATED_S", 0.0)


@pytest.fixture(scope="session")
def honest(tmp_path_factory):
    """Two runs of the quickest benchmark, of two blocks each, with the state at each evaluation."""
    return trained(tmp_path_factory.mktemp("honest"), ROOT, f"seed={SEED}", "runs=2")


@pytest.fixture
def result(honest, tmp_path):
    return Path(shutil.copytree(honest, tmp_path / "result"))


def trained(folder, project, *words):
    """The evidence of a run by the code in `project`, which claims to be that of this repository's revision."""
    out = folder / "evidence"
    call = [sys.executable, "-m", "suite.run", *RUN, *words, f"out={out}"]
    environment = {**STARTED, "PYTHONPATH": str(project)}
    done = subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    return committed(out)


def killed_and_resumed(folder, seed):
    """The evidence of a run that was killed while it trained its first block, and gone on with."""
    out = folder / "evidence"
    environment = {**STARTED, "PYTHONPATH": str(ROOT)}
    call = [sys.executable, "-m", "suite.run"]
    with subprocess.Popen([*call, *RUN, f"seed={seed}", f"out={out}"], cwd=folder, env=environment) as process:
        while not ((out / LOG).exists() and "run_start" in (out / LOG).read_text()):
            assert process.poll() is None
            time.sleep(0.002)  # it trains for about a second
        process.kill()
    resumed = [*call, f"resume={out}", "mlflow=false"]
    done = subprocess.run(resumed, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return committed(out)


def committed(out):
    """The evidence in `out`, which claims to be made by this repository's revision as it was committed."""
    claimed = {"revision": git.state()["revision"], "dirty": False}
    named = {f"git_{name}": value for name, value in claimed.items()}
    for each in sorted(out.glob("run_*")) or [out]:
        Evidence(each).edit_system(lambda values: values.update(git=claimed))
        Evidence(each).edit("suite_config", lambda record: record["metadata"].update(named))
    return out


def altered(folder, old, new):
    """A copy of the project in which a line of the implementation, or of what both frameworks share, is another."""
    project = folder / "altered"
    for name in ("suite", "tasks", "reference_impls", "conf"):
        shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", project)
    for name in ("torch", "shared"):
        path = project / "reference_impls/image_classification" / f"{name}.py"
        text = path.read_text()
        if old in text:
            path.write_text(text.replace(old, new))
            return project
    raise AssertionError(f"no line {old!r}")


def forge_states(folder, make):
    """Replace the state at each evaluation of a run by `make(samples, state, initial)`, with its sum in the log."""
    run = Evidence(folder)
    records, initial = run.records(), states.read(states.path_of(folder, 0))[0]
    for record in records:
        if record["key"] == "eval_accuracy":
            samples = record["metadata"]["samples_count"]
            path = folder / STATES / f"{samples}.npz"
            state = make(samples, states.read(path)[0], initial)
            states.write(path, state, samples)
            record["metadata"]["state_sha256"] = state_sha256(state)
    run.write(records)


def audited(capsys, *words):
    """The exit code of an audit, its report, and the rules whose findings fail."""
    capsys.readouterr()
    code = main([*map(str, words), "run_code=true", "--json"])
    made = json.loads(capsys.readouterr().out)
    return code, made, {each["rule"] for each in made["findings"] if each["severity"] == "fail"}
