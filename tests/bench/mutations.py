"""Mutations of real evidence and logs: of bytes, of lines, of values in JSON and YAML, of archives."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from suite.record import evidence
from suite.record.mllog import TOKEN
from tests.rules.editor import Evidence

TOKENS = (
    *(b"\0", b"\n", b"\r\n", b"\xff\xfe", b"{", b"[" * 60, b'"', b"NaN", b"-1e999", b"9" * 5000, b"1" * 30, b"../../x"),
    *(b"\xe2\x80\xa8", b"\xe2\x80\xae", b"<script>", b"=1+1", b"&a [*a]", b"!!python/name:os.system", b"<<: ", b"null"),
    *(TOKEN.encode(), b"a" * 5000, b"[" * 100_000, b"[[],[]," * 100_000, b'{"":0},' * 100_000),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 2**31, 2**63 - 1, 10**400, 1e308, 5e-324, float("nan"), float("-inf"), ""),
    *(
        "x" * 3000,
        "\x1b[2J\u202e\ud800",
        "<img src=x>",
        "../..",
        [],
        {},
        [[]] * 1000,
        [[[[[[[1]]]]]]],
        {"": {}},
        {"a": [0]},
    ),
)


def of_bytes(draw: random.Random, content: bytes) -> bytes:
    """One to four changes at random places."""
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(content) + 1)
        until = min(len(content), at + draw.choice((1, 1, 8, 200, len(content))))
        match draw.randrange(5):
            case 0:
                content = content[:at] + bytes([draw.randrange(256)]) + content[at + 1 :]
            case 1:
                content = content[:at] + content[until:]
            case 2:
                content = content[:at] + draw.choice(TOKENS) + content[at:]
            case 3:
                content = content[:until] + content[at:until] * draw.choice((1, 2, 100)) + content[until:]
            case 4:
                content = content[:at]
        content = content[: 40 << 20]
    return content


def of_lines(draw: random.Random, content: bytes) -> bytes:
    """Lines left out, moved, repeated, or with a number changed."""
    lines = content.split(b"\n")
    for _ in range(draw.randint(1, 3)):
        at, to = draw.randrange(len(lines)), draw.randrange(len(lines))
        match draw.randrange(4):
            case 0:
                lines[at : at + draw.choice((1, 10))] = []
            case 1:
                lines[at], lines[to] = lines[to], lines[at]
            case 2:
                lines[at:at] = [lines[to]] * draw.choice((1, 2, 3000))
            case 3:
                number = repr(draw.choice((0, -1, 1e15, 2**62, 0.1))).encode()
                lines[at] = re.sub(rb"\d+(\.\d+)?", number, lines[at], count=draw.randint(1, 3))
        lines = lines[: 1 << 18] or [b""]
    return b"\n".join(lines)


def of_values(draw: random.Random, content: bytes) -> bytes:
    """A value changed where a line, or the whole, is JSON; bytes elsewhere."""
    whole = _changed(draw, content)
    if whole is not None:
        return whole
    lines = content.split(b"\n")
    for at in draw.sample(range(len(lines)), min(len(lines), draw.randint(1, 5))):
        before, token, text = lines[at].rpartition(TOKEN.encode())
        changed = _changed(draw, text)
        if changed is not None:
            lines[at] = before + token + changed
    return b"\n".join(lines)


def _changed(draw: random.Random, text: bytes) -> bytes | None:
    """The JSON text with one value, or one key, another; None if it is no JSON."""
    try:
        root = [json.loads(text)]
    except (ValueError, RecursionError):
        return None
    place: Any = root
    while True:
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        if not keys:
            break
        key = draw.choice(keys)
        if not isinstance(place[key], list | dict) or not place[key] or draw.random() < 0.15:
            if isinstance(place, dict) and draw.random() < 0.3:
                place[draw.choice(("", "seed", "x" * 300, "value"))] = place.pop(key)
            else:
                place[key] = draw.choice(VALUES)
            break
        place = place[key]
    return json.dumps(root[0]).encode()


WAYS: tuple[Callable[[random.Random, bytes], bytes], ...] = (of_bytes, of_lines, of_values, of_values)


def mutate_file(draw: random.Random, path: Path) -> None:
    """Change a file's content in some way."""
    path.write_bytes(draw.choice(WAYS)(draw, path.read_bytes()))


def mutate_run(draw: random.Random, folder: Path) -> bool:
    """Change a run's evidence in one file or two; whether it was sealed again, as a forger would."""
    names = [name for name in (*evidence.SEALED, evidence.MANIFEST) if (folder / name).exists()]
    for name in draw.sample(names, draw.choice((1, 1, 2))):
        mutate_file(draw, folder / name)
    if draw.random() < 0.5:
        return False
    try:
        _sealed(Evidence(folder))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):  # no longer a log that can be written
        Evidence(folder).seal()
    return True


def _sealed(run: Evidence) -> None:
    """Let the log name the configuration and the predictions that are there, chain and seal it."""
    records = run.records()
    for record in records:
        if record["key"] == "suite_config":
            record["value"] = evidence.digest((run.folder / evidence.CONFIG).read_bytes()).sha256
    predictions = run.folder / evidence.PREDICTIONS
    for record in [each for each in records if each["key"] == "eval_accuracy"][-1:]:
        record["metadata"]["predictions_sha256"] = evidence.digest(predictions.read_bytes()).sha256
    run.write(records)
