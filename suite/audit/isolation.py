"""The isolation of a stranger's code: a process without network that can write to its own folder only.

Linux namespaces isolate it, without privileges, through util-linux's `unshare` and `setpriv`. The process has no
network but a dead loopback, sees no other processes, and has its own shared memory. Every file system is read-only
except the current folder and /dev, hidden folders appear empty, and it has no capability to undo any of this. A socket
in a read-only file system can still be connected to, so /run is hidden and /dev/null covers each open one elsewhere.
The process can still read whatever else its user can read, reach a socket outside /run that is opened after it started
or by a relative path, and use the accelerators.
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
    """The words to put before a command to isolate it in the current folder, with the folders `hidden` empty."""
    every = [*hidden, *filter(Path.is_dir, [Path("/run")]), *_sockets()]
    return ["unshare", *_NAMESPACES, "sh", "-c", _SCRIPT, "sh", str(len(every)), *map(str, every)]


def _sockets() -> list[Path]:
    """The sockets in the file system that this user could connect to, but for those in /run."""
    listed = [line.split(maxsplit=7) for line in os.fsdecode(Path("/proc/net/unix").read_bytes()).splitlines()]
    paths = {Path(words[7]) for words in listed if len(words) == 8 and words[7].startswith("/")}
    return sorted(path for path in paths if not path.is_relative_to("/run") and os.access(path, os.W_OK))


@cache
def why_not() -> str | None:
    """Why this system cannot isolate a process of its user, None if it can: tried with a process that would escape."""
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
