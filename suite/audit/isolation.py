"""What keeps a stranger's code to itself: a process without network that writes to its own folder only.

Linux's namespaces do it, without privileges, by util-linux's `unshare` and `setpriv`: no network but a dead loopback,
no sight of other processes, every file system read-only but the current folder and /dev, shared memory of its own,
folders hidden behind empty ones, and no capability to undo any of it. A socket in the file system leads to its service
whatever is read-only: /run is hidden, and /dev/null lies on each that is open elsewhere.
What is left: it reads what its user can read elsewhere, reaches a socket elsewhere than in /run that is opened after it
began or by a relative path, and uses the accelerators.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

_NAMESPACES = ("--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")

# $1 is the number of folders and sockets to hide, which follow it; then comes the command. A socket that has gone by
# then needs no hiding.
_SCRIPT = r"""
set -e
here=$PWD
mount --bind "$here" "$here"
while read -r _ _ _ _ at options _; do
    at=$(printf '%b' "$at")
    case $at in "$here" | /proc | /proc/* | /dev | /dev/*) continue ;; esac
    case $options in rw*) mount -o "remount,bind,ro${options#rw}" "$at" ;; esac
done </proc/self/mountinfo
hidden=$1
shift
while [ "$hidden" -gt 0 ]; do
    if [ -d "$1" ]; then mount -t tmpfs -o ro none "$1"; else mount --bind /dev/null "$1"; fi || [ ! -e "$1" ]
    shift
    hidden=$((hidden - 1))
done
if [ -d /dev/shm ]; then mount -t tmpfs none /dev/shm; fi
cd "$here"
exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "$@"
"""


def isolated(hidden: Sequence[Path] = ()) -> list[str]:
    """The words before a command that isolate it in the current folder, where the folders `hidden` are empty."""
    every = [*hidden, *filter(Path.is_dir, [Path("/run")]), *_sockets()]
    return ["unshare", *_NAMESPACES, "sh", "-c", _SCRIPT, "sh", str(len(every)), *map(str, every)]


def _sockets() -> list[Path]:
    """The sockets in the file system that this user could connect to, but for those in /run."""
    listed = [line.split(maxsplit=7) for line in os.fsdecode(Path("/proc/net/unix").read_bytes()).splitlines()]
    paths = {Path(words[7]) for words in listed if len(words) == 8 and words[7].startswith("/")}
    return sorted(path for path in paths if not path.is_relative_to("/run") and os.access(path, os.W_OK))


@cache
def why_not() -> str | None:
    """Why this system does not isolate a process of its user, None where it does: tried, with one that would escape."""
    with tempfile.TemporaryDirectory(prefix="suite-audit-", dir="/tmp") as name:  # a socket's path is short
        here, outside = Path(name, "here"), Path(name, "outside")
        here.mkdir()
        attempt = 'echo > inside && ! echo > "$0" && [ ! -S "$0.socket" ] && [ ! -e /proc/sys/net/ipv4/conf/eth0 ]'
        try:
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(f"{outside}.socket")
                words = [*isolated(), "sh", "-c", attempt, str(outside)]
                done = subprocess.run(words, cwd=here, capture_output=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return None if done.returncode == 0 else said[0] if said else "the process was not kept to its folder"
