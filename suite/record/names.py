"""Check names: of submitters and rounds, no two of which may look alike, of implementations, and of witnesses."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import urlsplit

MAX_LENGTH = 100
MAX_URL = 200  # characters
REFERENCE = "reference"  # stands for the name of the suite's own implementation
# Letters and marks that show nothing, though their category says otherwise (Unicode: Default_Ignorable_Code_Point).
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# Scripts that share shapes of letters.
_ALIKE = {"LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU"}


def problem(name: str, longest: int = MAX_LENGTH) -> str:
    """Why `name` cannot name a submitter, or be a round's token of at most `longest` characters; empty if it can."""
    if not 0 < len(name) <= longest:
        return f"is not of 1 to {longest} characters"
    for letter in name:
        if not letter.isprintable() or _INVISIBLE.match(letter):
            return f"holds a character that nobody sees, U+{ord(letter):04X}"
    if name != name.strip(" ") or "  " in name:
        return "has a space too many"
    if name != unicodedata.normalize("NFKC", name):
        return f"is written in other characters than {unicodedata.normalize('NFKC', name)!r}, as which it is read"
    for word in re.findall(r"[^\W\d_]+", name):
        scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in word} & _ALIKE
        if len(scripts) > 1:
            return f"mixes letters that look alike, {' and '.join(sorted(scripts))}, in one word"
    return ""


def folder(name: str) -> str:
    """A submitter's name as that of a folder: hyphens stand for all but letters, digits, dots and underscores."""
    return re.sub(r"[^\w.]+", "-", name).strip("-.")


def is_implementation(name: str) -> bool:
    """Whether `name` can name an implementation that is not the reference."""
    return re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}", name) is not None and name.lower() != REFERENCE


def host_of(url: str) -> str | None:
    """The host of a witness's URL; None if it is not a valid HTTP or HTTPS URL, or holds a user or password."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        return None
    return parts.hostname if sound and url.isprintable() and len(url) <= MAX_URL else None
