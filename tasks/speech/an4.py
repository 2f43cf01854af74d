"""Reads AN4 as the CMU Sphinx group distributes it: wav files, lists of their names, transcripts."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
from scipy.io import wavfile

from suite.errors import UserError
from tasks.speech.recording import Recording

RATE = 16000
_LINE = re.compile(r"(?:<s>)?(?P<text>[A-Z ]*)(?:</s>)? *\((?P<name>\S+)\)")


def recordings(folder: Path, part: str) -> list[Recording]:
    """The recordings of `part`, `train` or `test`, in the order of its list.

    Raises UserError that names the file, and in a list the line, of what cannot be read.
    """
    ids, transcripts = (folder / "etc" / f"an4_{part}.{kind}" for kind in ("fileids", "transcription"))
    names, lines = _lines(ids), _lines(transcripts)
    if len(names) != len(lines):
        raise UserError(f"{transcripts}: {len(lines)} transcripts, expected {len(names)}, one for each line of {ids}.")
    if not names:
        raise UserError(f"{ids}: lists no recordings: fetch the data again.")
    heard = []
    for number, (name, line) in enumerate(zip(names, lines, strict=True), 1):
        where = f"{transcripts}:{number}"
        match = _LINE.fullmatch(line)
        if match is None or match["name"] != name.rpartition("/")[2]:
            raise UserError(f"{where}: found {line[:80]!r}, expected WORDS ({name.rpartition('/')[2]}).")
        text = " ".join(match["text"].split())
        if not text:
            raise UserError(f"{where}: empty transcript of {name}: every utterance needs words.")
        wav = folder / "wav" / f"{name}.wav"
        if not wav.is_file():
            raise UserError(f"{wav}: no such file, but {ids}:{number} names it: fetch the data again.")
        heard.append(Recording(read_wav(wav), RATE, text))
    return heard


def read_wav(path: Path) -> np.ndarray:
    """Samples int16 [N] of a mono PCM file at `RATE`. Raises UserError for any other file, also for a truncated one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", wavfile.WavFileWarning)  # that the data ends before its header says so
            rate, samples = wavfile.read(path)
    except Exception as error:  # scipy raises half a dozen kinds for a damaged header
        raise UserError(f"{path}: not a whole wav file ({error}): fetch the data again.") from error
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    if (rate, channels, samples.dtype) != (RATE, 1, np.int16):
        raise UserError(
            f"{path}: {channels} channel(s) of {samples.dtype} at {rate} Hz, expected 1 of int16 at {RATE} Hz: "
            f"sox IN -r {RATE} -c 1 -b 16 OUT."
        )
    if not samples.size:
        raise UserError(f"{path}: no samples: fetch the data again.")
    checked: np.ndarray = samples
    return checked


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error}): fetch the data again.") from error
