"""Speech from text by espeak-ng, the library that the `espeakng-loader` wheel ships; no system package is used."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from suite.errors import UserError
from suite.store.processes import Pool

RATE = 22050  # Hz
_SYNCHRONOUS = 2  # AUDIO_OUTPUT_SYNCHRONOUS: espeak_Synth returns when every sample has been delivered
_WORDS_PER_MINUTE, _PITCH = 1, 3  # espeak_PARAMETER
_UTF8 = 1  # espeakCHARS_UTF8
_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int16), ctypes.c_int, ctypes.c_void_p)


class Utterance(NamedTuple):
    """A `text` in a `voice` (`en-us+f2`), at `rate` words a minute (80 to 450) and `pitch` 0 to 100."""

    text: str
    voice: str
    rate: int
    pitch: int


def speak(utterances: list[Utterance]) -> list[np.ndarray]:
    """Samples int16 [N] at `RATE` of each utterance, the same bytes whenever the list is the same.

    The library keeps the phase of its oscillators from one utterance to the next, even when it is initialised again, so
    only in a process of its own is the first one always the same.
    Raises UserError for a voice that the library does not have.
    """
    with Pool(1) as alone:
        return alone.submit(_speak, utterances).result()


def _speak(utterances: list[Utterance]) -> list[np.ndarray]:
    import espeakng_loader

    library = ctypes.CDLL(espeakng_loader.get_library_path())
    library.espeak_Synth.argtypes = [
        ctypes.c_char_p,
        ctypes.c_size_t,
        *[ctypes.c_uint, ctypes.c_int, ctypes.c_uint, ctypes.c_uint],
        *[ctypes.c_void_p, ctypes.c_void_p],
    ]
    data = espeakng_loader.get_data_path()
    if (rate := library.espeak_Initialize(_SYNCHRONOUS, 0, data.encode(), 0)) != RATE:
        raise UserError(f"{data}: espeak-ng answers {rate}, expected a rate of {RATE}: reinstall espeakng-loader.")
    library.espeak_ng_SetRandSeed(0)
    chunks: list[np.ndarray] = []

    def receive(samples: Any, count: int, _events: int | None) -> int:
        if count:
            chunks.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    callback = _Callback(receive)  # the library keeps only its address
    library.espeak_SetSynthCallback(callback)
    spoken = []
    for utterance in utterances:
        if library.espeak_SetVoiceByName(utterance.voice.encode()) != 0:
            raise UserError(f"{data}: no voice {utterance.voice!r}: pip install -c constraints.txt espeakng-loader.")
        library.espeak_SetParameter(_WORDS_PER_MINUTE, utterance.rate, 0)
        library.espeak_SetParameter(_PITCH, utterance.pitch, 0)
        text = utterance.text.encode()
        library.espeak_Synth(text, len(text) + 1, 0, 0, 0, _UTF8, None, None)
        spoken.append(np.concatenate(chunks))
        chunks.clear()
    return spoken
