"""How fast training data comes from a disk: `python -m tests.bench.loader [--size 1000] [--seconds 3] [--folder DIR]`.

The loaders of the three `full` benchmarks, which both frameworks share, on made-up data of the real form: `size`
pictures, 20 times as many pairs of sentences, 100,000 times as many tokens, below DIR in a folder that is removed.
Rates are in samples: tokens, pictures, places. `warm` and `cold` are a worker's on all CPUs of this machine, the
latter in the first epoch after the files were dropped from memory, and not known where a file system keeps them there.
`of a CPU` is per second of a CPU's work, so that a busy machine changes it little. `taken` is what eight accelerators
take by what was published (docs/full-scale.md), and then the CPUs and the bytes a second that this asks for.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from reference_impls.ahead import Ahead
from reference_impls.image_classification import pictures, resnet
from reference_impls.language_modeling import gpt
from reference_impls.translation import transformer
from suite import config
from suite.harness.implementation import Device
from tasks.image_classification.index import Pictures, read_index
from tasks.translation import shards as pairs
from tests.imagenet import in_the_place_of_imagenet, write_archives
from tests.imagenet import make_all as make_jpegs
from tests.wmt import in_the_place_of_wmt
from tests.wmt import make_all as make_pairs

DEVICE = Device("cpu", "fp32")
HEADER = 1024  # bytes before a shard's tokens
BLOCK = 8 << 20  # bytes of a read


@dataclass(frozen=True)
class Loader:
    """What a benchmark's `files` give: `batches` opens them anew and tells how many samples each next batch has.

    An epoch has so many samples at least. `taken` samples a second, of so many bytes each, are what eight accelerators
    take by what was published.
    """

    name: str
    files: Sequence[Path]
    batches: Callable[[], Iterator[int]]
    epoch: int
    taken: float
    bytes: float


def tokens(folder: Path, size: int) -> Loader:
    """Two shards of tokens. Record 8 took 10.8 min on eight H100s for all of the budget."""
    benchmark = config.benchmark("language_modeling", "full")
    hyper = gpt.Hyperparameters.of(benchmark.hyperparameters)
    count, random = size * 50_000, np.random.default_rng(0)
    hyper = replace(hyper, global_batch_size=min(hyper.global_batch_size, count // 4096 * 1024))
    files = [folder / f"fineweb_train_{i}.bin" for i in range(2)]
    for file in files:
        file.write_bytes(bytes(HEADER) + random.integers(0, 50_257, count, np.uint16).tobytes())

    def batches() -> Iterator[int]:
        data = {f"train_tokens_{i}": np.memmap(file, np.uint16, "r", HEADER) for i, file in enumerate(files)}
        ahead = Ahead(gpt.Sequences(data, hyper, 1, DEVICE).iterate(0))
        while True:
            yield next(ahead)[:, 1:].size

    return Loader(benchmark.name, files, batches, 2 * count, benchmark.budget_samples / (10.8 * 60), 2)


def images(folder: Path, size: int) -> Loader:
    """Shards of JPEG files. NVIDIA took 13.27 min on eight H100s for 35 epochs (round 4.0)."""
    benchmark = config.benchmark("image_classification", "full")
    like = Pictures("imagenet-jpeg", size, size // 10, min(50, size // 4), 16, 1 << 23, 1 << 24)
    write_archives(folder, like)
    with in_the_place_of_imagenet(folder, like):
        made = make_jpegs(folder)
        index = read_index("full", folder)[0]
    lengths, labels = np.ascontiguousarray(index["length"]), index["label"]
    hyper = resnet.Hyperparameters.of(benchmark.hyperparameters)
    group = min(hyper.norm_batch_size, size // 4)
    hyper = replace(hyper, norm_batch_size=group, global_batch_size=4 * group)
    files = {name: Path(str(each.filename)) for name, each in made.items() if name.startswith("train_")}

    def batches() -> Iterator[int]:
        data: dict[str, np.ndarray] = {name: np.memmap(file) for name, file in files.items()}
        data |= {"train_lengths": lengths, "train_labels": labels}
        for made_up, _ in pictures.Training(data, hyper, 1, DEVICE).iterate(0):
            yield len(made_up)

    taken, of_each = 35 * 1_281_120 / (13.27 * 60), 147_897_477_120 / 1_281_167
    return Loader(benchmark.name, with_bytes(files.values()), batches, 4 * group, taken, of_each)


def sentences(folder: Path, size: int) -> Loader:
    """Shards of pairs. NVIDIA took 7.84 min on eight A100s for three epochs of some 160 million places, of 0.81 GB."""
    benchmark = config.benchmark("translation", "full")
    full, count = pairs.TEXTS["full"], 20 * size
    subwords = min(full.subwords, 300 + 2 * count)
    like = pairs.Text(full.folder, count, subwords, 1, 2, count * 100, full.model_bytes, full.test_bytes)
    with in_the_place_of_wmt(folder, like, 100):
        made = {name: each for name, each in make_pairs(folder).items() if name.startswith("train_")}
    hyper = transformer.Hyperparameters.of(benchmark.hyperparameters)
    hyper = replace(hyper, global_batch_size=hyper.part_size)
    files = {name: Path(str(each.filename)) for name, each in made.items()}
    epoch = transformer.Pairs(made, hyper, 1, DEVICE).steps_per_epoch * hyper.global_batch_size

    def batches() -> Iterator[int]:
        data = {name: np.memmap(file, "<u2", "r") for name, file in files.items()}
        ahead = Ahead(transformer.Pairs(data, hyper, 1, DEVICE).iterate(0))
        while True:
            yield len(next(ahead)) * hyper.part_size

    return Loader(benchmark.name, with_bytes(files.values()), batches, epoch, 3 * 160e6 / (7.84 * 60), 0.81e9 / 160e6)


def with_bytes(files: Iterable[Path]) -> list[Path]:
    """Those that are not all zeros, which are not on the disk."""
    return [file for file in files if held(file)]


LOADERS = (tokens, images, sentences)


def rates(loader: Loader, most: float, seconds: float) -> tuple[float, float]:
    """Samples a second, and per second of a CPU's work, of at most so many samples and seconds."""
    batches, count = loader.batches(), 0
    began, worked = time.perf_counter(), time.process_time()
    while count < most and time.perf_counter() - began < seconds:
        count += next(batches)
    return count / (time.perf_counter() - began), count / (time.process_time() - worked)


def dropped(files: Sequence[Path]) -> bool:
    """Drop files from the system's memory; whether all are gone from it, of each the first and a middle page."""
    gone = True
    for file in files:
        with file.open("rb") as opened:
            number = opened.fileno()
            os.fsync(number)
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
            for at in (0, held(file) // 2):
                with suppress(BlockingIOError):
                    os.preadv(number, [bytearray(1)], at, os.RWF_NOWAIT)
                    gone = False
    return gone


def sequential(files: Sequence[Path]) -> float:
    """Bytes a second of reading what files hold from the first byte to the last."""
    block, began = memoryview(bytearray(BLOCK)), time.perf_counter()
    for file in files:
        with file.open("rb", 0) as opened:
            for at in range(0, held(file), BLOCK):
                opened.readinto(block[: held(file) - at])
    return sum(map(held, files)) / (time.perf_counter() - began)


def held(file: Path) -> int:
    """How many of a file's bytes are on the disk: the zeros at the end of a shard are not."""
    return min(file.stat().st_blocks * 512, file.stat().st_size)


def main(argv: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.loader", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args(argv)
    print("| | of a CPU | warm | cold | disk, MB/s | taken | CPUs | MB/s |")
    print("|---|---|---|---|---|---|---|---|")
    for make in LOADERS:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            loader = make(Path(folder), args.size)
            disk = sequential(loader.files) / 1e6 if dropped(loader.files) else None
            cold = rates(loader, loader.epoch, args.seconds)[0] if dropped(loader.files) else None
            warm, of_cpu = rates(loader, float("inf"), args.seconds)
            asked = f"{loader.taken:,.0f} | {loader.taken / of_cpu:,.2f} | {loader.taken * loader.bytes / 1e6:,.1f}"
            print(
                f"| {loader.name} | {of_cpu:,.0f} | {warm:,.0f} | {_shown(cold)} | {_shown(disk)} | {asked} |",
                flush=True,
            )
    return 0


def _shown(value: float | None) -> str:
    return "not known" if value is None else f"{value:,.0f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
