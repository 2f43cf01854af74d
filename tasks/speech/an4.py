"""Reads AN4 as the CMU Sphinx group distributes it: wav files, lists of their names, transcripts."""

from __future__ import annotations

import re
from pathlib import Path

from scipy.io import wavfile

from tasks.speech.recording import Recording

_NO_WORDS = re.compile(r"</?s>|\(\S+\)")  # marks of the beginning and the end, the recording's name


def recordings(folder: Path, part: str) -> list[Recording]:
    """The recordings of `part`, `train` or `test`, in the order of its list."""
    names, transcripts = (
        (folder / "etc" / f"an4_{part}.{kind}").read_text("ascii").splitlines() for kind in ("fileids", "transcription")
    )
    heard = []
    for name, line in zip(names, transcripts, strict=True):
        rate, samples = wavfile.read(folder / "wav" / f"{name}.wav")
        heard.append(Recording(samples, rate, " ".join(_NO_WORDS.sub(" ", line).split())))
    return heard
