"""How fast WMT's archives become shards, and in how much memory: `python -m tests.bench.pairs [PAIRS]`.

Made-up sentences of WMT's lengths, in the archives of `tests.wmt`, in a folder that is removed. Rates are per second of
a CPU's work, so that a busy machine changes them little.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path

import numpy as np

from tasks.translation import shards
from tasks.translation.subwords import END
from tests.wmt import in_the_place_of_wmt

SHARDS = 4


def made(folder: Path, like: shards.Text, name: str) -> tuple[float, float]:
    """Make a file of `full`, in a process of its own: seconds of the CPU, and the process's peak of memory in MB."""
    path = f"{like.folder}/{name}.bin"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_make, (folder, like, path))


def _make(folder: Path, like: shards.Text, path: str) -> tuple[float, float]:
    shards.TEXTS["full"] = like
    before = time.process_time()
    shards.make("full", folder, path, folder / path)
    spent = time.process_time() - before
    # Not ru_maxrss, which is never less than what the parent had when it started this process
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return spent, int(status["VmHWM"].split()[0]) * 1024 / 1e6


def main() -> None:
    """Print the rates and the peaks of memory."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.pairs", description=str(__doc__).splitlines()[0])
    parser.add_argument("pairs", nargs="?", type=int, default=20_000, help="default 20000")
    pairs = parser.parse_args().pairs
    full = shards.TEXTS["full"]
    like = shards.Text(full.folder, pairs, full.subwords, 1, SHARDS, pairs * 88, full.model_bytes, full.test_bytes)
    with tempfile.TemporaryDirectory() as name, in_the_place_of_wmt(Path(name), like, 100) as lines:
        folder = Path(name)
        (folder / like.folder).mkdir()
        text = sum(len(line.encode()) for language in lines for line in language)
        learning, memory = made(folder, like, "subwords")
        print(f"{pairs} pairs, {text / 1e6:.0f} MB of text")
        print(f"subwords of all of it: {learning:.0f} s, peak {memory:.0f} MB")
        making, memory = made(folder, like, "train_0000")
        tokens = np.fromfile(folder / like.folder / "train_0000.bin", "<u2")
        held = int((tokens == END).sum()) // 2
        print(f"a shard of {held} of the pairs, all read: {making:.1f} s, peak {memory:.0f} MB; ", end="")
        print(f"{np.count_nonzero(tokens) / held:.1f} subwords a pair")


if __name__ == "__main__":
    main()
