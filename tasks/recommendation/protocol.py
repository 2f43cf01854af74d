"""Leave-one-out evaluation with sampled negatives (He et al. 2017, arXiv:1708.05031), made exact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from suite.errors import UserError

SEED = 20_17_08_05  # of the negatives
MIN_HISTORY = 2  # one item to hold out, one to know the user by
_BLOCK = 1000  # users drawn for at a time


@dataclass(frozen=True)
class Interactions:
    """Who took what, and when: three int64 arrays [N]. `source` names them in errors."""

    source: str
    users: np.ndarray
    items: np.ndarray
    times: np.ndarray


def leave_one_out(given: Interactions, negatives: int) -> dict[str, np.ndarray]:
    """Hold out each user's last interaction, to be found among `negatives` items that the user never took.

    Users [U] and items [I] are numbered from 0 in the ascending order of their ids.

    - Interactions of a user are ordered by time; of those at one time, the later in the source is the later one.
    - An item that a user took more than once counts once, at the first time: no test item is in the user's training
      data, and no candidate appears twice.
    - Negatives are drawn uniformly and without replacement (PCG64) from the items that the user never took.
    - Candidates are in ascending order, so that the place of the right one tells nothing.

    Returns
      `train_users`, `train_items` int32 [N - U], by user and then by time;
      `test_candidates` int32 [U, 1 + negatives], row u for user u; `answer_items` int32 [U], the one taken;
      `item_ids` int64 [I], the source's own.

    Raises UserError for a user with too short a history or too few unseen items.
    """
    user_ids, users = np.unique(given.users, return_inverse=True)
    item_ids, items = np.unique(given.items, return_inverse=True)
    order = np.lexsort((given.times, users))  # stable
    users, items = users[order], items[order]
    _, first = np.unique(users * len(item_ids) + items, return_index=True)
    kept = np.sort(first)
    users, items = users[kept], items[kept]
    history = np.bincount(users)
    for wrong, what in (
        (history < MIN_HISTORY, f"at least {MIN_HISTORY} different items, one of them to be held out"),
        (history > len(item_ids) - negatives, f"at least {negatives} of {len(item_ids)} items not taken"),
    ):
        if wrong.any():
            user = int(wrong.argmax())
            raise UserError(
                f"{given.source}: user {user_ids[user]} took {history[user]} different items; expected {what}. "
                "Leave the user out, or bring the file as it was published."
            )
    last = np.cumsum(history) - 1
    test = items[last]
    train = np.ones(len(users), bool)
    train[last] = False
    drawn = _unseen(users, items, len(item_ids), negatives)
    return {
        "train_users": users[train].astype(np.int32),
        "train_items": items[train].astype(np.int32),
        "test_candidates": np.sort(np.concatenate([drawn, test[:, None]], 1), 1).astype(np.int32),
        "answer_items": test.astype(np.int32),
        "item_ids": item_ids.astype(np.int64),
    }


def _unseen(users: np.ndarray, items: np.ndarray, count: int, negatives: int) -> np.ndarray:
    """For each user `negatives` different ones of the `count` items, none of which is among the user's."""
    random = np.random.Generator(np.random.PCG64(SEED))
    drawn = []
    for first in range(0, int(users[-1]) + 1, _BLOCK):
        low, high = np.searchsorted(users, (first, first + _BLOCK))
        keys = random.random((int(users[high - 1]) + 1 - first, count))
        keys[users[low:high] - first, items[low:high]] = 2
        drawn.append(np.argpartition(keys, negatives, 1)[:, :negatives])
    return np.concatenate(drawn)
