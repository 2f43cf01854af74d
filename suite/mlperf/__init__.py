"""Review MLPerf Training submissions by MLCommons' own rule files and, on request, by stricter checks of our own.

`review` is the entry point. `rulefiles` reads the files from the installed wheel and verifies their pinned sums,
`compiling` turns them into functions, `lines` reads a log, `engine` checks it against the rules, `wording` and
`deciding` say why it breaks one, `strict`, `policy` and `comparing` check what the files let through; `packages`,
`systems` and `scores` handle the folders around the logs.
"""

from suite.mlperf.reviewing import Provenance, Review, review
from suite.mlperf.rulefiles import rulesets

__all__ = ["Provenance", "Review", "review", "rulesets"]
