"""Test recordings whose features are made in other ways: another sample rate, another window, hop or scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from scipy.signal import resample_poly

from tasks.speech import an4, digits
from tasks.speech.recording import Recording, joined, log_mel

TELEPHONE_HZ = 8000
LOUDER = 2  # times


def alterations(
    scale: str, files: Path, data: Mapping[str, np.ndarray]
) -> dict[str, Callable[[], dict[str, np.ndarray]]]:
    """See `suite.store.modules.Altering`."""

    def recordings() -> list[Recording]:
        return digits.recordings()[1] if scale == "mini" else an4.recordings(files / "an4", "test")

    def of(alter: Callable[[Recording], Recording]) -> dict[str, np.ndarray]:
        return joined("test", log_mel([alter(each) for each in recordings()]))

    def levels(alter: Callable[[np.ndarray], np.ndarray]) -> dict[str, np.ndarray]:
        return {"test_features": np.rint(alter(data["test_features"].astype(float))).clip(0, 255).astype(np.uint8)}

    return {
        "through 8 kHz and back": partial(of, _through_telephone),
        "rate told a tenth too high": partial(of, lambda each: each._replace(rate=round(each.rate * 1.1))),
        "resampled to 8 kHz, told so": partial(of, _telephone),
        "twice as loud": partial(of, lambda each: each._replace(samples=_clipped(each.samples * float(LOUDER)))),
        "samples of 8 bits": partial(of, lambda each: each._replace(samples=each.samples & -256)),
        "logarithm of base 10": partial(levels, lambda features: features / np.log(10)),
        "amplitudes in place of energies": partial(levels, lambda features: features / 2),
        "each recording's mean taken away": lambda: _centred(data),
    }


def _telephone(recording: Recording) -> Recording:
    samples = resample_poly(recording.samples.astype(float), TELEPHONE_HZ, recording.rate)
    return recording._replace(samples=_clipped(samples), rate=TELEPHONE_HZ)


def _through_telephone(recording: Recording) -> Recording:
    samples = resample_poly(_telephone(recording).samples.astype(float), recording.rate, TELEPHONE_HZ)
    return recording._replace(samples=_clipped(samples))


def _clipped(samples: np.ndarray) -> np.ndarray:
    return np.asarray(np.rint(samples).clip(-(2**15), 2**15 - 1), np.int16)


def _centred(data: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Each recording's mean spectrum replaced by that of all recordings."""
    features, ends = data["test_features"].astype(float), np.cumsum(data["test_frames"])[:-1]
    whole = features.mean(0)
    centred = [each - each.mean(0) + whole for each in np.split(features, ends)]
    return {"test_features": np.rint(np.concatenate(centred)).clip(0, 255).astype(np.uint8)}
