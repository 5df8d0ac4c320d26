"""One rule from a label to a probability, used by votes, displays and training targets alike.

A key's label counts for its full weight. An agent that states a bare label is believed less: its label moves the
probability that a sentence is essential only within `DOUBTED`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from archqa.core.judgement import Judgement, Relevance

LABEL_WEIGHT = {
    Relevance.ESSENTIAL: 1.0,
    Relevance.SUPPLEMENTARY: 0.25,
    Relevance.NOT_RELEVANT: 0.0,
}
"""How much of "essential" a label of a key says: the training target of the cross-encoder."""

DOUBTED = (0.1, 0.8)
"""Probability of a sentence that an agent labels not-relevant, and of one that it labels essential."""

LOWEST, HIGHEST = 0.02, 0.98
"""Bounds of what a single vote can say."""


def label_probability(label: Relevance) -> float:
    """The probability of being essential that an agent's bare label stands for."""
    lowest, highest = DOUBTED
    return lowest + (highest - lowest) * LABEL_WEIGHT[label]


def stated_probability(judgement: Judgement) -> float:
    """The probability in a judgement, else what its label stands for."""
    return (
        label_probability(judgement.label)
        if judgement.probability is None
        else judgement.probability
    )


def mean_probabilities(judgements: Mapping[str, Iterable[Judgement]]) -> dict[str, float]:
    """Sentence id to the mean of the probabilities that its judges state."""
    stated: dict[str, list[float]] = {}
    for by_agent in judgements.values():
        for judgement in by_agent:
            stated.setdefault(judgement.sentence_id, []).append(stated_probability(judgement))
    return {sentence_id: sum(values) / len(values) for sentence_id, values in stated.items()}


def log_odds(probability: float) -> float:
    """The log-odds of a single vote, bounded by `LOWEST` and `HIGHEST`."""
    bounded = min(max(probability, LOWEST), HIGHEST)
    return math.log(bounded / (1 - bounded))


def from_log_odds(odds: float) -> float:
    """The probability of log-odds; beyond 40 either way nothing changes."""
    return 1 / (1 + math.exp(-max(-40.0, min(40.0, odds))))


def pool(probabilities: Sequence[float]) -> float:
    """One vote from several of the same voter: the mean in log-odds. Raises `ValueError` for none."""
    if not probabilities:
        raise ValueError("There is no vote to pool.")
    if len(set(probabilities)) == 1:
        return probabilities[0]
    return from_log_odds(sum(map(log_odds, probabilities)) / len(probabilities))
