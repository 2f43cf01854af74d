"""Several workers against one, of the same batches: `python -m tests.bench.workers [--steps 20] [TASK ...]`.

A table for each framework, by task and number of workers. After the steps: the distance of the parameters as a fraction
of their length, that of the loss, and how many predictions are the same. In fp32, and in PyTorch in fp64 as well:
where the distances in fp32 are those of rounding that grew, those in fp64 stay at its precision. At mini, without
dropout; a step of reinforcement_learning is an iteration, of 80 gradient steps.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from suite import config
from tests.workers import compare, start

PRECISIONS = {"torch": ("fp32", "fp64"), "tensorflow": ("fp32",)}


def main(argv: list[str]) -> int:
    """Print the tables; 1 where workers failed, or have other states than each other."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.workers", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("tasks", nargs="*", default=config.names("task"))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--framework", choices=PRECISIONS, action="append")
    args = parser.parse_args(argv)
    steps = {task: max(2, args.steps // 80) if task == "reinforcement_learning" else args.steps for task in args.tasks}
    good = True
    for framework in args.framework or PRECISIONS:
        for precision in PRECISIONS[framework]:
            print(f"| {framework}, {precision} | workers | steps | parameters | loss | same predictions |")
            print("|---|---|---|---|---|---|")
            with tempfile.TemporaryDirectory() as folder:
                good = all(start(framework, precision, n, steps, Path(folder, str(n))) for n in (1, 2, 3)) and good
                for task, number in steps.items():
                    for size in (2, 3):
                        found = compare(task, Path(folder, "1"), Path(folder, str(size)), size)
                        same = f"{found.same_predictions} of {found.predictions}"
                        print(f"| {task} | {size} | {number} | {found.parameters:.1e} | {found.loss:.1e} | {same} |")
                        good = good and found.alike
    return int(not good)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
