"""A process for a stranger's code, isolated and bounded, that does one job after the other and answers each."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from suite.audit.isolation import isolated, why_not
from suite.config.folder import ROOT
from suite.errors import UserError, shown
from suite.record.environment import CACHES, STARTED, environment
from suite.record.parsing import MalformedError, json_object

MAX_ANSWER = 64 << 10
MAX_SAID = 4000  # bytes that are read from the end of its standard error
MAX_FILE = 8 << 30  # bytes of a file that the process writes, such as a state
MEMORY_SHARE = 0.8  # of the machine's memory
GRACE_S = 5.0  # for a process that is told to end
COMPILERS = ("CC", "CXX")  # variables that name the compilers with which code builds its kernels
_POLL_S = 0.2
_LIBRARY = ctypes.CDLL(None)  # loaded here: a process that was just forked must load nothing
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Failed(Exception):
    """The process ended, hung, took too much, or said that it cannot do what it was asked to."""


class Process:
    """A worker process with the implementation in `code`. `limit_s` bounds the time of each answer.

    In the folder `place`, the worker writes to `scratch` and finds what it is given in `given`. If it is isolated, it
    cannot write to `given`, so the auditor opens only its own files there. `hidden` are the folders that the worker
    must not see; None means that the machine as a whole is isolated, which only its user knows. `asked_s` is how long
    all its answers took, by the auditor's clock. Raises UserError if a process cannot be isolated.
    """

    def __init__(self, code: Path, place: Path, limit_s: float, hidden: Sequence[Path] | None) -> None:
        if hidden is not None and (problem := why_not()):
            raise UserError(
                f"this system cannot isolate a process by unshare and setpriv of util-linux: {shown(problem)}; on a "
                "machine that is isolated as a whole, without network and without anything to lose, say isolated=true"
            )
        self.given, self.scratch, self.limit_s, self.asked_s = place / "given", place / "scratch", limit_s, 0.0
        for folder in (self.given, self.scratch):
            folder.mkdir()
        # -I leaves out PYTHONPATH and what is installed for the user, so the folders of packages are named
        packages = [each for each in sys.path if Path(each).name in ("site-packages", "dist-packages")]
        start = f"import sys; sys.path[:0] = {[str(code), str(ROOT)]!r}; sys.path += {packages!r}; "
        start += "from suite.audit.worker import main; main()"
        decide = [name for name in environment()["variables"] if not CACHES.fullmatch(name)]  # read-only folders
        named = [*decide, *(name for name in COMPILERS if name in STARTED)]
        self._errors = (self.scratch / "stderr.txt").open("w+b")
        self._process = subprocess.Popen(
            [*(() if hidden is None else isolated(hidden)), sys.executable, "-I", "-B", "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=self.scratch,
            env={
                **{name: STARTED[name] for name in named},
                "PATH": os.pathsep.join((sysconfig.get_path("scripts"), os.defpath)),
                **dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(self.scratch)),
            },
            preexec_fn=_bounds,
            start_new_session=True,
        )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)  # the CPU time of one that ends by itself counts as ours; see LoadMeter
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdout, self._errors):
            if pipe:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def ask(self, do: str, **values: Any) -> dict[str, Any]:
        """Give the worker a job of `suite.audit.worker` and return its answer. Raises Failed.

        Raises OSError if it says that its disk is full, unless that has room for the largest file it may write.
        """
        assert self._process.stdin
        began = time.monotonic()
        try:
            self._process.stdin.write(json.dumps({"do": do, **values}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed(self._said(do)) from None
        try:
            answer = json_object(self._line(do))
        except Failed:
            self._process.kill()  # else a late answer would be taken as that to the next job
            raise
        except MalformedError as error:
            raise Failed(f"{do}: an answer that is {error}") from error
        self.asked_s += time.monotonic() - began
        if "error" in answer:
            if answer.get("full") is True and shutil.disk_usage(self.scratch).free < MAX_FILE:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise Failed(f"{do}: {shown(answer['error'])}")
        return answer

    def _line(self, do: str) -> bytes:
        assert self._process.stdout
        descriptor, found, until = self._process.stdout.fileno(), b"", time.monotonic() + self.limit_s
        most = MEMORY_SHARE * psutil.virtual_memory().total
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while not found.endswith(b"\n"):
                if selector.select(_POLL_S):
                    part = os.read(descriptor, MAX_ANSWER)
                    found += part
                    if not part:
                        raise Failed(self._said(do))
                if len(found) > MAX_ANSWER:
                    raise Failed(f"{do}: an answer of more than {MAX_ANSWER} bytes")
                if time.monotonic() > until:
                    raise Failed(f"{do}: no answer within {self.limit_s:.0f} s")
                if self._memory() > most:
                    raise Failed(f"{do}: it takes more than {MEMORY_SHARE:.0%} of the memory")
        return found

    def _memory(self) -> int:
        """Bytes that the process and its children hold; what several of them share counts once."""
        total = 0
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self._process.pid)
            for each in (process, *process.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    total += _held(each)
        return total

    def _said(self, do: str) -> str:
        """Whether the process ended or only closed its output, with the last line that it wrote, or its exit code."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        code = self._process.returncode
        descriptor = self._errors.fileno()
        written = os.pread(descriptor, MAX_SAID, max(0, os.fstat(descriptor).st_size - MAX_SAID))
        content = written.decode(errors="replace").strip()
        how = "it closed its output" if code is None else "it ended"
        return f"{do}: {how} ({shown(content.splitlines()[-1]) if content else code})"


def _held(process: psutil.Process) -> int:
    """Bytes that a process holds: its own and its part of shared memory, no mapped files. All its RSS if not known."""
    try:
        told = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    except OSError:
        told = ""
    parts = re.findall(r"^Pss_(?:Anon|Shmem): +(\d+) kB$", told, re.MULTILINE)
    return sum(int(each) << 10 for each in parts) if parts else process.memory_info().rss


def _bounds() -> None:
    """In the new process, bound the size of files, forbid core dumps and, on Linux, let it end with the auditor's.

    A bound that is already lower is kept: it cannot be raised.
    """
    if sys.platform == "linux":
        _LIBRARY.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    most = MAX_FILE if most == resource.RLIM_INFINITY else min(most, MAX_FILE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
