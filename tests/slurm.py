"""A real SLURM on this machine: munged, slurmctld and two slurmd, in a folder and at ports of their own."""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.waiting import FOREVER_S

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "squeue", "sinfo")
_CONF = """\
ClusterName=suite
SlurmctldHost={host}
SlurmUser={user}
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=node[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{ports[1]}-{ports[2]}] CPUs=1 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str | None:
    """Why no SLURM can be started here, None if one can."""
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"SLURM needs {', '.join(missing)}, of Debian's slurm-wlm and munge"
    return "slurmd needs root" if os.geteuid() else None


@contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Start two nodes of one CPU; yield, once they are idle, the environment in which srun and the others find them."""
    key, state, conf = folder / "munge.key", folder / "state", folder / "slurm.conf"
    state.mkdir()
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    conf.write_text(_CONF.format(host=socket.gethostname(), user=getpass.getuser(), folder=folder, ports=_ports()))
    environ = {**os.environ, "SLURM_CONF": str(conf)}
    munged = [f"--{name}={folder}/munge{end}" for name, end in (
        ("key-file", ".key"), ("socket", ".socket"), ("pid-file", "d.pid"), ("seed-file", ".seed"), ("log-file", ".log")
    )]  # fmt: skip
    commands = [["munged", "--foreground", "--force", *munged], ["slurmctld", "-D", "-f", str(conf)]]
    commands += [["slurmd", "-D", "-f", str(conf), "-N", node] for node in ("node1", "node2")]
    with ExitStack() as stack, (folder / "said").open("wb") as said:
        for command in commands:
            process = subprocess.Popen(command, env=environ, stdout=said, stderr=said)
            stack.callback(_end, process)
        until = time.monotonic() + FOREVER_S
        while _idle(environ) < 2:
            assert time.monotonic() < until, (folder / "slurmctld.log").read_text() + (folder / "said").read_text()
            time.sleep(0.5)
        yield environ


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:  # slurmd may wait for a step that nobody ends any more
        process.kill()
        process.wait()


def _idle(environ: dict[str, str]) -> int:
    asked = ["sinfo", "--noheader", "--Node", "--format=%T"]
    told = subprocess.run(asked, env=environ, capture_output=True, text=True, check=False)
    return told.stdout.split().count("idle")


def _ports() -> tuple[int, int, int]:
    """A free port, and two that lie side by side."""
    with ExitStack() as stack:
        first = stack.enter_context(socket.create_server(("", 0))).getsockname()[1]
        for port in range(21_000, 29_000, 2):
            try:
                for each in (port, port + 1):
                    stack.enter_context(socket.create_server(("", each)))
            except OSError:
                continue
            return first, port, port + 1
    raise OSError("no two ports side by side are free")
