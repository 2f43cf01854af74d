"""Speech recognition: write down the words of a recording; the quality is the word error rate on the test split.

A prediction is the words of one test recording, upper case, separated by blanks. Arrays (both scales), for `train_` and
`test_`:
- `features` uint8 [frames, mels], all recordings one after another (see `recording.log_mel`), and `frames` int32
  [recordings], how many each has;
- `train_labels` uint8, the words of all transcripts one after another, 1 for the first of `units` (0 is left for the
  blank of CTC), and `train_lengths` int32 [recordings], how many each has;
- `units`, the words of the training transcripts, and `answer_texts`, the transcripts of the test split: uint8, ASCII,
  one to a line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suite.errors import BadPrediction
from tasks.speech import an4, digits
from tasks.speech.recording import joined, log_mel

METRICS = {"wer": (0.0, math.inf)}  # insertions can make it more than 1
LONGEST = 1000  # characters of a prediction; the longest transcript has under 100


def prepare(scale: str, files: Path) -> dict[str, np.ndarray]:
    """The arrays of `mini` (espeak-ng's digit strings, 800 + 200) or `small` (AN4, 948 + 130 recordings)."""
    if scale == "mini":
        train, test = digits.recordings()
    else:
        train, test = (an4.recordings(files / "an4", part) for part in ("train", "test"))
    words = [recording.text.split() for recording in train]
    units = sorted({word for line in words for word in line})
    label = {unit: number for number, unit in enumerate(units, 1)}
    return {
        **joined("train", log_mel(train)),
        "train_labels": np.array([label[word] for line in words for word in line], np.uint8),
        "train_lengths": np.array([len(line) for line in words], np.int32),
        **joined("test", log_mel(test)),
        "units": lines_array(units),
        "answer_texts": lines_array([recording.text for recording in test]),
    }


def lines_array(lines: Sequence[str]) -> np.ndarray:
    """`lines` as the bytes of one ASCII text; `bytes(array).decode().split("\\n")` is the inverse."""
    return np.frombuffer("\n".join(lines).encode("ascii"), np.uint8)


def split_sizes(data: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Recordings of each split."""
    return {"train_samples": len(data["train_frames"]), "eval_samples": len(data["test_frames"])}


def score(predictions: Sequence[Any], data: Mapping[str, np.ndarray]) -> dict[str, float]:
    """`{"wer": word errors / words}`: substitutions, deletions and insertions, by jiwer.

    Raises BadPrediction for a prediction that is not a text of at most `LONGEST` characters, or when there is not one
    for each test recording.
    """
    import jiwer

    texts = bytes(data["answer_texts"]).decode("ascii").split("\n")
    if len(predictions) != len(texts):
        raise BadPrediction(0, f"{len(predictions)} predictions for {len(texts)} test recordings")
    for line, prediction in enumerate(predictions, 1):
        if not isinstance(prediction, str):
            raise BadPrediction(line, f"{prediction!r:.40} is not a text")
        if len(prediction) > LONGEST:
            raise BadPrediction(line, f"{len(prediction)} characters, at most {LONGEST} are scored")
    return {"wer": float(jiwer.wer(texts, list(predictions)))}
