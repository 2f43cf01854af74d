"""Interactions drawn from a known latent-factor model, whose own hit rate can be beaten by luck only.

User u likes item i by the utility s(u, i) = SHARPNESS p(u).q(i) + b(i), with normal factors and biases. Each user takes
items one after another without repeats, each with probability proportional to exp(s) among those not taken yet
(Plackett-Luce). The last one is held out, so given the history it has the probabilities that a softmax of s gives to
the unseen items: ordering candidates by s is the best order there is.
"""

from __future__ import annotations

import numpy as np

from tasks.recommendation.protocol import Interactions

SEED = 6
USERS, ITEMS, FACTORS, HISTORY = 1000, 500, 3, 51
SHARPNESS, POPULARITY = 2.0, 0.5


def utilities() -> np.ndarray:
    """The true model's utilities s, float64 [USERS, ITEMS]."""
    return _draw()[0]


def interactions() -> Interactions:
    """HISTORY interactions of each user; the time is the place in the user's history."""
    _, taken = _draw()
    users = np.repeat(np.arange(USERS), HISTORY)
    return Interactions("the generated interactions", users, taken.ravel(), np.tile(np.arange(HISTORY), USERS))


def _draw() -> tuple[np.ndarray, np.ndarray]:
    """Utilities, and the items int64 [USERS, HISTORY] taken: the largest of s + Gumbel noise, in order."""
    random = np.random.Generator(np.random.PCG64(SEED))
    p, q = random.standard_normal((USERS, FACTORS)), random.standard_normal((ITEMS, FACTORS))
    s = SHARPNESS * p @ q.T + POPULARITY * random.standard_normal(ITEMS)
    return s, np.argsort(-s - random.gumbel(size=s.shape), 1, kind="stable")[:, :HISTORY]
