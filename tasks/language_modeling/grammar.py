"""A stochastic grammar of known probabilities, which generates the text of `mini`, and the entropy of that text.

An article names its topic and goes on with sentences. A subject may take a relative clause, whose subject may take
another one: verbs come in the reverse order of their subjects, and each agrees with its own in number.

    article  -> topic sentence+ <eos>
    sentence -> clause [object] "."
    clause   -> adjective* noun ["that" clause] adverb* verb
    object   -> adjective* noun

The topic decides which nouns and verbs are frequent. A prefix of the text determines the grammar's state, so the
source is unifilar (Shannon 1948): the probability of each next word is that of the state, and the entropy rate is the
mean of the states' entropies under their stationary distribution.
"""

from __future__ import annotations

from bisect import bisect
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

TOPICS, NOUNS, VERBS, ADJECTIVES, ADVERBS = 6, 20, 12, 6, 4
DEPTH = 3  # subjects that wait for their verbs, at most
ANOTHER_SENTENCE, ADJECTIVE, RELATIVE_CLAUSE, ADVERB, OBJECT = 0.85, 0.3, 0.35, 0.3, 0.5  # probabilities
NUMBERS = ("singular", "plural")


class State(NamedTuple):
    """What a prefix decides: the `place` of the next word, the topic, and the numbers of the subjects that wait."""

    place: str
    topic: int = 0
    waiting: tuple[str, ...] = ()


START = State("article")
Choices = list[tuple[str, float, State]]  # each word that can come next, its probability, the state after it


@cache
def choices(state: State) -> Choices:
    """What can come after a prefix that leads to `state`; the probabilities sum to 1."""
    place, topic, waiting = state
    if place == "article":
        return [(f"topic{i}", 1 / TOPICS, State("subject", i)) for i in range(TOPICS)]
    if place == "sentence":
        return mixed(ANOTHER_SENTENCE, choices(State("subject", topic)), [("<eos>", 1.0, START)])
    if place == "subject":
        nouns = [
            (f"{noun}.{number}", p / 2, State("relative clause", topic, (*waiting, number)))
            for noun, p in zipf("noun", NOUNS, topic)
            for number in NUMBERS
        ]
        return mixed(ADJECTIVE, staying("adjective", ADJECTIVES, state), nouns)
    if place == "relative clause":
        verb = State("verb", topic, waiting)
        if len(waiting) == DEPTH:
            return choices(verb)
        return mixed(RELATIVE_CLAUSE, [("that", 1.0, State("subject", topic, waiting))], choices(verb))
    if place == "verb":
        *others, number = waiting
        after = State("verb" if others else "object", topic, tuple(others))
        verbs = [(f"{verb}.{number}", p, after) for verb, p in zipf("verb", VERBS, topic)]
        return mixed(ADVERB, staying("adverb", ADVERBS, state), verbs)
    if place == "object":
        return mixed(OBJECT, choices(State("object's noun", topic)), choices(State("end", topic)))
    if place == "object's noun":
        nouns = [
            (f"{noun}.{number}", p / 2, State("end", topic))
            for noun, p in zipf("noun", NOUNS, topic)
            for number in NUMBERS
        ]
        return mixed(ADJECTIVE, staying("adjective", ADJECTIVES, state), nouns)
    assert place == "end"
    return [(".", 1.0, State("sentence", topic))]


def mixed(probability: float, these: Choices, others: Choices) -> Choices:
    """`these` with the given probability, otherwise `others`."""
    return [
        *((word, probability * p, after) for word, p, after in these),
        *((word, (1 - probability) * p, after) for word, p, after in others),
    ]


def staying(kind: str, count: int, state: State) -> Choices:
    """A word of a kind, after which the state is the same."""
    return [(word, p, state) for word, p in zipf(kind, count)]


def zipf(kind: str, count: int, topic: int = 0) -> list[tuple[str, float]]:
    """The words of a kind with probabilities in proportion to 1, 1/2, 1/3, ..., in an order given by the topic."""
    weights = [1 / (1 + (7 * i + 3 * topic) % count) for i in range(count)]
    return [(f"{kind}{i}", weight / sum(weights)) for i, weight in enumerate(weights)]


@cache
def states() -> list[State]:
    """Every state that can be reached from the start of an article."""
    found = [START]
    for state in found:
        found += dict.fromkeys(after for _, _, after in choices(state) if after not in found)
    return found


def vocabulary() -> list[str]:
    """All words, sorted."""
    return sorted({word for state in states() for word, _, _ in choices(state)})


def entropy_rate() -> float:
    """Nats per word of an endless text: sum over states of stationary probability x entropy of the next word."""
    index = {state: i for i, state in enumerate(states())}
    step, entropy = np.zeros((len(index), len(index))), np.zeros(len(index))
    for state, i in index.items():
        for _, p, after in choices(state):
            step[i, index[after]] += p
            entropy[i] -= p * np.log(p)
    balance = np.vstack([step.T - np.eye(len(index)), np.ones(len(index))])
    stationary = np.linalg.lstsq(balance, np.append(np.zeros(len(index)), 1.0), rcond=None)[0]
    return float(stationary @ entropy)


def sample(words: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A text of that many words from the start of an article: numbers in `vocabulary()` uint8 [words], and the
    log-probabilities in nats float32 [words] that the grammar gave them."""
    index = {state: i for i, state in enumerate(states())}
    number = {word: i for i, word in enumerate(vocabulary())}
    cumulative = [list(accumulate(p for _, p, _ in choices(state)))[:-1] for state in states()]
    following = [[(number[word], np.log(p), index[after]) for word, p, after in choices(s)] for s in states()]
    text, log_probabilities, state = np.empty(words, np.uint8), np.empty(words, np.float32), index[START]
    for i, draw in enumerate(np.random.default_rng(seed).random(words).tolist()):
        text[i], log_probabilities[i], state = following[state][bisect(cumulative[state], draw)]
    return text, log_probabilities
