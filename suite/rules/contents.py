"""Parse the untrusted files of a run's evidence. Each parser raises MalformedError for content that is not valid."""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError

from suite.record import mllog
from suite.record.equivalence import Equivalence
from suite.record.evidence import SEALED, Digest
from suite.record.mllog import Line
from suite.record.parsing import MalformedError, check_count, decoded, is_sha256, json_object, json_value

MAX_PREDICTED = 1 << 24  # values; the longest text that is predicted word by word has 11 million
_HEX = re.compile("[0-9a-f]*")


def log_lines(content: bytes) -> list[Line]:
    """The lines of a log; one that is not well-formed says so in its `problem`."""
    check_count(content)
    lines, torn = mllog.whole_lines(content), content[content.rfind(b"\n") + 1 :]
    return [*lines, Line(len(lines) + 1, torn, problem="not ended by a newline")] if torn else lines


def predictions(content: bytes) -> list[Any]:
    """The predictions, one per line."""
    check_count(content, MAX_PREDICTED)
    made = []
    for at, raw in enumerate(content.removesuffix(b"\n").split(b"\n") if content else [], 1):
        try:
            if len(raw) > mllog.MAX_LINE_BYTES:
                raise MalformedError(f"longer than {mllog.MAX_LINE_BYTES} bytes")
            made.append(json_value(decoded(raw)))
        except MalformedError as error:
            raise MalformedError(str(error), at) from error
    return made


def manifest(content: bytes) -> tuple[str, dict[str, Digest]]:
    """The hash of the log's last line, and the digest of each file that is sealed."""
    made = json_object(content)
    head, files = made.get("log_head"), made.get("files")
    if made.get("version") != 1 or not isinstance(files, dict) or not is_sha256(head):
        raise MalformedError("not a manifest of version 1 with a log_head and files", 1)
    for name, entry in files.items():
        line = line_of(content, name)
        if name not in SEALED:
            raise MalformedError(f"seals {name!r:.100}, which is not one of {', '.join(SEALED)}", line)
        if not (
            isinstance(entry, dict)
            and entry.keys() == {"sha256", "size", "lines"}
            and is_sha256(entry["sha256"])
            and isinstance(entry["size"], int)
            and isinstance(entry["lines"], str)
            and _HEX.fullmatch(entry["lines"])
        ):
            raise MalformedError(f"does not give sha256, size and lines of {name}", line)
    return str(head), {name: Digest(**entry) for name, entry in files.items()}


def equivalence(content: bytes) -> Equivalence:
    """The comparison of a submitter's own implementation with the reference, as they report it."""
    try:
        return Equivalence.model_validate(json_object(content))
    except ValidationError as error:
        raise MalformedError(f"no comparison with the reference: {error.errors()[0]['msg']}") from error


def line_of(content: bytes, key: str) -> int | None:
    """The first line of a JSON text that holds `key` in quotes."""
    at = content.find(f'"{key}"'.encode(errors="replace"))
    return None if at < 0 else content.count(b"\n", 0, at) + 1
