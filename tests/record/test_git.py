from __future__ import annotations

import os
from pathlib import Path

import pytest

from suite.record import git


def test_git_tells_revision_and_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git, "ROOT", tmp_path)
    assert git.state() == {"revision": None, "dirty": None}
    assert git.without_revision().startswith("fatal: not a git repository")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    git.output("init", "-q")
    git.output(*identity, "commit", "-q", "--allow-empty", "-m", "x")
    found = git.state()
    assert len(found["revision"]) == 40
    assert found["dirty"] is False
    for path in ("submissions/example-org/submission.json", "results.html", "machine.yaml"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    assert git.state()["dirty"] is False
    with monkeypatch.context() as hook:  # of another repository
        hook.setenv("GIT_DIR", str(Path(__file__).parents[2] / ".git"))
        assert git.state() == found
    with monkeypatch.context() as mounted:  # another owner's
        mounted.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        assert git.state() == found
    with monkeypatch.context() as without:
        without.setenv("PATH", str(tmp_path))
        assert git.without_revision() == "git is not installed"
    for path in ("suite/new.py", "tasks/new/__init__.py", "reference_impls/new.py", "conf/new.yaml", "pyproject.toml"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
        assert git.state()["dirty"] is True
        (tmp_path / path).unlink()

    (tmp_path / "pyproject.toml").write_text("")
    git.output("add", ".")
    os.utime(tmp_path / "pyproject.toml", (1, 1))
    index = (tmp_path / ".git/index").read_bytes()
    assert git.state()["dirty"] is True
    assert (tmp_path / ".git/index").read_bytes() == index  # another git at work is not locked out

    inner = tmp_path / "site-packages"  # installed inside somebody else's repository
    inner.mkdir()
    monkeypatch.setattr(git, "ROOT", inner)
    assert git.state() == {"revision": None, "dirty": None}
    assert git.without_revision() == "the repository is that of a folder above the suite's"


def test_a_fork_s_commit_that_was_fetched_is_not_in_the_history_of_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "ROOT", tmp_path)
    monkeypatch.setattr(git, "has_history", lambda: True)
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    git.output("init", "-q", "-b", "main")
    git.output(*identity, "commit", "-q", "--allow-empty", "-m", "ours")
    ours = git.output("rev-parse", "HEAD").decode().strip()
    git.output("checkout", "-q", "-b", "fork")
    git.output(*identity, "commit", "-q", "--allow-empty", "-m", "theirs")
    theirs = git.output("rev-parse", "HEAD").decode().strip()
    git.output("checkout", "-q", "main")
    assert git.committed_ms(theirs) is not None
    assert [git.descends_from(each) for each in (ours, theirs, "a" * 40)] == [True, False, False]
