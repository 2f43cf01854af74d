"""Worlds of workers of the eighth task, started as a user does it, so that something in them can be killed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path

import psutil

from suite.harness.workers.channel import free_port
from suite.harness.workers.place import OWN
from suite.record.environment import STARTED
from tests.parity_runs import keys
from tests.waiting import FOREVER_S, until

PROJECT = Path(__file__).resolve().parent.parent
SHARED = "tests/eighth_task/shared.py"
MARK = "SUITE_TEST_WORLD"  # in the environment of every process of a world
MOST_S = 300.0  # seconds that a world may take to end, even on a busy machine
PLAN = ("task=parity", "framework=torch", "hw=cpu", "seed=1", "mlflow=false")
SLOWLY = ("division=open", "hyperparameters.milliseconds_per_step=50")  # 10 s to the target
NAMESPACES = (f"suite-a-{os.getpid()}", f"suite-b-{os.getpid()}")
ADDRESSES = ("10.213.0.1", "10.213.0.2")


def environment(project: Path = PROJECT, **more: str) -> dict[str, str]:
    """The environment that the tests began with, before libraries changed it, and the eighth task for every Python."""
    paths = [str(project), str(project / "tests/eighth_task/everywhere"), STARTED.get("PYTHONPATH", "")]
    return {**STARTED, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", **more}


def run(*words: str, implementation: Path = PROJECT / SHARED) -> list[str]:
    """The command of a run with these options."""
    return [sys.executable, "-m", "suite.run", f"implementation={implementation}", *words]


def torchrun(run: Sequence[str], *options: str) -> list[str]:
    """The command of a run, started by torchrun."""
    return [str(Path(sys.executable).with_name("torchrun")), *options, *run[1:]]


def two_nodes(port: int, host: str = "127.0.0.1") -> list[str]:
    """torchrun's options on each of two nodes with one worker each."""
    return ["--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint={host}:{port}", "--rdzv-id=w"]


class World:
    """Processes that were started in `folder`; `said` is what they all print."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, uuid.uuid4().hex
        self.started: list[subprocess.Popen[bytes]] = []
        self.output = folder / f"said-{self.mark[:8]}.txt"

    def start(self, command: Sequence[str], environ: Mapping[str, str] | None = None) -> World:
        """Start a command; a world of several nodes takes one for each."""
        with self.output.open("ab") as file:
            marked = {**(environ or environment()), MARK: self.mark}
            self.started.append(subprocess.Popen(command, cwd=self.folder, env=marked, stdout=file, stderr=file))
        return self

    def processes(self) -> list[psutil.Process]:
        """All processes of the world that are alive."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def worker(self, rank: int) -> psutil.Process:
        """The process of the worker of that rank. Raises AssertionError if there is none."""
        for process in self.processes():
            with suppress(psutil.Error):
                environ, command = process.environ(), process.cmdline()
                own = environ.get(OWN, environ.get("RANK", environ.get("SLURM_PROCID", "0"))).split()[0]
                if own == str(rank) and "suite.run" in command and "torchrun" not in " ".join(command):
                    return process
        raise AssertionError(f"no worker of rank {rank}: {self.said}")

    def wait_for(self, key: str, count: int = 1, out: str = "out") -> None:
        """Wait for `count` lines of a key in the run's log. Raises AssertionError if the world ends before."""
        log = self.folder / out
        self._until(lambda: (log / "log.txt").exists() and keys(log).count(key) >= count)

    def wait_for_error(self) -> None:
        """Wait for the first error message. Raises AssertionError if the world ends without one."""
        self._until(lambda: self.errors)

    def _until(self, condition: Callable[[], object]) -> None:
        def holds() -> bool:
            lives = bool(self.processes())  # checked first, so that nothing is missed that the last one does
            held = bool(condition())
            assert held or lives, self.said
            return held

        until(holds)

    def ended(self, within_s: float = MOST_S) -> float:
        """Wait until no process of the suite is left; return the seconds. Raises AssertionError after `within_s`.

        torchrun's own processes, one for each node, do not count: they may wait longer for each other.
        """
        began = time.monotonic()
        while left := [each for each in self.processes() if not _is_torchrun(each)]:
            assert time.monotonic() - began < within_s, f"{[each.cmdline() for each in left]} live: {self.said}"
            for each in self.started:
                each.poll()
            time.sleep(0.1)
        return time.monotonic() - began

    @property
    def codes(self) -> list[int | None]:
        return [each.wait(FOREVER_S) for each in self.started]

    @property
    def said(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    @property
    def errors(self) -> list[str]:
        """The suite's own error messages, not SLURM's. Part of torchrun's traceback may precede one in its line."""
        return re.findall(r"(?<!: )(?<!\w)error: (.*)$", self.said, re.MULTILINE)

    def end(self) -> None:
        """Leave nothing behind."""
        for process in self.processes():
            with suppress(psutil.Error):
                process.kill()
        for each in self.started:
            each.wait()


def _is_torchrun(process: psutil.Process) -> bool:
    try:
        return any(word.endswith("/torchrun") for word in process.cmdline()[:2])
    except psutil.Error:
        return False


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """A world, none of whose processes outlives the block."""
    made = World(folder)
    try:
        yield made
    finally:
        made.end()


def own(made: World, *words: str, **more: Path) -> World:
    """Start two workers on this machine, by the suite itself."""
    return made.start(run(*words, "hw.workers=2", **more))


def agents(made: World, *words: str, options: Sequence[str] = ()) -> World:
    """Start two nodes of one worker each, both on this machine: two agents of torchrun with these `options`."""
    port = free_port()
    for node in range(2):
        host = f"--rdzv-conf=is_host={int(node == 0)}"
        made.start(torchrun(run(*words, "hw.nodes=2"), *two_nodes(port), host, *options))
    return made


STARTS: dict[str, Callable[..., World]] = {"the suite": own, "torchrun": agents}


@cache
def why_no_namespaces() -> str | None:
    """Try to make two hosts of network namespaces; return why that cannot be done here, None if it can."""
    return _why_not(two_hosts()) if shutil.which("ip") else "network namespaces need ip, of Debian's iproute2"


@cache
def why_no_small_disk() -> str | None:
    """Try to mount a small file system; return why that cannot be done here, None if it can."""
    with tempfile.TemporaryDirectory() as folder:
        return _why_not(small_disk(Path(folder)))


def _why_not(attempt: AbstractContextManager[None]) -> str | None:
    try:
        with attempt:
            return None
    except subprocess.CalledProcessError as error:
        return f"{error.cmd[0]} cannot do it here: {error.stderr.decode().strip().splitlines()[0]}"


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of 32 MB at `folder`."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", folder], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@contextmanager
def two_hosts() -> Iterator[None]:
    """Two network namespaces, NAMESPACES, joined by a veth pair, with ADDRESSES."""
    a, b = NAMESPACES
    try:
        for each in NAMESPACES:
            _ip("netns", "add", each)
        _ip("link", "add", "va", "netns", a, "type", "veth", "peer", "name", "vb", "netns", b)
        for namespace, link, address in zip(NAMESPACES, ("va", "vb"), ADDRESSES, strict=True):
            _ip("-n", namespace, "addr", "add", f"{address}/24", "dev", link)
            _ip("-n", namespace, "link", "set", "lo", "up")
            _ip("-n", namespace, "link", "set", link, "up")
        yield
    finally:
        for each in NAMESPACES:
            subprocess.run(["ip", "netns", "del", each], check=False, capture_output=True)


def hosts(made: World, *words: str) -> World:
    """Start one worker in each of the two namespaces, by torchrun, with the leader in the first."""
    options = two_nodes(29411, ADDRESSES[0])
    for namespace, address in zip(NAMESPACES, ADDRESSES, strict=True):  # both have this machine's name
        local = [
            *options,
            f"--local-addr={address}",
            f"--rdzv-conf=is_host={int(address == ADDRESSES[0])},read_timeout=10",
        ]
        made.start(["ip", "netns", "exec", namespace, *torchrun(run(*words, "hw.nodes=2"), *local)])
    return made


def cut() -> None:
    """Cut the network between the two hosts."""
    _ip("-n", NAMESPACES[1], "link", "set", "vb", "down")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
