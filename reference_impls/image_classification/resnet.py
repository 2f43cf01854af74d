"""What both frameworks share of the ResNet: hyperparameters, initial parameters and schedule, in numpy.

ResNet-50 v1.5 (He et al. 2016, arXiv:1512.03385; each stage's stride in its first 3x3 convolution), trained with LARS
(You et al. 2017, arXiv:1708.03888) by the hyperparameters of MLPerf's reference convergence points for batches of
1,632 images: `resnet_ref_1632` of `rcps_resnet.json`, MLPerf Training 4.0 (github.com/mlcommons/logging).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reference_impls.recipe import Recipe
from suite.errors import unknown

# The blocks of the four stages, and the width of the 3x3 convolutions of the first
MODELS = {"resnet50": ((3, 4, 6, 3), 64), "resnet14": ((1, 1, 1, 1), 16)}
EXPANSION = 4
STEM = 64
PLANES = (64, 128, 256, 512)
EPSILON = 1e-5  # of batch normalisation
_INIT_STREAM = 1_000_001  # random streams apart from those of the epochs


@dataclass(frozen=True)
class Hyperparameters(Recipe):
    """The fixed recipe; names follow MLPerf's log keys where there is one."""

    model: str  # of MODELS
    global_batch_size: int
    norm_batch_size: int  # images over which batch normalisation takes statistics; they go through together
    image_size: int
    resize: int  # the shorter side of a test image, of which the middle is taken
    min_crop_area: float  # of a training image
    label_smoothing: float
    norm_momentum: float
    schedule_samples: int  # the learning rate falls to its end by then
    warmup_samples: int
    learning_rate: float
    opt_end_learning_rate: float  # the rate itself, as in MLPerf; in other recipes it is a fraction of the first
    opt_momentum: float
    opt_weight_decay: float
    lars_trust: float

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise unknown("hyperparameters.model", self.model, MODELS)
        self.require_multiple_of("norm_batch_size", "the images that go through together")
        self.require_longer("schedule_samples", "warmup_samples")

    @property
    def groups(self) -> int:
        """The number of groups of `norm_batch_size` images in a step."""
        return self.global_batch_size // self.norm_batch_size

    def rate(self, step: int) -> float:
        """The learning rate of a step: linear from zero, then quadratic to its end."""
        samples = step * self.global_batch_size
        if samples < self.warmup_samples:
            return self.learning_rate * samples / self.warmup_samples
        left = max(1 - (samples - self.warmup_samples) / (self.schedule_samples - self.warmup_samples), 0.0)
        return self.opt_end_learning_rate + (self.learning_rate - self.opt_end_learning_rate) * left**2


def initial_parameters(hyper: Hyperparameters, classes: int, seed: int) -> dict[str, np.ndarray]:
    """Parameters and statistics float32 by torchvision's names, in PyTorch's layout.

    Convolutions are normal (He et al. 2015, by fan-out, as torchvision's), the head N(0, 0.01^2); what a block
    adds starts at zero (Goyal et al. 2017, arXiv:1706.02677).
    """
    random = np.random.default_rng([seed, _INIT_STREAM])
    parameters: dict[str, np.ndarray] = {}

    def convolution(name: str, inputs: int, outputs: int, side: int) -> None:
        drawn = random.standard_normal((outputs, inputs, side, side), np.float32)
        parameters[f"{name}.weight"] = drawn * np.float32((2 / (outputs * side**2)) ** 0.5)

    def norm(name: str, width: int, scale: float = 1.0) -> None:
        parameters[f"{name}.weight"] = np.full(width, scale, np.float32)
        parameters[f"{name}.bias"] = np.zeros(width, np.float32)
        parameters[f"{name}.running_mean"] = np.zeros(width, np.float32)
        parameters[f"{name}.running_var"] = np.ones(width, np.float32)

    convolution("conv1", 3, STEM, 7)
    norm("bn1", STEM)
    inputs = STEM
    for stage, (count, inner, outputs, _) in enumerate(stages(hyper), 1):
        for i in range(count):
            block = f"layer{stage}.{i}"
            layers = ((inputs, inner, 1), (inner, inner, 3), (inner, outputs, 1))
            for number, (before, after, side) in enumerate(layers, 1):
                convolution(f"{block}.conv{number}", before, after, side)
                norm(f"{block}.bn{number}", after, float(number < 3))
            if i == 0:
                convolution(f"{block}.downsample.0", inputs, outputs, 1)
                norm(f"{block}.downsample.1", outputs)
            inputs = outputs
    parameters["fc.weight"] = random.standard_normal((classes, inputs), np.float32) * np.float32(0.01)
    parameters["fc.bias"] = np.zeros(classes, np.float32)
    return parameters


def stages(hyper: Hyperparameters) -> list[tuple[int, int, int, int]]:
    """Each stage's number of blocks, width of their 3x3 convolutions, output width, and stride of the first block."""
    blocks, width = MODELS[hyper.model]
    return [
        (count, planes * width // STEM, planes * EXPANSION, 1 if planes == PLANES[0] else 2)
        for count, planes in zip(blocks, PLANES, strict=True)
    ]
