"""Implementations that are the reference but for one thing: `FAULTS` change what is computed, `FREEDOMS` only how.

Each is given what the reference's `build` made, of the benchmark that stands beside it, and changes it in place.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from reference_impls.image_classification.shared import Draws
from reference_impls.recommendation.torch import targets_of
from reference_impls.torch_shared import weights

IMAGES, ITEMS = "image_classification", "recommendation"


@dataclass(frozen=True)
class Altered:
    """A module of an implementation: the reference's of `task`, with other hyperparameters and parts."""

    task: str
    hyperparameters: Mapping[str, Callable[[Any], Any]]
    change: Callable[[Any], None] = lambda made: None
    __name__ = "altered"
    ACCELERATORS = 1

    def build(self, hyperparameters, data, seed, device):
        module = importlib.import_module(f"reference_impls.{self.task}.torch")
        own = {name: to(hyperparameters[name]) for name, to in self.hyperparameters.items()}
        made = module.build({**hyperparameters, **own}, data, seed, device)
        self.change(made)
        return made


def one_layer_less(made):
    block = made.model.blocks[1]

    def forward(x):
        x = F.gelu(block.norm1(F.max_pool2d(block.conv1(x), 2)))
        return x + 0 * block.conv2(x)

    block.forward = forward


def evaluated_by_the_batch(made):
    made.averaged.train()


def without_a_number(made):
    with torch.no_grad():
        [*made.model.parameters()][-1].view(-1)[0] = torch.nan


def begun_later(made):
    made.step = 5


def half_of_the_batch(made):
    training = made.training.forward
    made.training.forward = lambda drawn, size: training(drawn[:, : drawn.shape[1] // 2], size)


def augmented(of):
    """The training images made others: `of` takes and returns float32 [B, C, H, W]."""

    def change(made):
        training = made.training.forward

        def forward(drawn, size):
            images, labels = training(drawn, size)
            return of(images), labels

        made.training.forward = forward

    return change


def every_other_mirrored(images):
    every_other = torch.arange(len(images))[:, None, None, None] % 2 == 0
    return torch.where(every_other, images, images.flip(3))


def some_mirrored(share):
    return lambda images: torch.where(torch.rand(len(images), 1, 1, 1) < share, images.flip(3), images)


def with_a_patch_blank(images):
    made = images.clone()
    top, left = torch.randint(0, images.shape[2] - 1, (2,)).tolist()
    made[:, :, top : top + 2, left : left + 2] = 0
    return made


def brighter_or_darker(images):
    return images * (1 + 0.2 * torch.randn(len(images), 1, 1, 1))


def noisy(deviation):
    return lambda images: images + deviation * torch.randn_like(images)


def clipped(made):
    step = made.sgd.step

    def clip_and_step(*args, **kwargs):
        torch.nn.utils.clip_grad_norm_([p for group in made.sgd.param_groups for p in group["params"]], 1.0)
        return step(*args, **kwargs)

    made.sgd.step = clip_and_step


def of_four_bits(made):
    """Weights rounded to 16 values a filter wherever they are used."""

    def rounded(layer, _):
        layer.exact = layer.weight.data
        scale = layer.exact.abs().amax(dim=tuple(range(1, layer.exact.ndim)), keepdim=True).clamp(min=1e-12) / 7
        layer.weight.data = (layer.exact / scale).round().clamp(-8, 7) * scale

    def restored(layer, _, output):
        layer.weight.data = layer.exact

    for layer in made.model.modules():
        if isinstance(layer, torch.nn.Conv2d | torch.nn.Linear):
            layer.register_forward_pre_hook(rounded)
            layer.register_forward_hook(restored)


def epsilon_within_the_root(made):
    adam = made.optimizer

    @torch.no_grad()
    def step(*args, **kwargs):
        for group in adam.param_groups:
            one, two = group["betas"]
            for parameter in group["params"]:
                kept = adam.state[parameter]
                kept["step"] += 1
                count = float(kept["step"])
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                kept["exp_avg"].lerp_(parameter.grad, 1 - one)
                kept["exp_avg_sq"].mul_(two).addcmul_(parameter.grad, parameter.grad, value=1 - two)
                root = (kept["exp_avg_sq"] / (1 - two**count) + group["eps"] ** 2).sqrt()
                parameter.addcdiv_(kept["exp_avg"], root, value=-group["lr"] / (1 - one**count))

    adam.step = step


def channels_first(made):
    made.model.to(memory_format=torch.contiguous_format)
    made.weights = [*weights(made.model).values()]
    training = made.training.forward

    def forward(drawn, size):
        images, labels = training(drawn, size)
        return images.contiguous(), labels

    made.training.forward = forward


def other_order_of_the_batch(made):
    training = made.training.forward
    made.training.forward = lambda drawn, size: training(drawn.flip(1).contiguous(), size)


def one_kernel_a_parameter(made):
    for group in made.sgd.param_groups:
        group["fused"], group["foreach"] = None, False
    made.sgd._step_supports_amp_scaling = False  # as of an optimizer that was made so


def compiled(made):
    made.loss = torch.compile(made.loss)


def accumulated(made):
    """The gradient of a batch as the sum of those of its parts."""
    whole = made.loss

    def loss(items, windows, length):
        known = (targets_of(items, windows, length) >= 0).sum()
        parts = [part for part in windows.split(7) if len(part)]
        shares = [(targets_of(items, part, length) >= 0).sum() / known for part in parts]
        losses = [share * whole(items, part, length) for share, part in zip(shares, parts, strict=True)]
        return sum(losses)

    made.loss = loss


def of_draws_of_its_own(made):
    made.draws = Draws(len(made.data["train_images"]), made.hyper, seed=12345)


def both(*changes):
    def change(made):
        for each in changes:
            each(made)

    return change


def faulty(task=IMAGES, change=lambda made: None, **hyperparameters):
    return Altered(task, hyperparameters, change)


def drawing(change=lambda made: None, **hyperparameters):
    return Altered(IMAGES, hyperparameters, both(of_draws_of_its_own, change))


FAULTS = {
    "learning rate of the head 5 % off": faulty(head_learning_rate=lambda rate: 1.05 * rate),
    "learning rate of the matrices 5 % off": faulty(muon_learning_rate=lambda rate: 0.95 * rate),
    "weight decay missing": faulty(opt_weight_decay=lambda decay: 0.0),
    "label smoothing missing": faulty(label_smoothing=lambda share: 0.0),
    "one layer less": faulty(change=one_layer_less),
    "batch norm's momentum": faulty(norm_momentum=lambda momentum: momentum + 0.05),
    "evaluation with the batch's statistics": faulty(change=evaluated_by_the_batch),
    "half of the batch skipped": faulty(change=half_of_the_batch),
    "an extra augmentation": faulty(change=augmented(every_other_mirrored)),
    "gradient clipping": faulty(change=clipped),
    "weights of four bits": faulty(change=of_four_bits),
    "epsilon within the root": faulty(ITEMS, epsilon_within_the_root),
    "AdamW's weight decay missing": faulty(ITEMS, opt_adamw_weight_decay=lambda decay: 0.0),
    "dropout missing": faulty(ITEMS, dropout=lambda rate: 0.0),
}
WITH_OWN_DRAWS = {
    "half of the batch skipped": drawing(half_of_the_batch),
    "label smoothing missing": drawing(label_smoothing=lambda share: 0.0),
    "learning rate of the matrices 5 % off": drawing(muon_learning_rate=lambda rate: 1.05 * rate),
    "every other image mirrored": drawing(augmented(every_other_mirrored)),
    "shifts of a pixel more": drawing(translate=lambda most: most + 1),
}
DRAWN_ALIKE = drawing()
BEGUN_OTHERWISE = {  # which no step shows, for all are taken from the reference's states
    (change.__name__, draws): made(change=change)
    for change in (without_a_number, begun_later)
    for draws, made in ((False, faulty), (True, drawing))
}
SURVEYED = {  # with draws of its own as well, where another run may find another figure
    "images brighter or darker by 20 %": drawing(augmented(brighter_or_darker)),
    "a patch of 2 x 2 pixels blank": drawing(augmented(with_a_patch_blank)),
    "ten images of a hundred mirrored": drawing(augmented(some_mirrored(0.1))),
    "two images of a hundred mirrored": drawing(augmented(some_mirrored(0.02))),
    "noise of a tenth of the images' deviation": drawing(augmented(noisy(0.1))),
}
FREEDOMS = {
    "the same": faulty(),
    "channels first": faulty(change=channels_first),
    "another order of reduction": faulty(change=other_order_of_the_batch),
    "an optimizer that is not fused": faulty(change=one_kernel_a_parameter),
    "gradient accumulation": faulty(ITEMS, accumulated),
}
COMPILED = faulty(change=compiled)  # beside the others, for it takes a compiler and its time
