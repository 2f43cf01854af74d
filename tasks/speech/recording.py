"""What a recording is, and its features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

MELS = 64
WINDOW_S, HOP_S = 0.025, 0.010
FLOOR, STEP = 1e-6, 0.1  # energy below which nothing is told apart, and one level of a feature in nats
_LOWEST_HZ, _HIGHEST_HZ = 20.0, 8000.0


class Recording(NamedTuple):
    """`samples` int16 [N] at `rate` in Hz, and the words spoken, upper case, one blank between two."""

    samples: np.ndarray
    rate: int
    text: str


def log_mel(recordings: Sequence[Recording]) -> list[np.ndarray]:
    """Features uint8 [frames, MELS] of recordings: levels of `STEP` nats above `FLOOR`, every `HOP_S`.

    In double precision, so that no processor's rounding reaches the levels and one sha256 holds for all machines.
    """
    energies = [mel_energies(each.samples / 32768.0, each.rate) for each in recordings]
    return [np.rint(np.log(np.maximum(e / FLOOR, 1)) / STEP).clip(0, 255).astype(np.uint8) for e in energies]


def joined(split: str, features: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """The features of a split's recordings one after another, and how many frames each has."""
    return {
        f"{split}_features": np.concatenate(features),
        f"{split}_frames": np.array([len(each) for each in features], np.int32),
    }


def mel_energies(signal: np.ndarray, rate: int) -> np.ndarray:
    """Energies float64 [frames, MELS] of a signal float64 [N] at `rate` in Hz, in windows of `WINDOW_S` every `HOP_S`.

    They are those of torchaudio's MelSpectrogram: frames centred on their time, the signal mirrored at its ends; the
    power spectrum under a periodic Hann window; triangles spaced evenly on HTK's mel scale and not normalised.
    """
    from scipy.signal.windows import hann  # where it is used: it takes a second to import

    window, hop = round(WINDOW_S * rate), round(HOP_S * rate)
    size = 1 << (window - 1).bit_length()
    before = (size - window) // 2
    weights = np.pad(hann(window, sym=False), (before, size - window - before))
    frames = np.lib.stride_tricks.sliding_window_view(np.pad(signal, size // 2, "reflect"), size)[::hop]
    power = np.abs(np.fft.rfft(frames * weights)) ** 2
    return np.asarray(power @ _triangles(np.linspace(0, rate // 2, size // 2 + 1)))


def _triangles(frequencies: np.ndarray) -> np.ndarray:
    """Weights float64 [frequencies, MELS] of frequencies in Hz in each band: 1 at its middle, 0 at its neighbours'."""
    lowest, highest = 2595 * np.log10(1 + np.array([_LOWEST_HZ, _HIGHEST_HZ]) / 700)
    middles = 700 * (10 ** (np.linspace(lowest, highest, MELS + 2) / 2595) - 1)
    return np.stack([np.interp(frequencies, middles[i : i + 3], [0, 1, 0]) for i in range(MELS)], 1)
