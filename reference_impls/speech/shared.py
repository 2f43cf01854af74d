"""What both frameworks share: initial parameters, batches with augmentation and dropout, schedule, decoding, in numpy.

Everything is a function of the seed and of the step, so a checkpoint needs no random state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from reference_impls.recipe import Recipe

SPREAD = 25.0  # of the features' levels, roughly, once each recording's mean spectrum is taken off
SUBSAMPLING = 8  # frames of features to one frame of output
FP16_LOSS_SCALE = 128.0
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

    def learning_rate(self, epoch: float) -> float:
        """Linear from 0 over the warm-up, then a half cosine to 0 at the end of `epochs`."""
        if epoch < self.opt_warmup_epochs:
            return self.opt_base_learning_rate * epoch / self.opt_warmup_epochs
        done = min((epoch - self.opt_warmup_epochs) / (self.epochs - self.opt_warmup_epochs), 1.0)
        return float(self.opt_base_learning_rate * (1 + np.cos(np.pi * done)) / 2)


def initial_parameters(hyper: Hyperparameters, mels: int, labels: int, seed: int) -> dict[str, np.ndarray]:
    """Parameters by name: convolutions [height, width, in, out], matrices [in, out], biases and norms [out].

    He's normal initialisation; the last matrix of each residual block starts at zero, so each block at the identity.
    """
    random = np.random.default_rng([seed, _INIT_STREAM])
    parameters: dict[str, np.ndarray] = {}

    def layer(name: str, *shape: int, gain: float = 2.0) -> None:
        parameters[f"{name}_weight"] = random.normal(0, np.sqrt(gain / np.prod(shape[:-1])), shape)
        parameters[f"{name}_bias"] = np.zeros(shape[-1])

    def norm(name: str) -> None:
        parameters[f"{name}_weight"], parameters[f"{name}_bias"] = np.ones(hyper.width), np.zeros(hyper.width)

    for i, (inputs, outputs) in enumerate(pairwise((1, *hyper.channels))):
        layer(f"conv{i}", 3, 3, inputs, outputs)
    layer("project", mels // SUBSAMPLING * hyper.channels[-1], hyper.width, gain=1.0)
    for i in range(len(hyper.dilations)):
        norm(f"block{i}_norm")
        layer(f"block{i}_in", 3 * hyper.width, 2 * hyper.width)
        layer(f"block{i}_out", 2 * hyper.width, hyper.width, gain=0.0)
    norm("norm")
    layer("head", hyper.width, labels, gain=1.0)
    return {name: value.astype(np.float32) for name, value in parameters.items()}


@dataclass(frozen=True)
class Batch:
    """One step's recordings.

    Features float32 [B, T, mels], zero behind each recording's end; `frames` int32 [B] of output, at most
    T / SUBSAMPLING; labels int32 [B, L], zero behind each transcript's end; `lengths` int32 [B] of the transcripts;
    `kept` float32 [blocks, B, 1, hidden], what dropout multiplies with; `epoch` is the position in epochs before it.
    """

    features: np.ndarray
    frames: np.ndarray
    labels: np.ndarray
    lengths: np.ndarray
    kept: np.ndarray
    epoch: float


class Recordings:
    """Features uint8 [all frames, mels], one recording after another, and how many frames each has."""

    def __init__(self, features: np.ndarray, frames: np.ndarray) -> None:
        self.frames = np.array(frames, np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.frames)[:-1]])
        self.features = features.astype(np.float32) / np.float32(SPREAD)
        means = np.add.reduceat(self.features, self.starts) / self.frames[:, None]
        self.features -= np.repeat(means.astype(np.float32), self.frames, 0)

    def padded(self, chosen: np.ndarray, speed: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Recordings [B] as float32 [B, T, mels] and their frames [B]; at `speed` [B] by linear interpolation."""
        lengths = self.frames[chosen]
        speed = np.ones(len(chosen)) if speed is None else speed
        frames = np.maximum((lengths / speed).astype(np.int64), 1)
        time = np.arange(_padded(frames.max()))
        position = np.minimum(time * speed[:, None], lengths[:, None] - 1)
        before = position.astype(np.int64)
        after = np.minimum(before + 1, lengths[:, None] - 1) + self.starts[chosen, None]
        share = (position - before).astype(np.float32)[:, :, None]
        first = self.features[before + self.starts[chosen, None]]
        features = first + share * (self.features[after] - first) if share.any() else first
        features *= (time < frames[:, None])[:, :, None]
        return features, frames


class Batches:
    """The training batches of one seed, in order, from any step on.

    An epoch leaves out a random incomplete batch. Recordings of like lengths share a batch.
    """

    def __init__(self, data: Mapping[str, np.ndarray], hyper: Hyperparameters, seed: int) -> None:
        self.recordings = Recordings(data["train_features"], data["train_frames"])
        self.lengths = np.array(data["train_lengths"], np.int32)
        self.labels = _rows(np.array(data["train_labels"], np.int32), self.lengths)
        self.hyper, self.seed = hyper, seed
        self.steps_per_epoch = len(self.lengths) // hyper.global_batch_size
        mels = data["train_features"].shape[1]
        stretch = 1 + hyper.frequency_warp * np.linspace(-1, 1, _WARPS)
        self.warps = np.stack([_warp(mels, factor) for factor in stretch])

    def iterate(self, step: int) -> Iterator[Batch]:
        """Batches without end, from `step` on."""
        size = self.hyper.global_batch_size
        while True:
            epoch, within = divmod(step, self.steps_per_epoch)
            random = np.random.default_rng([self.seed, epoch])
            count = len(self.lengths)
            speed = random.uniform(1 - self.hyper.speed, 1 + self.hyper.speed, count)
            drawn = random.permutation(count)[: self.steps_per_epoch * size]
            by_length = drawn[np.argsort(self.recordings.frames[drawn] / speed[drawn], kind="stable")]
            order = random.permutation(self.steps_per_epoch)
            for position in order[within:]:
                chosen = by_length[position * size : (position + 1) * size]
                yield self._batch(chosen, speed[chosen], np.random.default_rng([self.seed, epoch, int(position)]), step)
                step += 1

    def _batch(self, chosen: np.ndarray, speed: np.ndarray, random: np.random.Generator, step: int) -> Batch:
        hyper = self.hyper
        features, frames = self.recordings.padded(chosen, speed)
        features = features @ self.warps[random.integers(0, _WARPS, len(chosen))]
        _mask(features, frames, hyper, random)
        kept = random.random((len(hyper.dilations), len(chosen), 1, 2 * hyper.width), np.float32) >= hyper.dropout
        lengths = self.lengths[chosen]
        return Batch(
            features,
            output_frames(frames),
            self.labels[chosen, : lengths.max()],
            lengths,
            kept.astype(np.float32) / np.float32(1 - hyper.dropout),
            step / self.steps_per_epoch,
        )


def _mask(features: np.ndarray, frames: np.ndarray, hyper: Hyperparameters, random: np.random.Generator) -> None:
    """SpecAugment: sets bands of mels and spans of frames of features [B, T, mels] to zero, the mean."""
    batch, time, mels = features.shape
    masked = np.zeros((batch, 1, mels), bool)
    for _ in range(hyper.frequency_masks):
        wide = random.integers(0, hyper.frequency_mask_mels + 1, (batch, 1, 1))
        first = random.integers(0, mels - wide + 1)
        masked |= (np.arange(mels) >= first) & (np.arange(mels) < first + wide)
    gone = np.zeros((batch, time, 1), bool)
    frame = np.arange(time)[:, None]
    masks = np.floor(hyper.time_masks_per_second * frames / 100 + random.random(batch)).astype(int)
    for i in range(masks.max(initial=0)):
        long = np.where(i < masks, random.integers(0, hyper.time_mask_frames + 1, batch), 0)[:, None, None]
        first = random.integers(0, np.maximum(frames[:, None, None] - long, 0) + 1)
        gone |= (frame >= first) & (frame < first + long)
    features *= ~masked & ~gone


def _warp(mels: int, stretch: float) -> np.ndarray:
    """The matrix [mels, mels] that stretches the mel axis: band m of its product is band m * stretch of the input."""
    position = np.minimum(np.arange(mels) * stretch, mels - 1)
    weights: np.ndarray = np.maximum(1 - np.abs(np.arange(mels)[:, None] - position), 0).astype(np.float32)
    return weights


def _rows(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """`values`, row after row of the given lengths, as a matrix with zeros behind each row's end."""
    rows = np.zeros((len(lengths), lengths.max()), values.dtype)
    rows[np.arange(lengths.max()) < lengths[:, None]] = values
    return rows


def _padded(frames: int) -> int:
    """A multiple of 64 frames: few shapes."""
    return -(-int(frames) // 64) * 64


def output_frames(frames: np.ndarray) -> np.ndarray:
    """Frames of output int32 for so many frames of features."""
    return np.ceil(frames / SUBSAMPLING).astype(np.int32)


def evaluation_batches(recordings: Recordings, size: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """All recordings, ordered by length: (their numbers [B], features [B, T, mels], output frames [B])."""
    order = np.argsort(recordings.frames, kind="stable")
    for first in range(0, len(order), size):
        chosen = order[first : first + size]
        features, frames = recordings.padded(chosen)
        yield chosen, features, output_frames(frames)


def decode(best: np.ndarray, frames: np.ndarray, units: Sequence[str]) -> list[str]:
    """Greedy CTC decoding of the best labels int [B, T]: repetitions become one, blanks (0) are left out."""
    changed = np.diff(best, axis=1, prepend=0) != 0
    spoken = changed & (best > 0) & (np.arange(best.shape[1]) < frames[:, None])
    return [" ".join(units[label - 1] for label in row[mask]) for row, mask in zip(best, spoken, strict=True)]


def warmup_batches(hyper: Hyperparameters, mels: int) -> Iterator[Batch]:
    """Batches of noise, one short and one long."""
    size = hyper.global_batch_size
    for time in (128, 512):
        yield Batch(
            np.random.default_rng(0).normal(size=(size, time, mels)).astype(np.float32),
            np.full(size, time // SUBSAMPLING, np.int32),
            np.ones((size, 3), np.int32),
            np.full(size, 3, np.int32),
            np.ones((len(hyper.dilations), size, 1, 2 * hyper.width), np.float32),
            0.0,
        )
