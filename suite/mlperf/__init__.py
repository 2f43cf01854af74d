"""MLPerf Training submissions, reviewed by MLCommons' own rule files and, strictly, by checks of our own.

`review` is the entrance. `rulefiles` takes the files from the installed wheel and holds them to their pinned sums,
`compiling` makes functions of them, `lines` reads a log, `engine` holds it to the rules, `wording` and `deciding` say
why it breaks one, `strict` adds what the files let through; `packages`, `systems` and `scores` are about the folders
around the logs.
"""

from suite.mlperf.reviewing import Provenance, Review, review
from suite.mlperf.rulefiles import rulesets

__all__ = ["Provenance", "Review", "review", "rulesets"]
