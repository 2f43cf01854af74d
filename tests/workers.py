"""Train the references with several workers or with one, without the harness, and compare what they have then.

    python -m tests.workers FRAMEWORK PRECISION WORLD_SIZE OUT TASK:STEPS [TASK:STEPS ...]

Workers train mini or a reduced pilot, without dropout, and half way load the state that they save. PRECISION is fp32,
or with PyTorch fp64: how the order of a sum changes its rounding is then too small to be seen, even where it grows from
step to step. OUT gets for each task and rank the state, `TASK-RANK.npz`, and samples, loss and predictions,
`TASK-RANK.json`. Predictions are of the first test examples, of which workers have unequal shares, then of a single
one, too few for all workers.
"""

from __future__ import annotations

import json
import multiprocessing.connection
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suite import config
from suite.harness import contract
from suite.harness.implementation import Device, load_implementation
from suite.harness.workers.channel import free_port
from suite.store.arrays import prepared
from suite.store.task import for_run, load_task
from tasks.translation.subwords import END
from tests.reference_impls.material import few_jpegs, few_pairs, two_shards

# No dropout; in image_classification, what `small` does and `mini` does not, and a layer that is frozen on the way
CHANGED = {"dropout": 0.0, "eval_shift_fraction": 0.15, "whiten_bias_epochs": 1}
SEVERAL = 97  # a prime
EXAMPLES = {"test_images", "test_lengths", "test_frames", "test_source", "test_candidates", "test_seeds"}

# Pilots, made smaller and trained on made-up shards
SHARDS = {"image_classification": few_jpegs, "language_modeling": two_shards, "translation": few_pairs}
PILOTS = {
    "image_classification-pilot": {
        "global_batch_size": 16,
        "norm_batch_size": 4,
        "image_size": 64,
        "resize": 72,
        "schedule_samples": 320,
        "warmup_samples": 16,
    },
    "language_modeling-pilot": {
        "global_batch_size": 512,
        "sequence_length": 32,
        "width": 32,
        "schedule_samples": 65_536,
    },
    "translation-pilot": {
        "global_batch_size": 512,
        "part_size": 64,
        "max_sequence_length": 32,
        "d_model": 32,
        "d_ff": 64,
        "opt_learning_rate_warmup_steps": 8,
    },
}


def start(
    framework: str, precision: str, size: int, steps: Mapping[str, int], out: Path, compiled: bool = False
) -> bool:
    """Train each task for its `steps` with `size` workers, each in a process; return whether all ended well.

    With `compiled`, PyTorch traces what it would compile on a GPU, forward and backward, and runs the graphs.
    """
    out.mkdir(parents=True, exist_ok=True)
    addresses = tuple(f"127.0.0.1:{free_port()}" for _ in range(size)) if size > 1 else ()
    context = multiprocessing.get_context("spawn")
    devices = [Device("cpu", "fp32", rank, rank, addresses) for rank in range(size)]
    processes = [
        context.Process(target=_work, args=(framework, precision, each, steps, out, compiled)) for each in devices
    ]
    for process in processes:
        process.start()
    left = {process.sentinel for process in processes}
    while left and not any(process.exitcode for process in processes):
        left.difference_update(multiprocessing.connection.wait(left))
    for process in processes:
        process.kill()  # it may wait for one that has failed
        process.join()
    return not any(process.exitcode for process in processes)


def _work(framework: str, precision: str, device: Device, steps: Mapping[str, int], out: Path, compiled: bool) -> None:
    if precision == "fp64":
        _compute_in_double()
    if compiled:
        _compile()
    for task, number in steps.items():
        _train(task, framework, device, number, out / f"{task}-{device.rank}")


def _compute_in_double() -> None:
    """Make PyTorch use float64 for float32, in this process."""
    import torch

    from reference_impls import torch_shared

    single = torch.from_numpy

    def from_numpy(array: np.ndarray) -> torch.Tensor:
        return single(array.astype(np.float64) if array.dtype == np.float32 else array)

    torch.set_default_dtype(torch.float64)
    torch_shared.DTYPES["fp32"] = torch.float32 = torch.float64  # type: ignore[misc]
    torch.from_numpy, torch.Tensor.float = from_numpy, torch.Tensor.double  # type: ignore[method-assign]


def _compile() -> None:
    """Make PyTorch trace on a CPU what it compiles on a GPU, in this process; the kernels are those of a CPU."""
    import torch

    from reference_impls import torch_shared

    torch_shared.compiled = lambda function, _: torch.compile(function, backend="aot_eager", dynamic=False)


def _train(task: str, framework: str, device: Device, steps: int, out: Path) -> None:
    task, scale = task.split("-") if task in PILOTS else (task, "mini")
    benchmark = config.benchmark(task, scale)
    changed = {name: value for name, value in CHANGED.items() if name in benchmark.hyperparameters}
    changed |= PILOTS.get(f"{task}-{scale}", {})
    benchmark = benchmark.model_copy(update={"hyperparameters": {**benchmark.hyperparameters, **changed}})
    module = load_task(task)
    made_up = SHARDS[task]() if benchmark.dataset.shards else None
    data = made_up or for_run(benchmark, module, prepared(benchmark, module), 1)
    made = contract.build(load_implementation(task, config.framework(framework)), benchmark, data, 1, device)
    size = benchmark.hyperparameters["global_batch_size"]
    if steps > 1:
        made.train_until(steps // 2 * size)
        made.load_state_dict(made.state_dict())
    stats = made.train_until(steps * size)
    np.savez(out.with_suffix(".npz"), allow_pickle=False, **made.state_dict())
    examples = data.keys() & EXAMPLES
    counts = (SEVERAL, 1) if examples else (0,)
    cut = [{name: _first(count, name, data[name]) for name in examples} for count in counts]
    predictions = [made.predict({**data, **each}) for each in cut]
    told = {"samples": stats.samples, "loss": stats.loss, "predictions": predictions}
    out.with_suffix(".json").write_text(json.dumps(told))


def _first(count: int, name: str, examples: np.ndarray) -> np.ndarray:
    """The first `count` examples, which are rows or, in `test_source`, sentences one after the other."""
    return examples[: 1 + np.flatnonzero(examples == END)[:count][-1] if name == "test_source" else count]


@dataclass(frozen=True)
class Comparison:
    """How far several workers are from one.

    `parameters` is the distance of all parameters and statistics together, as a fraction of their norm, `loss` the
    relative difference of the last step's. `alike` says whether all ranks have the same state, bit for bit, the samples
    of one worker and, together, as many predictions.
    """

    parameters: float
    loss: float
    alike: bool
    predictions: int
    same_predictions: int


def compare(task: str, one: Path, several: Path, size: int) -> Comparison:
    """Compare what `start` wrote to `one` for one worker with what it wrote to `several` for `size` of them."""
    state, told = _read(one / f"{task}-0")
    found = [_read(several / f"{task}-{rank}") for rank in range(size)]
    first = found[0][0]
    alike = all(
        each["samples"] == told["samples"]
        and other.keys() == state.keys()
        and all(np.array_equal(array, first[name]) for name, array in other.items())
        for other, each in found
    )
    names = [name for name, array in state.items() if array.dtype.kind == "f" and "/" not in name]
    length, distance = (
        float(np.sqrt(sum(np.square(value).sum() for value in values)))
        for values in ([state[n] for n in names], [first[n] - state[n] for n in names])
    )
    wanted, predictions = _predictions([told]), _predictions([each for _, each in found])
    return Comparison(
        parameters=distance / length,
        loss=abs(float(np.mean([each["loss"] for _, each in found])) / told["loss"] - 1),
        alike=alike and len(predictions) == len(wanted),
        predictions=len(predictions),
        same_predictions=sum(a == b for a, b in zip(predictions, wanted, strict=False)),
    )


def _predictions(told: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The predictions of all ranks, in order: for the several test examples, then for the single one."""
    calls = zip(*(each["predictions"] for each in told), strict=True)
    return [prediction for call in calls for part in call for prediction in part]


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    with np.load(path.with_suffix(".npz")) as arrays:
        state = {
            name: arrays[name].astype(np.float64) if arrays[name].dtype.kind == "f" else arrays[name] for name in arrays
        }
    return state, json.loads(path.with_suffix(".json").read_text())


if __name__ == "__main__":
    chosen, precise, world, folder, *tasks = sys.argv[1:]
    counts = {task: int(number) for task, _, number in (each.partition(":") for each in tasks)}
    sys.exit(not start(chosen, precise, int(world), counts, Path(folder)))
