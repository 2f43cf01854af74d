"""What a recording is, and its features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from suite.errors import UserError

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
    """Features uint8 [frames, MELS] of recordings of one rate: levels of `STEP` nats above `FLOOR`, every `HOP_S`.

    In double precision, so that no processor's rounding reaches the levels and one sha256 holds for all machines.
    Raises UserError where torchaudio is missing, whichever framework trains.
    """
    try:
        import torch
        from torchaudio.transforms import MelSpectrogram
    except ImportError as error:
        raise UserError(
            f"preparing speech needs torchaudio ({error}): pip install -c constraints.txt '.[torch]', "
            "also to train in TensorFlow."
        ) from error
    rate = recordings[0].rate
    precision = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        window = round(WINDOW_S * rate)
        mel = MelSpectrogram(
            rate,
            n_fft=1 << (window - 1).bit_length(),
            win_length=window,
            hop_length=round(HOP_S * rate),
            f_min=_LOWEST_HZ,
            f_max=_HIGHEST_HZ,
            n_mels=MELS,
        )
        energies = [mel(torch.from_numpy(r.samples / 32768.0)).T.numpy() for r in recordings]
    finally:
        torch.set_default_dtype(precision)
    return [np.rint(np.log(np.maximum(e / FLOOR, 1)) / STEP).clip(0, 255).astype(np.uint8) for e in energies]
