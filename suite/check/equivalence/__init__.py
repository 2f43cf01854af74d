"""Whether an implementation is the reference up to rounding, measured from one state to the next.

Names and shapes of a state are alike in every implementation, so any of them can be put where the other stands. From
one state both predict, and both take the same steps; what they then have is compared array by array.

What is compared is the way that an array went, its new value less its old one. Of two ways from one state `distance` is
the length of their difference over the length of the reference's, 0 for the same step: a learning rate that is 5 % off
puts every array that it rules at 0.05, half a batch left out puts them near 1. Rounding puts them somewhere as well,
and how far hangs on the array: a bias before a normalisation has no gradient but rounding. So the reference itself says
what rounding does: it takes the same step from states that were nudged by as much as a step's rounding comes to, and an
array may be `slack` times as far off as the worst of these, or as `distance` in conf/equivalence.yaml where that is
more. An array that a nudge sends anywhere is not judged, and named. Of predictions as many may differ as a nudge
changes.

A state that training found hides much: where all examples are classified well, statistics of the batch serve as well as
running ones. So both also predict and step from that state shaken, every number multiplied by one drawn around 1. And
what a recipe sets so small that no step shows it, decay and epsilon, both are given many times as large.

Dropout draws from each framework's own numbers. Both step without it; then what it does to the loss over many draws,
from one state and on the same batches, is one distribution or two (Kolmogorov and Smirnov).

`trials` runs all of it, `held` shows and writes what it found, `ways` measures two steps, `states` alters a state.
"""
