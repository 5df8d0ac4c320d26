"""The one rule from a label to a probability; votes, displays and training targets use it.

A key's label counts in full. An agent that states a bare label is trusted less: its label moves the
probability that a sentence is essential only between `NOT_RELEVANT_PROBABILITY` and
`ESSENTIAL_PROBABILITY`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from archqa.core.judgement import Judgement, Relevance

LABEL_WEIGHT = {
    Relevance.ESSENTIAL: 1.0,
    Relevance.SUPPLEMENTARY: 0.25,
    Relevance.NOT_RELEVANT: 0.0,
}
"""How essential a sentence with this label of a key is: the training target of the cross-encoder.
"""

NOT_RELEVANT_PROBABILITY = 0.1
"""Probability of being essential of a sentence that an agent labels not-relevant."""

ESSENTIAL_PROBABILITY = 0.8
"""Probability of being essential of a sentence that an agent labels essential."""

MIN_VOTE, MAX_VOTE = 0.02, 0.98
"""Bounds of the probability of a single vote."""

_MAX_LOG_ODDS = 40.0
"""Log-odds beyond which the probability no longer changes in double precision."""


def label_probability(label: Relevance) -> float:
    """The probability of being essential that an agent's bare label stands for."""
    span = ESSENTIAL_PROBABILITY - NOT_RELEVANT_PROBABILITY
    return NOT_RELEVANT_PROBABILITY + span * LABEL_WEIGHT[label]


def stated_probability(judgement: Judgement) -> float:
    """The probability in a judgement, else the one that its label stands for."""
    if judgement.probability is None:
        return label_probability(judgement.label)
    return judgement.probability


def mean_probabilities(judgements: Mapping[str, Iterable[Judgement]]) -> dict[str, float]:
    """Sentence id to the mean of the probabilities that the agents state."""
    stated: dict[str, list[float]] = {}
    for agent_judgements in judgements.values():
        for judgement in agent_judgements:
            probabilities = stated.setdefault(judgement.sentence_id, [])
            probabilities.append(stated_probability(judgement))
    return {sentence_id: sum(values) / len(values) for sentence_id, values in stated.items()}


def log_odds(probability: float) -> float:
    """The log-odds of a single vote, bounded by `MIN_VOTE` and `MAX_VOTE`."""
    bounded = min(max(probability, MIN_VOTE), MAX_VOTE)
    return math.log(bounded / (1 - bounded))


def from_log_odds(odds: float) -> float:
    """The probability of log-odds; beyond `_MAX_LOG_ODDS` in either direction it is constant."""
    bounded = max(-_MAX_LOG_ODDS, min(_MAX_LOG_ODDS, odds))
    return 1 / (1 + math.exp(-bounded))


def pool(probabilities: Sequence[float]) -> float:
    """One vote from several of one voter: their mean in log-odds. Raises `ValueError` for none."""
    if not probabilities:
        raise ValueError("There is no vote to pool.")
    if len(set(probabilities)) == 1:
        return probabilities[0]
    mean = sum(map(log_odds, probabilities)) / len(probabilities)
    return from_log_odds(mean)
