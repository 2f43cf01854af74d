"""The embedded data of `mini`: digit strings spoken by espeak-ng."""

from __future__ import annotations

import hashlib

import numpy as np

from suite.errors import UserError
from tasks.speech.espeak import RATE, Utterance, speak
from tasks.speech.recording import Recording

WORDS = ("ZERO", "ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE")
ACCENTS = ("en-us", "en-gb-x-rp", "en-gb-scotland", "en-029")
TRAIN_VOICES = ("m1", "m2", "m3", "m4", "m6", "m7", "f1", "f2", "f5", "Andy", "linda", "steph")
TEST_VOICES = ("m5", "m8", "f3", "f4")
TRAIN, TEST = 800, 200
SAMPLES_SHA256 = "bc91d6d48d19c0db8630a88acf94ff504b75e471842ca874e7f12f783ddb2c43"


def recordings() -> tuple[list[Recording], list[Recording]]:
    """Training and test recordings of 3 to 7 digits each, 110 to 200 words a minute, at pitches 20 to 80.

    Raises UserError if the samples that espeak-ng makes do not have the sum `SAMPLES_SHA256`.
    """
    random = np.random.default_rng(0)
    utterances = [_utterance(random, TRAIN_VOICES) for _ in range(TRAIN)]
    utterances += [_utterance(random, TEST_VOICES) for _ in range(TEST)]
    spoken = speak(utterances)
    found = hashlib.sha256(b"".join(samples.astype("<i2").tobytes() for samples in spoken)).hexdigest()
    if found != SAMPLES_SHA256:
        raise UserError(
            f"espeak-ng: sha256 of the synthesised samples is {found}, expected {SAMPLES_SHA256}: "
            "pip install -c constraints.txt espeakng-loader."
        )
    heard = [Recording(samples, RATE, said.text) for samples, said in zip(spoken, utterances, strict=True)]
    return heard[:TRAIN], heard[TRAIN:]


def _utterance(random: np.random.Generator, voices: tuple[str, ...]) -> Utterance:
    words = random.choice(WORDS, random.integers(3, 8))
    voice = f"{random.choice(ACCENTS)}+{random.choice(voices)}"
    return Utterance(" ".join(words), voice, int(random.integers(110, 201)), int(random.integers(20, 81)))
