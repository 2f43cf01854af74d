"""Show what a run got wrong: `python -m tasks.speech.transcripts RUN`.

RUN is a run's evidence folder. Prints each transcript with errors in jiwer's alignment, S for a substituted word, D for
one left out, I for one put in, and how many transcripts are right.
"""

from __future__ import annotations

import json
from pathlib import Path

import jiwer
import yaml

from suite import config
from suite.errors import OneLineParser, UserError, command
from suite.store.arrays import prepared
from suite.store.task import load_task


def main(argv: list[str]) -> int:
    """Print; see the module."""
    parser = OneLineParser(prog="python -m tasks.speech.transcripts", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data-dir", help="where the dataset lies; default: $SUITE_DATA, else the user's cache folder")
    given = parser.parse_args(argv)
    try:
        scale = yaml.safe_load((given.run / "config.yaml").read_text())["scale"]
        heard = [json.loads(line) for line in (given.run / "predictions.jsonl").read_text().splitlines()]
    except OSError as error:
        raise UserError(f"{error.filename} cannot be read: name the evidence folder of a run.") from error
    if not heard:
        raise UserError(f"{given.run} has no predictions: name a run that was evaluated.")
    data = prepared(config.benchmark("speech", scale), load_task("speech"), given.data_dir)
    said = bytes(data["answer_texts"]).decode().split("\n")
    wrong = [pair for pair in zip(said, heard, strict=True) if pair[0] != pair[1]]
    for reference, hypothesis in wrong:
        aligned = jiwer.visualize_alignment(jiwer.process_words(reference, hypothesis), show_measures=False)
        print("\n".join(aligned.splitlines()[1:]).strip("\n") + "\n")
    print(f"{len(said) - len(wrong)} of {len(said)} transcripts are right")
    return 0


if __name__ == "__main__":
    command(main)
