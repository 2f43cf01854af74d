"""Trials, over many draws, of what an implementation draws from its own random numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from suite.check.equivalence.states import is_float
from suite.check.equivalence.trainee import found, train
from suite.harness.implementation import Implementation
from suite.record.equivalence import CHANCE, Trial
from suite.record.states import State

DRAWS = 32
LEAST = 1e-300  # the smallest chance that is reported
UNLIKELY = 4.0  # bound of -log10 of the chance that draws of one distribution differ as much

Pair = tuple[Implementation, Implementation]


def of_dropout(precision: str, calm: Pair, wet: Pair, states: Sequence[State]) -> Trial:
    """Test whether what dropout adds to the loss, by its pair `calm` without, has the same distribution in both."""
    trial = f"what dropout adds to the loss: {CHANCE} that both draw alike"
    added: tuple[list[float], list[float]] = ([], [])
    for state in states:
        for each, without_it, made in zip(added, calm, wet, strict=True):
            without, with_it = train(without_it, state, 1).loss, train(made, state, 1).loss
            if with_it is None or without is None:
                return found(trial, precision, None, None, remark="train_until tells no loss")
            each.append(with_it - without)
    if not np.isfinite(added[0]).all():
        return found(trial, precision, None, None, remark="the reference's loss is not finite")
    means = " and ".join(f"{np.mean(each):.3g}" for each in added)
    return found(trial, precision, unlikelihood(*added), UNLIKELY, remark=f"means {means} of {DRAWS} draws")


def of_steps(precision: str, pair: Pair, states: Sequence[State]) -> Iterator[Trial]:
    """Test whether the losses of many steps, and the lengths of each array's ways, have the same distribution in both.

    The lengths are compared in pairs, by their logarithms: both take the same step at the same learning rate.
    """
    names = [name for name, array in states[0].items() if is_float(array)]
    losses: tuple[list[float], list[float]] = ([], [])
    lengths: tuple[dict[str, list[float]], dict[str, list[float]]] = ({n: [] for n in names}, {n: [] for n in names})
    for state in states:
        for loss, length, made in zip(losses, lengths, pair, strict=True):
            ended = train(made, state, 1)
            loss.append(math.nan if ended.loss is None else ended.loss)
            for name in names:
                length[name].append(float(np.linalg.norm((ended.state[name] - state[name]).astype(np.float64))))
    remark = f"of {DRAWS} steps with draws of its own"
    if not np.isnan(losses).any():
        trial = f"the loss of a step: {CHANCE} that both draw alike"
        yield found(trial, precision, unlikelihood(*losses), UNLIKELY, remark=remark)
    unlike = {name: unlikely_ratio(lengths[0][name], lengths[1][name]) for name in names}
    worst = max(names, key=lambda name: unlike[name])
    trial = f"the length of a step: {CHANCE} that both go as far"
    yield found(trial, precision, unlike[worst], UNLIKELY + math.log10(len(names)), worst, remark)


def unlikelihood(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """-log10 of the chance that two samples of one distribution differ as much (Kolmogorov-Smirnov test)."""
    from scipy.stats import ks_2samp  # only where it is used: it takes a second to import

    return rarity(float(ks_2samp(ours, theirs).pvalue))


def unlikely_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """-log10 of the chance that pairs whose ratios lie around 1 are as far from it (paired t-test of logarithms)."""
    from scipy.stats import ttest_rel  # as above

    pairs = np.array([ours, theirs])
    pairs = pairs[:, pairs.any(axis=0)]  # without steps in which neither moved, as in a frozen array
    if np.array_equal(*pairs):
        return 0.0
    if not (pairs > 0).all():
        return rarity(0.0)
    return rarity(float(ttest_rel(*np.log(pairs)).pvalue))


def rarity(chance: float) -> float:
    """-log10 of a chance: 0 for what is certain."""
    return abs(math.log10(max(chance, LEAST)))
