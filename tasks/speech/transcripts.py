"""Show what a run got wrong: `python -m tasks.speech.transcripts RUN`.

RUN is a run's evidence folder. Prints each transcript with errors in jiwer's alignment, S for a substituted word, D for
one left out, I for one put in, and how many transcripts are right.
"""

from __future__ import annotations

from pathlib import Path

import jiwer

from suite import config
from suite.errors import OneLineParser, command
from suite.store.arrays import prepared
from suite.store.task import load_task
from tasks.evidence import predicted, require_scored


def main(argv: list[str]) -> int:
    """Print; see the module."""
    parser = OneLineParser(prog="python -m tasks.speech.transcripts", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data-dir", help="where the dataset lies; default: $SUITE_DATA, else the user's cache folder")
    given = parser.parse_args(argv)
    scale, heard = predicted(given.run, "speech", config.scales("speech"))
    task = load_task("speech")
    data = prepared(config.benchmark("speech", scale), task, given.data_dir)
    require_scored(given.run, task, heard, data)
    said = bytes(data["answer_texts"]).decode().split("\n")
    wrong = [pair for pair in zip(said, heard, strict=True) if pair[0] != pair[1]]
    for reference, hypothesis in wrong:
        aligned = jiwer.visualize_alignment(jiwer.process_words(reference, hypothesis), show_measures=False)
        print("\n".join(aligned.splitlines()[1:]).strip("\n") + "\n")
    print(f"{len(said) - len(wrong)} of {len(said)} transcripts are right")
    return 0


if __name__ == "__main__":
    command(main)
