"""Trials of whether an implementation equals the reference up to rounding, from one state to the next.

A state's arrays have the same names and shapes in every implementation, so both can load the same state. From it, both
predict and take the same steps, and the results are compared array by array.

Each array is compared by its way: its new value minus its old one. `distance` is the norm of the difference between the
two ways over the norm of the reference's, 0 for the same step. A learning rate that is 5 % off puts every array that it
governs at 0.05; half a batch left out puts them near 1. Rounding adds a distance as well, which depends on the array: a
bias before a normalisation has no gradient but rounding. So the reference itself shows what rounding does: it takes the
same step from states nudged by as much as a step's rounding. An array may be `slack` times as far off as the worst of
these, or as far as `distance` in conf/equivalence.yaml if that is more. An array that a nudge sends anywhere is not
judged. As many predictions may differ as a nudge changes, or as `predictions` allows if that is more.

A trained state hides mistakes: where all examples are classified well, batch statistics serve as well as running ones.
So both also predict and step from that state shaken, with every number multiplied by one drawn around 1. Decay and
epsilon are so small in a recipe that no step shows them, so both also step with values many times as large.

Dropout draws from each framework's own random numbers, so both step without it. What it adds to the loss over many
draws, from one state and on the same batches, is compared by the Kolmogorov-Smirnov test.

`trials` runs all of this, `draws` those of many draws; `trainee` takes the steps, `ways` measures two of them, `states`
alters a state; `report` shows and writes the results.
"""
