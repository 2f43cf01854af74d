"""On paper, of hardware that was not at hand: the time of a step on 1 to 1,024 accelerators, by the alpha-beta model.

    python -m tests.bench.paper [--hw h100x8] [--scale small] [--floor-ms 2] [--svg FILE] [TASK ...]

Of each benchmark a step is trained here, on the processor, to count its operations; its gradients are those of the
declared parameters. At full scale, whose data need not be at hand, the operations are those declared. The step of n
accelerators is then taken to last as long as a 1/n of the operations at SUSTAINED of the peak that conf/hw has, but no
less than a floor, in which the host launches it (assumed), and after it a ring all-reduce (Thakur et al. 2005):
2 (n - 1) times ALPHA_S, and 2 (n - 1) / n of the bytes over the slowest link. Sending beside the backward pass, trees,
batch norm's sums, input and evaluations are left out. The batch is the largest of the closed division. The drawing has
the speed, in that of one accelerator.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
import torchvision
from matplotlib import pyplot
from matplotlib.ticker import ScalarFormatter
from rich.console import Console
from rich.table import Table

from reference_impls.image_classification import resnet
from reference_impls.language_modeling import gpt, torch_gpt
from reference_impls.translation import transformer
from reference_impls.translation.torch_network import Transformer
from suite import config
from suite.config.models import Benchmark, Range
from suite.harness.contract import training_data
from suite.harness.implementation import Device, load_implementation
from suite.store.arrays import prepared
from suite.store.task import for_run, load_task
from tasks.translation.shards import TEXTS
from tests.reference_impls import flops

COUNTS = (1, 8, 16, 32, 64, 128, 256, 512, 1024)
SUSTAINED = 0.3  # of the peak: assumed
ALPHA_S = 5e-6  # of each message: assumed
NVLINK = {"v100x8": 150e9, "a100x8": 300e9, "h100x8": 450e9, "h200x8": 450e9}  # bytes a second one way: NVIDIA's sheets
NETWORK = {"v100x8": 25e9 / 8, "a100x8": 400e9 / 8, "h100x8": 3200e9 / 8, "h200x8": 3200e9 / 8}  # of a node: AWS's


class Step(NamedTuple):
    """Of a step: the parts that workers can share out, its operations, and the bytes of its gradients, sent `times`."""

    parts: int
    operations: float
    nbytes: int
    times: int


def counted(task: str, scale: str) -> Step:
    """A step of the task at its own batch, scaled to the largest batch that the closed division allows."""
    benchmark, module = config.benchmark(task, scale), load_task(task)
    data = for_run(benchmark, module, prepared(benchmark, module), 1)
    implementation, hyper = load_implementation(task, config.framework("torch")), benchmark.hyperparameters
    made = implementation.build(hyper, training_data(data), 1, Device("cpu", "fp32"))
    samples = made.train_until(1).samples
    operations = flops.torch(lambda: made.train_until(samples + 1))
    assert benchmark.parameters is not None
    return Step(
        most_parts(benchmark), operations * growth(benchmark), 4 * benchmark.parameters, benchmark.exchanges_per_step
    )


def growth(benchmark: Benchmark) -> int:
    """How many times its own batch the largest is that the closed division allows."""
    allowed = benchmark.free["global_batch_size"]
    assert isinstance(allowed, Range)
    return int(allowed.high / benchmark.hyperparameters["global_batch_size"])


def most_parts(benchmark: Benchmark) -> int:
    """The parts that workers can share out of the largest batch."""
    hyper = benchmark.hyperparameters
    own = hyper.get("num_envs") or hyper["global_batch_size"] // hyper.get("segment_length", 1)
    return int(own * growth(benchmark))


def full_gpt(hyper: Mapping[str, Any]) -> tuple[torch.nn.Module, int]:
    """The network of language_modeling/full, without values, and the sequences of a step."""
    recipe = gpt.Hyperparameters.of(hyper)
    return torch_gpt.GPT(recipe), recipe.sequences


def full_resnet(hyper: Mapping[str, Any]) -> tuple[torch.nn.Module, int]:
    """That of image_classification/full, and the groups of a step."""
    return torchvision.models.resnet50(), resnet.Hyperparameters.of(hyper).groups


def full_transformer(hyper: Mapping[str, Any]) -> tuple[torch.nn.Module, int]:
    """That of translation/full, and the parts of a step."""
    recipe = transformer.Hyperparameters.of(hyper)
    return Transformer(recipe, TEXTS["full"].subwords, torch.float32), recipe.parts


FULL = {"language_modeling": full_gpt, "image_classification": full_resnet, "translation": full_transformer}


def declared(task: str) -> Step:
    """A step of the task at full scale, at the largest batch that the closed division allows."""
    benchmark = config.benchmark(task, "full")
    allowed, operations = benchmark.free["global_batch_size"], benchmark.train_flops_per_sample
    assert isinstance(allowed, Range)
    assert operations is not None
    with torch.device("meta"):
        network, parts = FULL[task]({**benchmark.hyperparameters, "global_batch_size": int(allowed.high)})
    nbytes = sum(4 * parameter.numel() for parameter in network.parameters())
    return Step(parts, operations * allowed.high, nbytes, 1)


def seconds(step: Step, hw: str, count: int, floor_s: float) -> tuple[float, float]:
    """Of computing and of sending, in a step of so many accelerators."""
    system = config.system(hw)
    peak = system.peak_tflops[system.precision] * 1e12 * SUSTAINED
    link = NVLINK[hw] if count <= system.accelerators_per_node else NETWORK[hw]
    sending = 2 * (count - 1) * ALPHA_S + 2 * (count - 1) / count * step.nbytes / link
    return max(step.operations / count / peak, step.times * floor_s), step.times * sending


def limited(step: Step, hw: str, best: int, floor_s: float) -> str:
    """What keeps more than `best` accelerators from being faster."""
    if best * 2 > step.parts:
        return "its batch"
    if best == COUNTS[-1]:
        return "nothing so far"
    return "launching" if sum(seconds(step, hw, 2 * best, 0.0)) < sum(seconds(step, hw, best, floor_s)) else "sending"


def draw(found: Mapping[str, Mapping[int, float]], title: str, path: str) -> None:
    """The speeds over the number of accelerators, as an SVG file."""
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for task, times in found.items():
        axes.plot([*times], [times[1] / each for each in times.values()], marker="o", label=task)
    axes.set(title=title, xlabel="accelerators", ylabel="speed of one", xscale="log", yscale="log", xticks=COUNTS)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(ScalarFormatter())
    axes.minorticks_off()
    axes.legend(loc="lower left", fontsize="small")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.paper", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--hw", default="h100x8", choices=NVLINK)
    parser.add_argument("--scale", default="small")
    parser.add_argument("--floor-ms", type=float, default=2.0)
    parser.add_argument("--svg", metavar="FILE")
    args = parser.parse_args()
    table = Table("task", "GFLOP a step", "MB sent", "parts", *(f"{n}, ms" for n in COUNTS), "fastest", "limited by")
    found = {}
    for task in args.tasks or (FULL if args.scale == "full" else config.names("task")):
        step = declared(task) if args.scale == "full" else counted(task, args.scale)
        times = {n: sum(seconds(step, args.hw, n, args.floor_ms / 1e3)) for n in COUNTS if n <= step.parts}
        found[task] = times
        best = min(times, key=lambda n: times[n])
        shown = [f"{times[n] * 1e3:.2f}" if n in times else "" for n in COUNTS]
        figures = f"{step.operations / 1e9:.1f}", f"{step.nbytes * step.times / 1e6:.1f}", str(step.parts)
        table.add_row(task, *figures, *shown, str(best), limited(step, args.hw, best, args.floor_ms / 1e3))
    Console(width=200).print(table)
    if args.svg:
        draw(found, f"On paper: {args.hw}, launching a step {args.floor_ms:g} ms", args.svg)


if __name__ == "__main__":
    main()
