"""What keeps a stranger's code to itself: a process without network that writes to its own folder only.

Linux's namespaces do it, without privileges, by util-linux's `unshare` and `setpriv`: no network but a dead loopback,
no sight of other processes, every file system read-only but the current folder and /dev, folders hidden behind empty
ones, and no capability to undo any of it.
What is left: it reads what its user can read elsewhere, and uses the accelerators.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

_NAMESPACES = ("--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")

# $1 is the number of folders to hide, which follow it; then comes the command.
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
    mount -t tmpfs -o ro none "$1"
    shift
    hidden=$((hidden - 1))
done
cd "$here"
exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "$@"
"""


def isolated(hidden: Sequence[Path] = ()) -> list[str]:
    """The words before a command that isolate it in the current folder, where the folders `hidden` are empty."""
    return ["unshare", *_NAMESPACES, "sh", "-c", _SCRIPT, "sh", str(len(hidden)), *map(str, hidden)]


@cache
def can_isolate() -> bool:
    """Whether this system isolates a process of its user: tried, with one that would write elsewhere."""
    with tempfile.TemporaryDirectory(prefix="suite-audit-") as name:
        here = Path(name, "here")
        here.mkdir()
        attempt = 'echo > inside && ! echo > "$0" && [ ! -e /proc/sys/net/ipv4/conf/eth0 ]'
        try:
            words = [*isolated(), "sh", "-c", attempt, str(Path(name, "outside"))]
            done = subprocess.run(words, cwd=here, capture_output=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0
