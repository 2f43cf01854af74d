"""How a process is kept from the rest of the machine, and what is said where nothing can."""

import os
import re
import shutil
import socket
import subprocess

import pytest

from suite.audit import process
from suite.audit.__main__ import main
from suite.audit.isolation import isolated, why_not
from suite.audit.process import Process
from suite.config.folder import ROOT
from suite.errors import UserError
from tests.audit.conftest import needs_isolation
from tests.rules.evidence_maker import isolate, write_run


def test_where_nothing_isolates_the_auditor_must_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "why_not", lambda: "unshare: failed")
    with pytest.raises(UserError, match=r"util-linux: unshare: failed; .* isolated=true"):
        Process(tmp_path, tmp_path, 1.0, ())


def test_why_nothing_isolates_is_what_the_system_says_first(tmp_path, monkeypatch):
    said = "echo unshare: not permitted >&2\necho dmesg may tell more >&2"
    (tmp_path / "unshare").write_text(f"#!/bin/sh\n{said}\nexit 1\n")
    (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert why_not.__wrapped__() == "unshare: not permitted"


@pytest.mark.parametrize("option", ["states", "data_dir"])
def test_a_folder_that_the_code_needs_is_not_taken_for_one_to_hide(tmp_path, monkeypatch, option):
    isolate(monkeypatch, tmp_path)
    run = write_run(tmp_path / "run")
    with pytest.raises(UserError, match=rf"^{re.escape(str(ROOT))} cannot be hidden from .*isolated=true$"):
        main([str(run.folder), "run_code=true", f"{option}={ROOT}"])


@needs_isolation
def test_a_socket_that_goes_meanwhile_needs_no_hiding(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    gone = f'case "$*" in *{tmp_path}/socket) rm {tmp_path}/socket ;; esac'
    (tmp_path / "bin/mount").write_text(f'#!/bin/sh\n{gone}\nexec {shutil.which("mount")} "$@"\n')
    (tmp_path / "bin/mount").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=os.pathsep)
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(str(tmp_path / "socket"))
        done = subprocess.run([*isolated(), "echo", "here"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "here\n"), done.stderr
