"""How fast ImageNet's archives become shards, and their images what a ResNet sees: `python -m tests.bench.jpegs`.

A thousand made-up pictures of ImageNet's sizes, in the archives of `tests.imagenet`, in a folder that is removed. Rates
are per second of a CPU's work, so that a busy machine changes them little.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from reference_impls.image_classification.pictures import test_image, training_image
from reference_impls.image_classification.resnet import Hyperparameters
from suite import config
from tasks.image_classification.index import Pictures, read_index
from tasks.image_classification.jpegs import Jpegs
from tests.imagenet import in_the_place_of_imagenet, make_all, write_archives

PICTURES = Pictures("imagenet-jpeg", 1000, 100, 50, 16, 1 << 23, 1 << 24)


def timed(call: Callable[[], object]) -> float:
    """Seconds of the CPU."""
    before = time.process_time()
    call()
    return time.process_time() - before


def main() -> None:
    """Print how large the pictures are, and the rates."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.jpegs", description=str(__doc__).splitlines()[0])
    parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        write_archives(Path(folder), PICTURES)
        stack.enter_context(in_the_place_of_imagenet(Path(folder), PICTURES))
        before = time.process_time()
        data = make_all(Path(folder))
        making = time.process_time() - before
        data["train_lengths"] = read_index("full", Path(folder))[0]["length"]
        jpegs = Jpegs(data, "train")
        hyper = Hyperparameters.of(config.benchmark("image_classification", "full").hyperparameters)
        random = np.random.default_rng(0)
        trained = timed(lambda: [training_image(file, hyper, random) for file in jpegs])
        tested = timed(lambda: [test_image(file, hyper) for file in jpegs])
    print(f"{len(jpegs)} pictures of {np.mean(data['train_lengths']) / 1e3:.0f} kB in the mean")
    print(f"shards: {(PICTURES.train + PICTURES.test) / making:,.0f} pictures a second")
    print(f"images to train on: {len(jpegs) / trained:.0f} a second, to test: {len(jpegs) / tested:.0f}")


if __name__ == "__main__":
    main()
