"""Speech recognition in PyTorch: training and evaluation; recordings and network are in `torch_network.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from reference_impls.evaluation_cache import EvaluationCache
from reference_impls.recipe import dropout_seed
from reference_impls.shares import require, share, steps
from reference_impls.speech import shared
from reference_impls.speech.shared import EVAL_BATCH, SUBSAMPLING, Batch, Batches, Hyperparameters
from reference_impls.speech.torch_network import Recordings, SpeechNetwork, masked, output_frames
from reference_impls.torch_shared import (
    TorchTrainer,
    all_at_once,
    autocast,
    clip_gradients,
    compiled,
    dtype,
    grad_scaler,
    in_training,
    on_device,
    prepare,
    set_learning_rate,
    torch_device,
    warm_ups,
)
from reference_impls.torch_workers import Workers
from suite.harness.implementation import Device
from suite.harness.memory import keep_freed_memory

ACCELERATORS = 1024
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
SHARED_BY = ()


class TorchSpeech(TorchTrainer[Hyperparameters, Batch]):
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, hyper.global_batch_size, "recordings")
        steps(len(data["train_frames"]), hyper.global_batch_size, "recordings")
        self.hyper, self.data, self.seed, self.worker = hyper, data, seed, device
        self.device, self.dtype = torch_device(device), dtype(device)
        self.multiple = shared.NOT_COMPILED if self.device.type == "cpu" else shared.COMPILED
        self.units = bytes(data["units"]).decode("ascii").split("\n")
        shape = data["train_features"].shape
        self.recordings = Recordings(shape, len(data["train_frames"])).to(self.device)
        self.warps = torch.from_numpy(shared.warps(shape[1], hyper)).to(self.device)
        self.labels = torch.ones((len(data["train_frames"]), 1), dtype=torch.int32, device=self.device)
        self.lengths = np.ones(len(data["train_frames"]), np.int32)  # of the labels of each
        self.workers = Workers(device)
        self.model = SpeechNetwork(hyper, shape[1], len(self.units) + 1).to(self.device)
        self.parallel = self.workers.parallel(self.model)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=hyper.opt_base_learning_rate,
            betas=(hyper.opt_adamw_beta_1, hyper.opt_adamw_beta_2),
            eps=hyper.opt_adamw_epsilon,
            weight_decay=hyper.opt_weight_decay,
            **all_at_once(self.device),
        )
        self.optimizers = (self.optimizer,)
        prepare(self.optimizers)
        self.scaler = grad_scaler(self.device, self.dtype)
        self.training_logits = compiled(self._training_logits, self.device)
        self.logits = compiled(self._logits, self.device)
        self.filled = False
        self.evaluation = EvaluationCache(self.evaluation_batches)
        initial = shared.initial_parameters(hyper, shape[1], len(self.units) + 1, seed)
        self.load_state_dict({**initial, "step": np.array(0)})

    def feed(self) -> Iterator[Batch]:
        """The batches; their recordings are copied to the device once."""
        if not self.filled:
            self.recordings.fill(self.data["train_features"], self.data["train_frames"])
            self.lengths = np.array(self.data["train_lengths"], np.int32)
            self.labels = on_device(shared.rows(self.data["train_labels"], self.lengths), self.device)
            self.filled = True
        frames, mels = np.array(self.data["train_frames"]), self.recordings.features.shape[1]
        return Batches(frames, mels, self.hyper, self.seed, self.multiple).iterate(self.step)

    def train_step(self, batch: Batch) -> torch.Tensor:
        """Take one step; return the loss, CTC's negative log-likelihood of a transcript, mean over the batch."""
        names = ("recordings", "speed", "frames", "warp", "bands", "spans")
        tensors = {name: on_device(share(getattr(batch, name), self.worker), self.device) for name in names}
        torch.manual_seed(dropout_seed(self.seed, self.step, self.worker.rank))
        in_training(self.model)
        self.optimizer.zero_grad()
        logits = self.training_logits(**tensors, time=batch.time)
        loss = F.ctc_loss(
            logits.log_softmax(2).transpose(0, 1),
            self.labels[tensors["recordings"]],
            # lengths on the host, where CUDA's kernel wants them
            torch.from_numpy(shared.output_frames(share(batch.frames, self.worker))),
            torch.from_numpy(self.lengths[share(batch.recordings, self.worker)]),
            reduction="sum",
            zero_infinity=True,
        ) / (len(batch.recordings) / self.workers.size)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.scaler.unscale_(self.optimizer)
        clip_gradients(self.optimizer.param_groups[0]["params"], self.hyper.opt_gradient_clip_norm)
        set_learning_rate(self.optimizer, self.hyper.learning_rate(batch.epoch))
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def _training_logits(
        self,
        recordings: torch.Tensor,
        speed: torch.Tensor,
        frames: torch.Tensor,
        warp: torch.Tensor,
        bands: torch.Tensor,
        spans: torch.Tensor,
        time: int,
    ) -> torch.Tensor:
        """Logits float32 [B, T / 8, labels] of a `Batch`, whose recordings are augmented."""
        features = self.recordings(recordings, speed, frames, time) @ self.warps[warp]
        with autocast(self.device, self.dtype):
            logits: torch.Tensor = self.parallel(masked(features, bands, spans), output_frames(frames))
        return logits

    def _logits(self, features: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
        """Logits float32 [B, T / 8, labels] of features [B, T, mels] with `frames` [B] of output."""
        with autocast(self.device, self.dtype):
            logits: torch.Tensor = self.model(features, frames)
        return logits

    @torch.no_grad()
    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The words of each test recording."""
        batches = self.evaluation.of(data)
        if not batches:
            return []
        self.model.eval()
        best = torch.cat([self.logits(features, frames).argmax(2).int() for _, features, frames in batches], 1)
        layout = [(chosen, features.shape[1]) for chosen, features, _ in batches]
        return shared.texts(best.cpu().numpy(), layout, share(data["test_frames"], self.worker), self.units)

    def evaluation_batches(self, data: Mapping[str, np.ndarray]) -> list[tuple[np.ndarray, torch.Tensor, torch.Tensor]]:
        """Batches of the test recordings: numbers [B], features [B, T, mels] and output frames [B]."""
        features, lengths = shared.evaluated(data, self.worker)
        recordings = Recordings(features.shape, len(lengths)).to(self.device)
        recordings.fill(features, lengths)
        batches = []
        for chosen, time in shared.evaluation_batches(lengths, EVAL_BATCH, self.multiple):
            which, frames = on_device(chosen, self.device), on_device(lengths[chosen], self.device)
            features = recordings(which, torch.ones_like(frames, dtype=torch.float32), frames, time)
            batches.append((chosen, features, output_frames(frames)))
        return batches

    def warm_up(self) -> None:
        """Compile steps and evaluations of every length, on made-up recordings."""
        mels = self.recordings.features.shape[1]
        for batch in shared.made_up_batches(self.hyper, self.multiple):
            test = torch.zeros(EVAL_BATCH, batch.time, mels, device=self.device)
            frames = torch.full((EVAL_BATCH,), batch.time // SUBSAMPLING, dtype=torch.int32, device=self.device)
            for _ in warm_ups(self.device):
                self.train_step(batch)
                self.model.eval()
                with torch.no_grad():
                    self.logits(test, frames)


def build(hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device) -> TorchSpeech:
    """The implementation, compiled and warmed up on made-up recordings; its state comes from `seed`."""
    keep_freed_memory()
    return TorchSpeech(Hyperparameters.of(hyperparameters), data, seed, device).warmed_up()
