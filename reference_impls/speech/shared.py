"""What both frameworks share: initial parameters, what is drawn for each step, schedule, decoding, in numpy.

Everything is a function of the seed and of the step, so a checkpoint needs no random state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from reference_impls.recipe import Recipe
from reference_impls.shares import part, steps
from suite.harness.implementation import Device

SPREAD = 25.0  # of the features' levels, roughly, once each recording's mean spectrum is taken off
SUBSAMPLING = 8  # frames of features to one frame of output
FRAME_RATE = 100  # frames of features a second
LONGEST, COMPILED = 768, 256  # frames: `build` compiles for the multiples of the second up to the first
NOT_COMPILED = 16  # frames: where any length will do, batches are padded to a multiple of it
EVAL_BATCH = 26
_INIT_STREAM = 1_000_001  # a random stream apart from those of the epochs
_WARPS = 9  # frequency warps from 1 - frequency_warp to 1 + frequency_warp


@dataclass(frozen=True)
class Hyperparameters(Recipe):
    """The fixed recipe; names follow MLPerf's log keys where there is one."""

    global_batch_size: int
    epochs: int  # the length of the learning-rate schedule
    channels: tuple[int, int, int]  # of the three convolutions that each halve time and frequency
    width: int
    dilations: tuple[int, ...]  # one residual block each
    dropout: float  # of a hidden channel in a whole recording
    opt_base_learning_rate: float
    opt_warmup_epochs: int
    opt_adamw_beta_1: float
    opt_adamw_beta_2: float
    opt_adamw_epsilon: float
    opt_weight_decay: float
    opt_gradient_clip_norm: float
    speed: float  # each recording is played at 1 - speed to 1 + speed times its speed
    frequency_warp: float  # and its mel axis is stretched by up to this share (Jaitly & Hinton, 2013)
    frequency_masks: int  # SpecAugment (Park et al., 2019)
    frequency_mask_mels: int
    time_masks_per_second: float
    time_mask_frames: int

    def __post_init__(self) -> None:
        self.require_longer("epochs", "opt_warmup_epochs")

    def learning_rate(self, epoch: float) -> float:
        """Linear from 0 over the warm-up, then a half cosine to 0 at the end of `epochs`."""
        if epoch < self.opt_warmup_epochs:
            return self.opt_base_learning_rate * epoch / self.opt_warmup_epochs
        done = min((epoch - self.opt_warmup_epochs) / (self.epochs - self.opt_warmup_epochs), 1.0)
        return float(self.opt_base_learning_rate * (1 + np.cos(np.pi * done)) / 2)


def initial_parameters(hyper: Hyperparameters, mels: int, labels: int, seed: int) -> dict[str, np.ndarray]:
    """Parameters by PyTorch's names, in its layouts.

    He's normal initialisation; the last matrix of each residual block starts at zero, so each block at the identity.
    """
    random = np.random.default_rng([seed, _INIT_STREAM])
    parameters: dict[str, np.ndarray] = {}

    def layer(name: str, *shape: int, gain: float = 2.0) -> None:
        """Draw as [..., in, out]; keep as [out, in, ...]."""
        drawn = random.normal(0, np.sqrt(gain / np.prod(shape[:-1])), shape)
        parameters[f"{name}.weight"] = np.moveaxis(drawn, (-1, -2), (0, 1))
        parameters[f"{name}.bias"] = np.zeros(shape[-1])

    def norm(name: str) -> None:
        parameters[f"{name}.weight"], parameters[f"{name}.bias"] = np.ones(hyper.width), np.zeros(hyper.width)

    for i, (inputs, outputs) in enumerate(pairwise((1, *hyper.channels))):
        layer(f"convs.{i}", 3, 3, inputs, outputs)
    layer("project", mels // SUBSAMPLING * hyper.channels[-1], hyper.width, gain=1.0)
    for i in range(len(hyper.dilations)):
        norm(f"blocks.{i}.norm")
        layer(f"blocks.{i}.inner", 3 * hyper.width, 2 * hyper.width)
        layer(f"blocks.{i}.outer", 2 * hyper.width, hyper.width, gain=0.0)
    norm("norm")
    layer("head", hyper.width, labels, gain=1.0)
    return {name: np.ascontiguousarray(value, np.float32) for name, value in parameters.items()}


@dataclass(frozen=True)
class Batch:
    """What the host sends for a step: which recordings, and how each is augmented.

    `recordings` int64 [B]; `speed` float32 [B]; `frames` int32 [B], of features at that speed; `warp` int64 [B], the
    row of `warps`; `bands` int32 [B, n, 2] and `spans` int32 [B, m, 2], first and number of the mels and frames that
    are hidden. `time` is the common length T of the features, the same for many steps. `epoch` is the position in
    epochs before the step.
    """

    recordings: np.ndarray
    speed: np.ndarray
    frames: np.ndarray
    warp: np.ndarray
    bands: np.ndarray
    spans: np.ndarray
    time: int
    epoch: float


class Batches:
    """The training batches of one seed, in order, from any step on.

    An epoch leaves out random recordings, fewer than a batch. Recordings of similar length share a batch.
    """

    def __init__(self, frames: np.ndarray, mels: int, hyper: Hyperparameters, seed: int, multiple: int) -> None:
        self.frames, self.mels, self.hyper, self.seed, self.multiple = frames, mels, hyper, seed, multiple
        self.steps_per_epoch = steps(len(frames), hyper.global_batch_size, "recordings")

    def iterate(self, step: int) -> Iterator[Batch]:
        """Batches without end, from `step` on."""
        size = self.hyper.global_batch_size
        while True:
            epoch, within = divmod(step, self.steps_per_epoch)
            random = np.random.default_rng([self.seed, epoch])
            count = len(self.frames)
            speed = random.uniform(1 - self.hyper.speed, 1 + self.hyper.speed, count)
            drawn = random.permutation(count)[: self.steps_per_epoch * size]
            by_length = drawn[np.argsort(self.frames[drawn] / speed[drawn], kind="stable")]
            order = random.permutation(self.steps_per_epoch)
            for position in order[within:]:
                chosen = by_length[position * size : (position + 1) * size]
                yield self._batch(chosen, speed[chosen], np.random.default_rng([self.seed, epoch, int(position)]), step)
                step += 1

    def _batch(self, chosen: np.ndarray, speed: np.ndarray, random: np.random.Generator, step: int) -> Batch:
        hyper = self.hyper
        frames = np.maximum((self.frames[chosen] / speed).astype(np.int32), 1)
        time = padded(frames.max(), self.multiple)
        return Batch(
            recordings=chosen,
            speed=speed.astype(np.float32),
            frames=frames,
            warp=random.integers(0, _WARPS, len(chosen)),
            bands=_bands(len(chosen), self.mels, hyper, random),
            spans=_spans(frames, time, hyper, random),
            time=time,
            epoch=step / self.steps_per_epoch,
        )


def _bands(batch: int, mels: int, hyper: Hyperparameters, random: np.random.Generator) -> np.ndarray:
    """SpecAugment's bands of mels: first and number, int32 [B, n, 2]."""
    bands = np.zeros((batch, hyper.frequency_masks, 2), np.int32)
    for band in bands.transpose(1, 2, 0):
        band[1] = random.integers(0, hyper.frequency_mask_mels + 1, batch)
        band[0] = random.integers(0, mels - band[1] + 1)
    return bands


def _spans(frames: np.ndarray, time: int, hyper: Hyperparameters, random: np.random.Generator) -> np.ndarray:
    """SpecAugment's spans of frames: first and number, int32 [B, m, 2]; m depends on `time` alone."""
    spans = np.zeros((len(frames), spans_of(time, hyper), 2), np.int32)
    masks = np.floor(hyper.time_masks_per_second * frames / FRAME_RATE + random.random(len(frames))).astype(int)
    for i, span in enumerate(spans.transpose(1, 2, 0)[: masks.max(initial=0)]):
        span[1] = np.where(i < masks, random.integers(0, hyper.time_mask_frames + 1, len(frames)), 0)
        span[0] = random.integers(0, np.maximum(frames - span[1], 0) + 1)
    return spans


def spans_of(time: int, hyper: Hyperparameters) -> int:
    """How many spans a recording of `time` frames can have."""
    return int(hyper.time_masks_per_second * time / FRAME_RATE) + 1


def warps(mels: int, hyper: Hyperparameters) -> np.ndarray:
    """Matrices float32 [warps, mels, mels] that stretch the mel axis from 1 - frequency_warp to 1 + frequency_warp.

    Band m of the features' product with one is their band m * stretch.
    """
    stretch = 1 + hyper.frequency_warp * np.linspace(-1, 1, _WARPS)
    position = np.minimum(np.arange(mels) * stretch[:, None], mels - 1)[:, None]
    matrices: np.ndarray = np.maximum(1 - np.abs(np.arange(mels)[:, None] - position), 0).astype(np.float32)
    return matrices


def rows(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """`values`, cut into rows of the given lengths, as an int32 matrix padded with zeros."""
    matrix = np.zeros((len(lengths), lengths.max()), np.int32)
    matrix[np.arange(lengths.max()) < np.asarray(lengths)[:, None]] = values
    return matrix


def starts(frames: np.ndarray) -> np.ndarray:
    """Where each recording begins, int64, if they follow one another."""
    begins: np.ndarray = np.cumsum(frames, dtype=np.int64) - frames
    return begins


def padded(frames: int, multiple: int) -> int:
    """`frames` rounded up to a multiple of `multiple`, so that there are few shapes."""
    return -(-int(frames) // multiple) * multiple


def output_frames(frames: np.ndarray) -> np.ndarray:
    """The number of output frames, int32, for this number of frames of features."""
    return np.ceil(frames / SUBSAMPLING).astype(np.int32)


def evaluated(data: Mapping[str, np.ndarray], device: Device) -> tuple[np.ndarray, np.ndarray]:
    """The worker's share of the test recordings: features uint8 [all frames, mels], and frames int32 [N] of each."""
    frames = np.array(data["test_frames"], np.int32)
    ends = np.append(0, np.cumsum(frames))
    own = part(len(frames), device)
    return data["test_features"][ends[own.start] : ends[own.stop]], frames[own]


def evaluation_batches(frames: np.ndarray, size: int, multiple: int) -> Iterator[tuple[np.ndarray, int]]:
    """Batches of all recordings, longest first: numbers int64 [size], padded with the last one, and the length T."""
    order = np.argsort(-np.asarray(frames, np.int64), kind="stable")
    for first in range(0, len(order), size):
        chosen = order[np.minimum(np.arange(first, first + size), len(order) - 1)]
        yield chosen, padded(frames[chosen].max(), multiple)


def decode(best: np.ndarray, frames: np.ndarray, units: Sequence[str]) -> list[str]:
    """Greedy CTC decoding of the best labels int [B, T]: repetitions become one, blanks (0) are left out."""
    changed = np.diff(best, axis=1, prepend=0) != 0
    spoken = changed & (best > 0) & (np.arange(best.shape[1]) < frames[:, None])
    return [" ".join(units[label - 1] for label in row[mask]) for row, mask in zip(best, spoken, strict=True)]


def texts(
    best: np.ndarray, batches: Sequence[tuple[np.ndarray, int]], frames: np.ndarray, units: Sequence[str]
) -> list[str]:
    """The words of each recording; `best` int [B, all T / 8] are the best labels of `batches`, side by side."""
    said = [""] * len(frames)
    ends = np.cumsum([time // SUBSAMPLING for _, time in batches])
    for (chosen, _), labels in zip(batches, np.split(best, ends[:-1], 1), strict=True):
        for i, text in zip(chosen, decode(labels, output_frames(frames[chosen]), units), strict=True):
            said[i] = text
    return said


def made_up_batches(hyper: Hyperparameters, multiple: int = COMPILED) -> Iterator[Batch]:
    """Batches to warm up on, of the first recording repeated: one of each length that is compiled, longest first.

    Where nothing is compiled, because any length will do, there is only one: others would only take time.
    """
    size = hyper.global_batch_size
    times = range(COMPILED, LONGEST + 1, COMPILED) if multiple == COMPILED else (COMPILED,)
    for time in reversed(times):
        yield Batch(
            recordings=np.zeros(size, np.int64),
            speed=np.ones(size, np.float32),
            frames=np.full(size, time, np.int32),
            warp=np.zeros(size, np.int64),
            bands=np.zeros((size, hyper.frequency_masks, 2), np.int32),
            spans=np.zeros((size, spans_of(time, hyper), 2), np.int32),
            time=time,
            epoch=0.0,
        )
