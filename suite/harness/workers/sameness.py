"""What a worker reports of its machine, its software and the suite's code, all of which must match the leader's."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import socket
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from suite.config.folder import ROOT
from suite.measure.machine import ALIKE, detect
from suite.record.git import CHECKOUT
from suite.record.system import versions


def told() -> dict[str, Any]:
    """This worker's host, process, machine, software and code, as plain values."""
    found = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "machine": asdict(detect()),
        "python": platform.python_version(),
        "software": versions(),
        "code": _code_sha256(),
    }
    plain: dict[str, Any] = json.loads(json.dumps(found))  # as the other end receives it
    return plain


def difference(leader: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """The first difference of another worker's machine, software or code from the leader's, in a line; None if none."""
    return next(_differences(leader, other), None)


def _differences(leader: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    if leader["code"] != other["code"]:
        yield "other code of the suite than the leader: bring the same checkout to all machines"
    if leader["python"] != other["python"]:
        yield f"Python {other['python']}, the leader {leader['python']}"
    ours, theirs = leader["software"], other["software"]
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            has, leads = (f"{name} {found}" if found else f"no {name}" for found in (theirs.get(name), ours.get(name)))
            yield f"{has}, the leader {leads}: install the same packages on all machines (constraints.txt)"
    for name in ALIKE:
        ours, theirs = leader["machine"][name], other["machine"][name]
        if ours != theirs:
            yield f"{name} {theirs}, the leader {ours}: the machines of a run are alike"


def _code_sha256() -> str:
    found = hashlib.sha256()
    for each in CHECKOUT:
        place = ROOT / each
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.suffix in (".py", ".yaml", ".txt", ".toml") and path.is_file():
                found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return found.hexdigest()
