"""What the parity suite must know of each task: a quick recipe, data cut down, and raw outputs that can be compared.

Everything else it asks of every implementation through `suite.harness.implementation`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from suite import config
from suite.harness.contract import training_data
from suite.harness.implementation import Device, Implementation
from tests.reference_impls.material import (
    Arrays,
    blood_cells,
    coloured_noise,
    detections,
    digit_scenes,
    few_histories,
    few_jpegs,
    few_pairs,
    few_phrases,
    gpt_logits,
    image_logits,
    item_scores,
    label_logits,
    log_probabilities,
    probabilities_and_values,
    random_words,
    real,
    resnet_logits,
    short_text,
    spoken_noise,
    subword_logits,
    three_episodes,
    two_shards,
)

FRAMEWORKS = ("torch", "tensorflow")


@dataclass(frozen=True)
class Case:
    """A task at a scale.

    `data` makes its arrays, without answers; `outputs(implementation, framework, data)` gives comparable arrays;
    `changes` are the hyperparameters that make it quick.
    """

    task: str
    scale: str
    data: Callable[[], Arrays]
    outputs: Callable[[Any, str, Arrays], list[np.ndarray]]
    until: tuple[int, ...]  # samples: here the frameworks' losses are compared, and at the last their states
    changes: Mapping[str, Any] = field(default_factory=dict)
    loss: Mapping[str, float] = field(default_factory=lambda: {"abs": 1e-4})  # how closely losses agree
    state: float = 1e-3  # how closely states agree
    within: float = 1e-4  # how closely outputs of the same weights agree
    spread: float = 0.01  # the deviation that the first output has from example to example, at least
    relative: bool = False  # whether small numbers of a state agree as closely as large ones
    same_predictions: bool = True  # of the same weights; not where they are rounded numbers
    resumed: tuple[int, int] | None = None  # samples: of the state that is taken up, and of the end
    learned: tuple[int, float] | None = None  # samples, and to which part of its first value the loss falls until then
    on_gpu: tuple[int, float] | None = None  # samples, and the quality of the whole benchmark that is passed by then
    variant: str = ""

    @property
    def id(self) -> str:
        """Its name in the names of tests."""
        return f"{self.task}-{self.variant or self.scale}"

    @property
    def benchmark(self) -> config.Benchmark:
        """The benchmark that it makes quick."""
        return config.benchmark(self.task, self.scale)


def build(
    case: Case,
    framework: str,
    precision: str = "fp32",
    seed: int = 3,
    data: Mapping[str, np.ndarray] | None = None,
    **changes: Any,
) -> Implementation:
    """The implementation of a case on a CPU."""
    module = import_module(f"reference_impls.{case.task}.{framework}")
    values = {**case.benchmark.hyperparameters, **case.changes, **changes}
    return module.build(values, training_data(case.data() if data is None else data), seed, Device("cpu", precision))


def worker(rank: int = 0, size: int = 1) -> Device:
    """One of the workers of a step, which are asked nothing."""
    return Device("cpu", "fp32", rank, rank, ("127.0.0.1:1",) * size if size > 1 else ())


# Of more than one length, and cut ones
SHORT_HISTORIES = {"lengths": [8, 20], "global_batch_size": 4, "epochs": 4, "dropout": 0.0}
SHORT_EPISODES = {"global_batch_size": 512, "minibatch_size": 128, "num_envs": 4, "update_epochs": 2}
TINY = {"d_model": 32, "d_ff": 64, "heads": 4, "warmup_steps": 2, "dropout": 0.0, "beam_size": 2}

CASES = (
    Case(
        task="detection",
        scale="mini",
        data=digit_scenes,
        outputs=detections,
        spread=1e-3,
        until=(12,),
        changes={"global_batch_size": 4},
        same_predictions=False,
        resumed=(12, 24),
        learned=(20, 1.0),
        on_gpu=(6000, 0.62),
    ),
    Case(
        task="detection",
        scale="small",
        data=blood_cells,
        outputs=detections,
        spread=1e-3,
        until=(8,),
        changes={"global_batch_size": 4, "widths": [16, 24, 32], "blocks": [1, 2, 1], "head_width": 16},
        same_predictions=False,
    ),
    Case(
        task="image_classification",
        scale="mini",
        data=lambda: real("image_classification"),
        outputs=image_logits,
        until=(500,),
        resumed=(700, 1500),
        learned=(2000, 0.5),
        on_gpu=(12_000, 0.97),
    ),
    Case(
        task="image_classification",
        scale="small",
        data=coloured_noise,
        outputs=image_logits,
        until=(50,),
        changes={"global_batch_size": 50, "epoch_sizes": [20, 32], "widths": [16, 32, 32]},
        state=0.05,  # the first step's direction hangs on the last bits of small gradients
    ),
    Case(
        task="image_classification",
        scale="pilot",
        variant="resnet",
        data=few_jpegs,
        outputs=resnet_logits,
        until=(16, 32),
        changes={
            "global_batch_size": 16,
            "norm_batch_size": 8,
            "image_size": 64,
            "resize": 72,
            "schedule_samples": 320,
            "warmup_samples": 16,
        },
        loss={"abs": 1e-3},
        resumed=(32, 64),
    ),
    Case(
        task="language_modeling",
        scale="mini",
        data=short_text,
        outputs=log_probabilities,
        until=(4096,),
        loss={"abs": 1e-3},
        relative=True,
        same_predictions=False,
        resumed=(5000, 12_000),
        learned=(30_000, 0.882),
        on_gpu=(1_000_000, 0.05),
    ),
    Case(
        task="language_modeling",
        scale="small",
        data=random_words,
        outputs=log_probabilities,
        until=(8192,),
        # each framework draws its own dropout; gradients as small as epsilon are known to their last bits only
        changes={"dropout": 0.0, "opt_adam_epsilon": 1e-6, "layers": 1, "width": 64, "tail_widths": [16, 8, 8]},
        loss={"abs": 1e-3},
        relative=True,
        same_predictions=False,
    ),
    Case(
        task="language_modeling",
        scale="pilot",
        variant="gpt",
        data=two_shards,
        outputs=gpt_logits,
        until=(512, 1024),
        changes={"global_batch_size": 512, "sequence_length": 32, "width": 32, "schedule_samples": 65_536},
        loss={"abs": 1e-3},
        state=5e-3,
        same_predictions=False,
        spread=1e-3,
        resumed=(1500, 4096),
    ),
    Case(
        task="recommendation",
        scale="mini",
        data=few_histories,
        outputs=item_scores,
        until=(40,),
        changes=SHORT_HISTORIES,
        within=1e-5,
        on_gpu=(8000, 0.65),
    ),
    Case(
        task="recommendation",
        scale="small",
        data=few_histories,
        outputs=item_scores,
        until=(40,),
        changes=SHORT_HISTORIES | {"epochs": 20},
        within=1e-5,
        resumed=(60, 100),
        learned=(600, 0.979),
    ),
    Case(
        task="reinforcement_learning",
        scale="mini",
        data=lambda: three_episodes("mini"),
        outputs=probabilities_and_values,
        until=(1024,),
        changes=SHORT_EPISODES,
        spread=1e-3,
        loss={"rel": 1e-3},
        state=1e-4,
        resumed=(1024, 1536),
        on_gpu=(32_768, 400),
    ),
    Case(
        task="reinforcement_learning",
        scale="small",
        data=lambda: three_episodes("small"),
        outputs=probabilities_and_values,
        until=(1024,),
        changes=SHORT_EPISODES,
        spread=1e-3,
        loss={"rel": 1e-3},
        state=1e-4,
        resumed=(1024, 1536),
    ),
    Case(
        task="speech",
        scale="mini",
        data=lambda: real("speech"),
        outputs=label_logits,
        until=(20, 40, 60),
        changes={"dropout": 0.0},  # which each framework draws on its own
        loss={"rel": 1e-4},
        resumed=(40, 80),
        learned=(800, 0.5),
        on_gpu=(9600, 0.01),
    ),
    Case(
        task="speech",
        scale="small",
        data=spoken_noise,
        outputs=label_logits,
        until=(32,),
        changes={"dropout": 0.0, "dilations": [1, 2]},
        loss={"rel": 1e-4},
    ),
    Case(
        task="translation",
        scale="mini",
        variant="tiny",
        data=few_phrases,
        outputs=subword_logits,
        until=(100,),
        changes=TINY | {"global_batch_size": 20},
        resumed=(900, 1200),
        learned=(1000, 0.86),
        on_gpu=(60_000, 95.0),
    ),
    Case(
        task="translation",
        scale="pilot",
        variant="transformer",
        data=few_pairs,
        outputs=subword_logits,
        until=(512, 1024),
        changes={
            "global_batch_size": 512,
            "part_size": 128,
            "max_sequence_length": 32,
            "d_model": 32,
            "d_ff": 64,
            "heads": 4,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "dropout": 0.0,
            "opt_learning_rate_warmup_steps": 4,
        },
        resumed=(1500, 3000),
    ),
    Case(
        task="translation",
        scale="mini",
        data=few_phrases,
        outputs=subword_logits,
        until=(20,),
        changes={"global_batch_size": 20},
    ),
    Case(
        task="translation",
        scale="small",
        data=few_phrases,
        outputs=subword_logits,
        until=(20,),
        changes={"global_batch_size": 20, "dropout": 0.0, "encoder_layers": 1, "decoder_layers": 1},
    ),
)
BY_ID = {case.id: case for case in CASES}
